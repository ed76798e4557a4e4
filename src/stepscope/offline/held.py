"""What was taken while a job stood still, as files: PyTorch's flight recorder and stacks by py-spy."""

from __future__ import annotations

from stepscope.model.error import StepscopeError
from stepscope.model.redact import without_secrets
from stepscope.model.report import Input
from stepscope.offline.read import Read, refused, unreadable

HEAD_BYTES = 4096


def is_held(path: str) -> bool:
    """Whether a file is a dump of the flight recorder or stacks, by its first bytes."""
    from stepscope.sources import file
    from stepscope.sources.catalog.flight_recorder import is_flight
    from stepscope.sources.formats.py_spy import is_stacks

    head = file.head(path, HEAD_BYTES)
    return is_flight(head) or is_stacks(head.decode("utf-8", "replace"))


def read_held(name: str) -> Read:
    """One file, without its secrets."""
    from stepscope.sources import file
    from stepscope.sources.catalog import flight_recorder
    from stepscope.sources.formats.py_spy import FORMAT, stacks_of_text

    try:
        whole = file.read(name)
        if flight_recorder.is_flight(whole.data[:HEAD_BYTES]):
            flight = flight_recorder.parse(whole.data, name)
            times = [call.created_ns for call in flight.calls if call.created_ns is not None]
            given = Input(
                kind="log", format=flight_recorder.FORMAT, name=name, bytes=whole.num_bytes,
                sha256=whole.sha256, rank=flight.rank, events=len(flight.calls),
                start_ns=min(times, default=None), end_ns=max(times, default=None),
            )  # fmt: skip
            return Read(given, name, flights=(flight,))
    except StepscopeError as error:
        return refused(name, error, "log")
    except OSError as error:
        return refused(name, unreadable(name, error), "log")
    lines, num_redacted = [], 0
    for line in whole.data.decode("utf-8", "replace").splitlines():
        kept, count = without_secrets(line)
        lines.append(kept)
        num_redacted += count
    stacks = tuple(stacks_of_text(lines, name=name))
    given = Input(
        kind="log", format=FORMAT, name=name, bytes=whole.num_bytes, sha256=whole.sha256,
        rank=stacks[0].rank if len(stacks) == 1 else None, events=len(stacks), redacted=num_redacted,
    )  # fmt: skip
    return Read(given, name, stacks=stacks)
