"""Readings to batches: values wait a little for others of their series, then get their labels.

Labels are given when a batch is closed, not when a value is read: by then the job's own begin and end are
known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.agent.device import DeviceKey, DeviceTable
from stepscope.agent.job import JobTable, Labels, LiveRank, Stretch, by_device, stretches
from stepscope.agent.source import Event, Line, Reading
from stepscope.model import redact
from stepscope.model.batch import Batch, BatchOwner, BatchSeries, Happened, Lines, Samples
from stepscope.model.sample import Owner

WINDOW_SLACK = 0.1
"""Windows that differ by less are told as one, by their mean."""
MOST_VALUES = 200_000
"""Of one batch: what is more begins another."""


_Key = tuple[str, bool, int | None, int | None]
"""(source, whether without a window, its collect interval, its lag)"""


@dataclass(slots=True)
class _Open:
    """A batch of one source that is not closed yet."""

    since_mono_ns: int
    windows: list[int] = field(default_factory=list)
    columns: dict[tuple[Owner, str, Labels], tuple[list[int], list[float]]] = field(default_factory=dict)
    missing: Counter[tuple[str, str]] = field(default_factory=Counter)
    num_values: int = 0

    def fits(self, reading: Reading) -> bool:
        """Whether the reading's window is that of what is here already."""
        if reading.window_ns is None or not self.windows:
            return True
        return abs(reading.window_ns - self.windows[0]) <= WINDOW_SLACK * self.windows[0]


class Packer:
    """Makes the batches of one agent; numbers them 0, since the spool counts."""

    def __init__(self, *, agent: str, host: str, jobs: JobTable, devices: DeviceTable, hold_ns: int) -> None:
        self.agent, self.host, self.hold_ns = agent, host, hold_ns
        self._jobs, self._devices = jobs, devices
        self._open: dict[_Key, _Open] = {}
        self._logs: dict[tuple[str, str], redact.Open] = {}

    def add(self, source: str, reading: Reading, mono_ns: int) -> list[Batch]:
        """Take a reading. Events, lines and marks leave at once, values when `due` says."""
        batches: list[Batch] = []
        if reading.samples or reading.missing:
            key = (source, reading.window_ns is None, reading.collect_ns, reading.lag_ns)
            open_ = self._open.get(key)
            if open_ is not None and (not open_.fits(reading) or open_.num_values > MOST_VALUES):
                batches.append(self._close(key))
                open_ = None
            if open_ is None:
                open_ = self._open[key] = _Open(mono_ns)
            self._take(open_, reading)
        batches += reading.marks
        batches += [self._event(each) for each in reading.events]
        return batches + self._lines(reading.lines)

    def due(self, mono_ns: int) -> list[Batch]:
        """Batches that waited long enough."""
        late = [key for key, each in self._open.items() if mono_ns - each.since_mono_ns >= self.hold_ns]
        return [self._close(key) for key in late]

    def flush(self) -> list[Batch]:
        """Everything that is still open."""
        return [self._close(key) for key in list(self._open)]

    @staticmethod
    def _take(open_: _Open, reading: Reading) -> None:
        if reading.window_ns is not None:
            open_.windows.append(reading.window_ns)
        open_.missing.update(reading.missing)
        columns, at_ns = open_.columns, reading.at_ns
        for owner, signal, value, labels, own_ns in reading.samples:
            column = columns.get((owner, signal, labels))
            if column is None:
                column = columns[owner, signal, labels] = ([], [])
            when = at_ns if own_ns is None else own_ns
            if column[0] and when <= column[0][-1]:
                continue  # the same value read again, or a clock that was set back
            column[0].append(when)
            column[1].append(value)
        open_.num_values += len(reading.samples)

    def _close(self, key: _Key) -> Batch:
        open_ = self._open.pop(key)
        source, _, collect_ns, lag_ns = key
        first = min((at[0] for at, _ in open_.columns.values() if at), default=0)
        window_ns = sum(open_.windows) // len(open_.windows) if open_.windows else None
        ranks, of_device = self._of(first)
        known: dict[Owner, list[Stretch]] = {}
        series: list[BatchSeries] = []
        for (owner, signal, labels), (at_ns, values) in open_.columns.items():
            found = known.get(owner)
            if found is None:
                found = known[owner] = stretches(owner, ranks, of_device)
            series += _labelled(on_wire(owner), signal, labels, at_ns, values, found, window_ns or 0)
        return Samples(
            agent=self.agent,
            seq=0,
            host=self.host,
            source=source,
            series=series,
            window_ns=window_ns,
            collect_ns=collect_ns,
            lag_ns=lag_ns,
            missing=[(name, why, count) for (name, why), count in open_.missing.items()],
        )

    def _of(self, since_ns: int) -> tuple[Sequence[LiveRank], dict[DeviceKey, list[LiveRank]]]:
        ranks = self._jobs.all(since_ns)
        return ranks, by_device(ranks, self._devices)

    def _event(self, event: Event) -> Happened:
        labels = dict(event.labels)
        if event.owner is not None:
            ranks, of_device = self._of(event.at_ns)
            for stretch in stretches(event.owner, ranks, of_device):
                if _holds(stretch, event.at_ns):
                    labels = {**dict(stretch.labels), **labels}
        return Happened(
            agent=self.agent,
            seq=0,
            host=self.host,
            at_ns=event.at_ns,
            what=event.what,
            text=redact.without_secrets(event.text)[0],
            code=event.code,
            owner=on_wire(event.owner) if event.owner is not None else None,
            labels=labels,
        )

    def _lines(self, lines: Sequence[Line]) -> list[Batch]:
        together: dict[tuple[str, str, Labels], Lines] = {}
        for log, name, at_ns, text, labels in lines:
            batch = together.get((log, name, labels))
            if batch is None:
                batch = together[log, name, labels] = Lines(
                    self.agent, 0, self.host, log, name, [], [], dict(labels)
                )
            batch.at_ns.append(at_ns)
            state = self._logs.setdefault((log, name), redact.Open())
            batch.text.extend(redact.lines_without_secrets([text], state)[0])
        return list(together.values())


