"""Telemetry and logs that are given beside traces, or alone: files, folders and servers, read one after
another.

What cannot be used is an `Input` with its error, like any trace; a folder gives those of its files that are
telemetry, or logs, and says nothing of the rest.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from stepscope.model import redact
from stepscope.model.error import InputError, StepscopeError, UsageError
from stepscope.model.log import Log
from stepscope.model.report import Input, InputKind
from stepscope.model.sample import Owner, Telemetry
from stepscope.offline.held import is_held, read_held
from stepscope.offline.read import Read, refused, unreadable
from stepscope.offline.served import read_served
from stepscope.sources import file

if TYPE_CHECKING:
    from stepscope.model.mark import RankMarks
    from stepscope.sources.catalog.sealed import SealedRead
    from stepscope.sources.catalog.spool import SpoolRead

_ADDRESS = re.compile(r"^[a-z][a-z0-9+.-]*://", re.IGNORECASE)
HOUR_NS = 3_600_000_000_000


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of a server: the time of the traces and logs, `None` where nothing has any."""

    start_ns: int | None = None
    end_ns: int | None = None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Where a token may be named."""


def asked_of(traces: Sequence[Read], logs: Sequence[Read]) -> Asked:
    """The time that a server is asked for, besides its own margin: from an hour before the traces begin, and
    as the logs go, to the end of both."""
    starts = [read.input.start_ns - HOUR_NS for read in traces if read.input.start_ns is not None]
    starts += [read.input.start_ns for read in logs if read.input.start_ns is not None]
    ends = [read.input.end_ns for read in (*traces, *logs) if read.input.end_ns is not None]
    return Asked(min(starts, default=None), max(ends, default=None), os.environ)


def read_telemetry_inputs(given: Sequence[str], asked: Asked, job: str | None = None) -> list[Read]:
    """Every telemetry input, in the order given. `job` is the one that is read of a spool of several."""
    from stepscope.sources.catalog.sealed import is_sealed
    from stepscope.sources.formats.spool import is_spool
    from stepscope.sources.prometheus import is_prometheus_url
    from stepscope.sources.served import is_served_url

    reads: list[Read] = []
    for path in given:
        if is_prometheus_url(path):
            reads.append(_of_server(path, asked))
        elif is_spool(path):
            reads.append(_of_spool(path, job))
        elif is_sealed(path):
            reads.append(_of_sealed(path, job))
        elif is_served_url(path):
            reads.append(
                read_served(
                    path,
                    start_ns=asked.start_ns,
                    end_ns=asked.end_ns,
                    environment=asked.environment,
                    job=job,
                    read_spool=_of_spool,
                )
            )
        else:
            if _ADDRESS.match(path):
                raise UsageError(_meant(path))
            reads += _of_path(path, "telemetry", _telemetry, _is_telemetry)
    return reads


def _meant(address: str) -> str:
    """The line for an address that names no kind of server; credentials and options are left out."""
    scheme, _, rest = address.partition("://")
    host = rest.split("?")[0].rpartition("@")[2]
    safe = "prometheus+https" if scheme.lower().endswith("https") else "prometheus+http"
    return f"{scheme}://{host}: says not which kind of server it is; give {safe}://{host}"


def read_log_inputs(given: Sequence[str], pattern: str | None = None) -> list[Read]:
    """Every log, in the order given. `pattern` is a line pattern of one's own."""

    def one(path: str) -> Read:
        return read_held(path) if is_held(path) else _log(path, pattern)

    return [read for path in given for read in _of_path(path, "log", one, _is_log)]


def _of_path(
    path: str, kind: InputKind, read: Callable[[str], Read], is_meant: Callable[[str], bool]
) -> list[Read]:
    try:
        if os.path.isdir(path):
            names = sorted(
                os.path.join(folder, name) for folder, _, inside in os.walk(path) for name in inside
            )
            meant = [name for name in names if os.path.isfile(name) and is_meant(name)]
            if not meant:
                raise InputError(path, f"the directory holds no {kind}", "name the file")
            return [_read(name, kind, read) for name in meant]
        return [_read(path, kind, read)]
    except StepscopeError as error:
        return [refused(path, error, kind)]


