"""The batches of a spool in columns, and the telemetry and jobs that are in them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from stepscope.model import batch as wire
from stepscope.model.sample import Mark, Owner, Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.sources.field import Field
from stepscope.sources.gather import Gathering

FORMAT = "spool"
BESIDE_NS = 600_000_000_000
"""How far from the job samples of nobody are taken: what a device did just before it and after."""
LABELS = ("job", "run", "rank", "pod", "namespace", "container", "scheduler_job", "user", "task")
EVENTS: Mapping[str, str] = {"xid": "xid", "device_vanished": "exit", "driver_back": "start"}
"""What the agent says of a device -> the kind of the mark it becomes. The rest is the job's, whose own marks
tell it, or the agent's."""
_EVEN = 1.5
"""Windows that differ by more are of two settings: then none is stated."""
_UNKNOWN = "signals that are not known here"


@dataclass(slots=True)
class _Column:
    """Samples of one signal of one owner for one job, as they came."""

    at_ns: array[int] = field(default_factory=lambda: array("q"))
    value: array[float] = field(default_factory=lambda: array("d"))
    labels: dict[str, str] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    """The labels that came last, whole."""


@dataclass(slots=True)
class _Told:
    """What one source of one host says, batch by batch. `columns` by owner, signal and job (empty: of
    nobody)."""

    columns: dict[tuple[wire.BatchOwner, str, str], _Column] = field(default_factory=dict)
    window_ns: list[int | None] = field(default_factory=list)
    collect_ns: list[int | None] = field(default_factory=list)
    lag_ns: list[int | None] = field(default_factory=list)
    missing: dict[tuple[str, str], int] = field(default_factory=dict)


@dataclass(slots=True)
class Job:
    """A job that is in a spool: how much, when, and where."""

    num_records: int = 0
    num_samples: int = 0
    start_ns: int | None = None
    end_ns: int | None = None
    hosts: set[str] = field(default_factory=set)

    def seen(self, host: str, at_ns: Iterable[int]) -> None:
        times = list(at_ns)
        if times:
            first, last = min(times), max(times)
            self.start_ns = first if self.start_ns is None else min(self.start_ns, first)
            self.end_ns = last if self.end_ns is None else max(self.end_ns, last)
            self.hosts.add(host)


def job_of(marks: wire.Marks) -> str | None:
    job = marks.identity.get("job")
    return str(job) if job else None