def _holds(stretch: Stretch, at_ns: int) -> bool:
    return stretch.begin_ns <= at_ns and (stretch.end_ns is None or at_ns < stretch.end_ns)


def _labelled(
    owner: BatchOwner,
    signal: str,
    own: Labels,
    at_ns: list[int],
    values: list[float],
    found: Sequence[Stretch],
    window_ns: int,
) -> list[BatchSeries]:
    """One series, cut where its labels change."""
    if not found:
        return [BatchSeries(signal, owner, at_ns, values, dict(own))]
    cut: list[tuple[Stretch | None, list[int], list[float]]] = []
    for at, value in zip(at_ns, values, strict=True):
        if cut and (now := cut[-1][0]) is not None and _holds(now, at):
            pass
        else:
            now = next((each for each in found if _holds(each, at)), None)
            if not cut or now is not cut[-1][0]:
                cut.append((now, [], []))
        cut[-1][1].append(at)
        cut[-1][2].append(value)
    series = []
    for stretch, at_ns, values in cut:
        if stretch is None:
            series.append(BatchSeries(signal, owner, at_ns, values, dict(own)))
            continue
        ran = [each.steps(at_ns[0] - window_ns, at_ns[-1]) for each in stretch.ranks]
        steps = [each for each in ran if each is not None]
        span = (min(each[0] for each in steps), max(each[1] for each in steps)) if steps else None
        series.append(BatchSeries(signal, owner, at_ns, values, {**dict(own), **dict(stretch.labels)}, span))
    return series


_WIRE: dict[Owner, BatchOwner] = {}


def on_wire(owner: Owner) -> BatchOwner:
    """The owner as a batch has it."""
    found = _WIRE.get(owner)
    if found is None:
        if len(_WIRE) > 4096:
            _WIRE.clear()
        found = _WIRE[owner] = BatchOwner(
            owner.kind, owner.uuid, owner.mig, owner.index, owner.pci_bus_id, owner.model, owner.host,
            owner.pid, owner.name,
        )  # fmt: skip
    return found