def _read(name: str, kind: InputKind, read: Callable[[str], Read]) -> Read:
    try:
        return read(name)
    except StepscopeError as error:
        return refused(name, error, kind)
    except OSError as error:
        return refused(name, unreadable(name, error), kind)


def _is_telemetry(path: str) -> bool:
    from stepscope.sources.telemetry import is_telemetry

    return bool(is_telemetry(path, file.head(path, 65536)))


def _is_log(path: str) -> bool:
    from stepscope.sources.log import is_log

    return is_held(path) or bool(is_log(path, file.head(path, 65536)))


def _telemetry(name: str) -> Read:
    from stepscope.sources.telemetry import read_parts

    whole = file.read(name)
    parts = _named([tidy(part) for part in read_parts(name, data=whole.data)], name)
    given = _input(parts, name, whole.num_bytes, whole.sha256)
    return Read(given, name, telemetry=parts, known=hosts_of_telemetry(parts))


def _of_spool(path: str, job: str | None) -> Read:
    """A folder of segments is one input, however many agents wrote into it."""
    from stepscope.sources.catalog.spool import NoJob, read_spool
    from stepscope.sources.marks import marks_of_batches
    from stepscope.sources.spool_column import FORMAT

    try:
        found = read_spool(path, job=job)
    except NoJob:
        raise  # the rest of the inputs cannot stand for the job that was asked for
    except StepscopeError as error:
        return refused(path, error, "telemetry")
    return _of_batches(
        path, found, marks_of_batches(found.marks, found.ends), FORMAT, found.content.num_bytes,
        found.content.digest, found.end_ns,
    )  # fmt: skip


def _of_sealed(path: str, job: str | None) -> Read:
    """Hours of a store are one input, however many files they are."""
    from stepscope.sources.catalog.sealed import FORMAT, read_sealed
    from stepscope.sources.catalog.spool import NoJob
    from stepscope.sources.marks import marks_of_batches

    try:
        found = read_sealed(path, job)
    except (NoJob, UsageError):
        raise
    except StepscopeError as error:
        return refused(path, error, "telemetry")
    return _of_batches(path, found, marks_of_batches(found.marks), FORMAT, found.num_bytes, None, None)


def _of_batches(
    path: str,
    found: SpoolRead | SealedRead,
    marks: Sequence[RankMarks],
    format: str,
    num_bytes: int,
    digest: str | None,
    read_ns: int | None,
) -> Read:
    """What was read of batches, as one input."""
    parts = tuple(tidy(part) for part in found.telemetry)
    given = _input(parts, path, num_bytes, digest)
    starts = [each.start_ns for each in marks if each.start_ns is not None]
    ends = [each.last_ns for each in marks if each.last_ns is not None]
    given = msgspec.structs.replace(
        given,
        format=format,
        events=(given.events or 0) + sum(len(each.number) for each in found.marks),
        start_ns=min([*starts, *([given.start_ns] if given.start_ns is not None else [])], default=None),
        end_ns=max([*ends, *([given.end_ns] if given.end_ns is not None else [])], default=None),
    )
    known = hosts_of_telemetry(parts)
    known = known | redact.Identities(hosts=frozenset(m.identity.host for m in marks if m.identity.host))
    for log in found.logs:
        known = known | hosts_of_log(log)
    return Read(
        given,
        path,
        telemetry=parts,
        logs=found.logs,
        marks=tuple(marks),
        stacks=found.stacks,
        read_ns=read_ns,
        known=known,
    )