@dataclass(slots=True)
class Whole:
    """All batches of a spool, in columns."""

    told: dict[tuple[str, str], _Told] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    marks: list[wire.Marks] = field(default_factory=list)
    lines: list[wire.Lines] = field(default_factory=list)
    events: list[wire.Happened] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    owners: dict[tuple[wire.BatchOwner, str], Owner] = field(default_factory=dict)

    end_ns: int | None = None

    def take(self, batch: wire.Batch) -> None:
        times = _times(batch)
        if times:
            self.end_ns = max(times) if self.end_ns is None else max(self.end_ns, *times)
        if isinstance(batch, wire.Samples):
            self._samples(batch)
        elif isinstance(batch, wire.Marks):
            self.marks.append(batch)
            name = job_of(batch)
            if name is not None:
                job = self.jobs.setdefault(name, Job())
                job.num_records += len(batch.number)
                job.seen(batch.host, batch.real_ns)
        elif isinstance(batch, wire.Lines):
            self.lines.append(batch)
        else:
            self.events.append(batch)

    def _samples(self, batch: wire.Samples) -> None:
        told = self.told.setdefault((batch.host, batch.source), _Told())
        told.window_ns.append(batch.window_ns)
        told.collect_ns.append(batch.collect_ns)
        told.lag_ns.append(batch.lag_ns)
        for name, reason, count in batch.missing:
            told.missing[name, reason] = told.missing.get((name, reason), 0) + count
        columns = told.columns
        for each in batch.series:
            key = (each.owner, each.signal, each.labels.get("job", ""))
            column = columns.get(key)
            if column is None:
                if each.signal not in SIGNALS:
                    if not each.signal.startswith("stepscope_"):
                        self.unknown[each.signal] = self.unknown.get(each.signal, 0) + len(each.value)
                    continue
                column = columns[key] = _Column()
            if len(each.at_ns) != len(each.value):
                continue
            try:
                column.at_ns.extend(each.at_ns)
            except OverflowError:  # a time that none can be: not written by the agent
                del column.at_ns[len(column.value) :]
                continue
            column.value.extend(each.value)
            if column.told != each.labels:
                column.told = each.labels
                column.labels |= {name: text for name, text in each.labels.items() if name in LABELS}

    def close(self) -> None:
        """Everything was taken: what jobs there are, and when."""
        for (host, _), told in self.told.items():
            for (_, _, named), column in told.columns.items():
                at_ns = np.frombuffer(column.at_ns, dtype=np.int64)
                for name in filter(None, named.split(",")):
                    job = self.jobs.setdefault(name, Job())
                    job.num_samples += len(at_ns)
                    job.seen(host, (int(at_ns.min()), int(at_ns.max())) if len(at_ns) else ())

    def _owner(self, owner: wire.BatchOwner, host: str) -> Owner:
        found = self.owners.get((owner, host))
        if found is None:
            found = self.owners[owner, host] = Owner(
                owner.kind, owner.uuid, owner.mig, owner.index, owner.pci_bus_id, owner.model,
                owner.host or host, owner.pid, owner.name,
            )  # fmt: skip
        return found

    def notes(self) -> list[tuple[str, int, str]]:
        """What the agent itself says it gave up, and what is not known here."""
        gaps = [each for each in self.events if each.what == "spool_gap"]
        notes = []
        if gaps:
            count = sum(each.code or 1 for each in gaps)
            notes.append(("spool_gap", count, f"the agent gave up batches: {gaps[0].text}"))
        damaged = {each.text: each.code or 1 for each in self.events if each.what == "store_damage"}
        notes += [("store_damage", count, text) for text, count in damaged.items()]
        if self.unknown:
            names = ", ".join(sorted(self.unknown)[:3])
            notes.append(("spool_unknown", sum(self.unknown.values()), f"{_UNKNOWN} ({names})"))
        return notes

    def telemetry(self, path: str, job: str | None) -> list[Telemetry]:
        """One of each host and source, those with most samples first."""
        gatherings: dict[tuple[str, str], Gathering] = {}
        where = self.jobs.get(job) if job is not None else None
        every = (
            (host, source, self._owner(owner, host), signal, named, column)
            for (host, source), told in self.told.items()
            for (owner, signal, named), column in told.columns.items()
        )
        for host, source, owner, signal, named, column in every:
            at_ns = np.frombuffer(column.at_ns, dtype=np.int64)
            value = np.frombuffer(column.value, dtype=np.float64)
            if where is not None and job not in named.split(","):
                if named or host not in where.hosts or where.start_ns is None or where.end_ns is None:
                    continue
                near = (at_ns >= where.start_ns - BESIDE_NS) & (at_ns <= where.end_ns + BESIDE_NS)
                at_ns, value = at_ns[near], value[near]
            gathering = gatherings.setdefault((host, source), Gathering(FORMAT))
            gathering.num_samples += len(at_ns)
            finite = np.isfinite(value)
            gathering.add(owner, Field(signal), signal, at_ns[finite], value[finite])
            gathering.label(owner, column.labels)
        self._give_events(gatherings)
        found = []
        for (host, source), gathering in gatherings.items():
            told = self.told[host, source]
            for (name, reason), count in told.missing.items():
                gathering.missing(name, name if name in SIGNALS else None, reason, count, None)
            part = gathering.telemetry(
                f"{path} ({host}, {source})",
                "sample",
                window_ns=_even(told.window_ns),
                collect_ns=_even(told.collect_ns),
                lag_ns=_even(told.lag_ns),
            )
            if part.series or part.marks:
                found.append(part)
        return sorted(found, key=lambda part: -part.num_samples)

    def _give_events(self, gatherings: Mapping[tuple[str, str], Gathering]) -> None:
        has_lines = {(each.host, each.log) for each in self.lines}
        for each in self.events:
            kind = EVENTS.get(each.what)
            if kind is None or each.owner is None:
                continue
            if (each.host, each.labels.get("log")) in has_lines:
                continue  # the line itself is here, and read as a log
            owner = self._owner(each.owner, each.host)
            of_host = [g for (host, _), g in gatherings.items() if host == each.host]
            best = next((g for g in of_host if owner.key in g.owners), None) or next(iter(of_host), None)
            if best is not None:
                best.mark(Mark(each.at_ns, kind, each.text, each.code, owner))


def _times(batch: wire.Batch) -> list[int]:
    """Some of a batch's times, the last one among them."""
    if isinstance(batch, wire.Samples):
        return [each.at_ns[-1] for each in batch.series if each.at_ns]
    if isinstance(batch, wire.Marks):
        return batch.real_ns[-1:]
    return batch.at_ns[-1:] if isinstance(batch, wire.Lines) else [batch.at_ns]


def _even(told: list[int | None]) -> int | None:
    """What all batches say, about; `None` where one says nothing or they differ."""
    known = [each for each in told if each is not None]
    if not known or len(known) < len(told):
        return None
    low, high = min(known), max(known)
    return int(median(known)) if high <= _EVEN * low or high - low <= 1_000_000 else None
