"""What a server of stepscope's own keeps of a job, as an input: it comes as a spool, and is read as one."""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Mapping

import msgspec

from stepscope.model.error import StepscopeError, UsageError
from stepscope.model.sample import Telemetry
from stepscope.offline.read import Read, refused
from stepscope.sources.formats.frame import SUFFIX
from stepscope.sources.served import Fetched, fetch_window, served_of

MARGIN_NS = 600_000_000_000


def read_served(
    url: str,
    *,
    start_ns: int | None,
    end_ns: int | None,
    environment: Mapping[str, str],
    job: str | None,
    read_spool: Callable[[str, str | None], Read],
) -> Read:
    """The window of the traces, with ten minutes on both sides; without traces the last hour of the job. The
    address itself may say another one. UsageError where it is none."""
    served = served_of(url, environment, job)
    more = []
    if start_ns is not None and end_ns is not None:
        more = [("start", str(max(start_ns - MARGIN_NS, 0))), ("end", str(end_ns + MARGIN_NS))]
    try:
        fetched = fetch_window(served, tuple(more))
    except UsageError:
        raise
    except StepscopeError as error:
        return refused(served.shown, error, "telemetry")
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        path = os.path.join(folder, f"window{SUFFIX}")
        with open(path, "wb") as file:
            file.write(fetched.body)
        read = _named(read_spool(path, job), path, served.shown)
    return _with_choice(read, fetched)


def _with_choice(read: Read, fetched: Fetched) -> Read:
    """Says of which job it is where the server has others and none was named: in the words of a spool."""
    if not fetched.num_others or any(code == "spool_jobs" for t in read.telemetry for code, *_ in t.notes):
        return read
    more = fetched.num_others - len(fetched.others)
    names = ", ".join(fetched.others) + (f" and {more} more" if more > 0 else "")
    note = (
        "spool_jobs",
        fetched.num_others,
        f"job {fetched.job} was read; there are also {names}: choose by --job",
    )
    if read.error is not None:
        return read
    first, *rest = read.telemetry or (Telemetry(read.path, "spool", (), "sample"),)
    first = dataclasses.replace(first, notes=(*first.notes, note))
    return dataclasses.replace(read, telemetry=(first, *rest))


def _named(read: Read, path: str, shown: str) -> Read:
    """The input under the server's name: the file is gone."""
    given = read.input
    given = msgspec.structs.replace(
        given, name=shown, error=given.error.replace(path, shown) if given.error else given.error
    )
    return dataclasses.replace(
        read,
        input=given,
        path=shown,
        telemetry=tuple(
            dataclasses.replace(each, name=each.name.replace(path, shown)) for each in read.telemetry
        ),
        logs=tuple(dataclasses.replace(each, name=each.name.replace(path, shown)) for each in read.logs),
    )