def _of_server(url: str, asked: Asked) -> Read:
    from stepscope.sources.prometheus import endpoint_of, read_parts_of_prometheus

    shown = url
    try:
        shown = endpoint_of(url, asked.environment).shown
        end = asked.end_ns
        parts = read_parts_of_prometheus(
            url, start_ns=asked.start_ns, end_ns=end, environment=asked.environment
        )
    except UsageError:
        raise  # the address is wrong, as an option would be
    except StepscopeError as error:
        return refused(shown, error, "telemetry")
    named = _named([tidy(part) for part in parts], shown)
    return Read(_input(named, shown, None, None), shown, telemetry=named, known=hosts_of_telemetry(named))


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def _plain(owner: Owner) -> Owner:
    """The owner without control characters in what the source calls it: they would reach a terminal."""

    def plain(text: str | None) -> str | None:
        return _CONTROL.sub(" ", text).strip() if text and _CONTROL.search(text) else text

    return dataclasses.replace(
        owner,
        uuid=plain(owner.uuid),
        mig=plain(owner.mig),
        pci_bus_id=plain(owner.pci_bus_id),
        model=plain(owner.model),
        host=plain(owner.host),
        name=plain(owner.name),
    )


def tidy(part: Telemetry) -> Telemetry:
    return dataclasses.replace(
        part,
        series=tuple(dataclasses.replace(each, owner=_plain(each.owner)) for each in part.series),
        marks=tuple(
            dataclasses.replace(each, owner=_plain(each.owner) if each.owner is not None else None)
            for each in part.marks
        ),
        labels={_plain(owner): labels for owner, labels in part.labels.items()},
    )


def hosts_of_telemetry(parts: Sequence[Telemetry]) -> redact.Identities:
    """The hosts that telemetry names: identities, like those of traces."""
    named = {series.owner.host for part in parts for series in part.series}
    return redact.Identities(hosts=frozenset(host for host in named if host and host != "localhost"))


def _named(parts: Sequence[Telemetry], name: str) -> tuple[Telemetry, ...]:
    """The parts of one input under names of their own: each has a lag of its own."""
    if len(parts) < 2:
        return tuple(parts)
    return tuple(dataclasses.replace(part, name=f"{name} ({part.format})") for part in parts)


def _log(name: str, pattern: str | None) -> Read:
    from stepscope.sources.log import read_log

    whole = file.read(name)
    told = read_log(name, data=whole.data, pattern=pattern)
    given = _log_input(told, whole.num_bytes, whole.sha256)
    return Read(given, name, log=told, known=hosts_of_log(told))


def hosts_of_log(told: Log) -> redact.Identities:
    hosts = {told.host, *(event.host for event in told.events)}
    return redact.Identities(hosts=frozenset(host for host in hosts if host and host != "localhost"))


def _input(parts: Sequence[Telemetry], name: str, num_bytes: int | None, sha256: str | None) -> Input:
    times = [series.at_ns for part in parts if part.time != "none" for series in part.series if len(series)]
    return Input(
        kind="telemetry",
        format=" + ".join(dict.fromkeys(part.format for part in parts)) or None,
        name=name,
        bytes=num_bytes,
        sha256=sha256,
        events=sum(part.num_samples for part in parts),
        start_ns=min((int(t[0]) for t in times), default=None),
        end_ns=max((int(t[-1]) for t in times), default=None),
        redacted=sum(part.num_redacted for part in parts),
    )


def _log_input(told: Log, num_bytes: int, sha256: str) -> Input:
    from stepscope.model.log import ABSENT_NS

    times = [e.at_ns for e in told.events if e.at_ns is not None]
    if told.progress is not None:
        at = told.progress.at_ns[told.progress.at_ns != ABSENT_NS]
        times += [int(at.min()), int(at.max())] if len(at) else []
    return Input(
        kind="log",
        format=told.format,
        name=told.name,
        bytes=num_bytes,
        sha256=sha256,
        rank=told.rank,
        events=told.num_known,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        redacted=told.num_redacted,
    )
