"""What was recorded of a device and its host in the steps to be replayed, and what each event waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay import program as pr
from stepscope.analyse.replay.event import event_waits
from stepscope.analyse.replay.host import (
    HostCauses,
    blocking_calls,
    holes,
    host_causes,
    time_before,
    told_preprocess,
)
from stepscope.analyse.replay.lag import Lags, lags
from stepscope.analyse.replay.program import BASE, INPUT, NO_LAUNCH, OVERLAP, PARTS
from stepscope.analyse.replay.queue import Queue
from stepscope.analyse.replay.wait import Waits, waits
from stepscope.model.interval import Intervals, join, subtract, union
from stepscope.model.report import COMPUTE_KINDS
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.link import COMMUNICATION, COMPUTE, COPY
from stepscope.trace.thread import Threads

LEAST_CLASS_SHARE = 0.10
"""Of computing and copying, for a class of kernels to be played at half its time."""
SPEEDUP = 2


@dataclass(frozen=True, slots=True)
class Line:
    """Events of the host by time: when each was recorded, when the host came to it and what it costs to pass
    it; `wait` is the elastic call that ends in it, -1 for none."""

    at_ns: I64
    arrive_ns: I64
    cost_ns: I64
    wait: I64


@dataclass(frozen=True)
class Record:
    """Columns over activities are in the order of the queue.

    `number` (n,) are the steps, `bounds` and `device_ns` (n + 1,) when each began and the last one ended, on
    the host and on the device. `part` is the place of each activity in `PARTS`, `talks` its communication in
    the order of issue, `classes` the places of the classes that are played faster, `removed` the host's time
    that a scenario does not have.
    """

    q: Queue
    number: I64
    bounds: I64
    device_ns: I64
    part: I64
    talks: I64
    lags: Lags
    waits: Waits
    line: Line
    causes: HostCauses
    classes: tuple[int, ...]
    removed: dict[str, Intervals]

    @property
    def scenarios(self) -> tuple[str, ...]:
        """The untouched one first."""
        return (BASE, INPUT, NO_LAUNCH, OVERLAP, *(PARTS[part] for part in self.classes))

    @cached_property
    def duration_ns(self) -> I64:
        """Of each activity."""
        length: I64 = np.maximum(self.q.end_ns - self.q.start_ns, 0)
        return length

    @cached_property
    def node(self) -> I64:
        """The host event behind which each activity was issued."""
        behind: I64 = np.searchsorted(self.line.at_ns, self.q.issued_ns, side="right") - 1
        return np.maximum(behind, 0)

    @property
    def unexplained_share(self) -> float:
        """Of the time of the steps, what the idle device waited for nobody knows what."""
        q, late = self.q, self.lags.unexplained_ns
        idle = subtract(union(q.start_ns - late, q.start_ns), union(q.start_ns, q.end_ns))
        return idle.total_ns / max(int(self.bounds[-1] - self.bounds[0]), 1)

    def duration_in(self, scenario: str) -> I64:
        """Of each activity, under a scenario."""
        if scenario not in (PARTS[part] for part in self.classes):
            return self.duration_ns
        return np.where(self.part == PARTS.index(scenario), self.duration_ns // SPEEDUP, self.duration_ns)

    def host_work(self, scenario: str, start: I64, end: I64) -> I64:
        """What the host works between instants, in nanoseconds, less what the scenario removes."""
        removed = self.removed.get(scenario, self.removed[BASE])
        return (end - start) - (time_before(removed, end) - time_before(removed, start))

    def host_parts(self, start: I64, end: I64) -> list[tuple[int, I64]]:
        """The same of the untouched scenario, by part."""
        return [
            (part, time_before(when, end) - time_before(when, start))
            for part, when in self.causes.sets.items()
        ]

    def device_parts(self, first: I64, last: I64) -> list[tuple[int, I64]]:
        """Device time from one activity to another, by part; communication aside."""
        found = []
        for part in np.unique(self.part[self.part != pr.COMMUNICATION]).tolist():
            reach = np.append(np.int64(0), np.cumsum(np.where(self.part == part, self.duration_ns, 0)))
            found.append((part, reach[last + 1] - reach[first]))
        return found


def recorded(
    trace: Trace,
    threads: Threads,
    q: Queue,
    launch_row: I32,
    kind: npt.NDArray[np.int8],
    number: I64,
    bounds: I64,
    device_ns: I64,
) -> Record:
    """Explain what was recorded; `launch_row` and `kind` (a place in `COMPUTE_KINDS`) of each activity."""
    low, high = int(bounds[0]), int(bounds[-1])
    talks = np.flatnonzero(q.part == COMMUNICATION)
    talks = talks[np.argsort(q.issued_ns[talks], kind="stable")]
    held = _waits(trace, threads, q, launch_row, bounds)
    causes = told_preprocess(
        host_causes(threads.timeline, threads.main, low, high), bounds, np.unique(q.launch_ns[q.has_launch])
    )
    part = _part_of(q, kind)
    return Record(
        q=q,
        number=number,
        bounds=bounds,
        device_ns=device_ns,
        part=part,
        talks=talks,
        lags=lags(q, event_waits(trace, threads, low, high)),
        waits=held,
        line=_line(q, held, q.issued_ns[talks], bounds),
        causes=causes.without(held.skipped),
        classes=tuple(_classes(part, q.end_ns - q.start_ns)),
        removed={
            BASE: held.skipped,
            INPUT: join(held.skipped, causes.of("input")),
            NO_LAUNCH: join(held.skipped, causes.of("launch")),
        },
    )


def _classes(part: I64, duration: I64) -> Sequence[int]:
    time = np.bincount(part, weights=np.maximum(duration, 0), minlength=len(PARTS))
    total = time.sum() - time[pr.COMMUNICATION]
    return [p for p in range(len(COMPUTE_KINDS)) if total > 0 and time[p] >= LEAST_CLASS_SHARE * total]


def _part_of(q: Queue, kind: npt.NDArray[np.int8]) -> I64:
    part = np.full(len(q), pr.UNKNOWN, dtype=np.int64)
    part[q.part == COMPUTE] = kind[q.part == COMPUTE]
    part[q.part == COMMUNICATION] = pr.COMMUNICATION
    part[q.part == COPY] = pr.COPY
    return part


def _waits(trace: Trace, threads: Threads, q: Queue, launch_row: I32, bounds: I64) -> Waits:
    """Calls that hold up the host, told from the blocking ones and from launches."""
    launched = np.unique(q.launch_ns[q.has_launch])
    calls = blocking_calls(trace, threads, launched, int(bounds[0]), int(bounds[-1]))
    order = np.argsort(launch_row, kind="stable")
    last = np.searchsorted(launch_row[order], calls.row, side="right") - 1
    at = order[np.maximum(last, 0)]
    own = np.where((last >= 0) & (launch_row[at] == calls.row), at, -1)
    # A call that blocks to copy is no launch that lacks room.
    plain = np.flatnonzero(q.has_launch & q.is_first & ~np.isin(launch_row, calls.row))
    plain = plain[np.argsort(q.launch_ns[plain], kind="stable")]
    begin = trace.spans.ts_ns[launch_row[plain]]
    launch = (begin, begin + trace.spans.dur_ns[launch_row[plain]], plain.astype(np.int64))
    return waits(q, calls, own.astype(np.int64), launch, bounds)


def _line(q: Queue, w: Waits, talks_ns: I64, bounds: I64) -> Line:
    """Bounds of steps, returns of elastic calls, ends of long work without a call, and collectives."""
    launched = np.unique(q.launch_ns[q.has_launch])
    calls = np.unique(np.concatenate([bounds, w.start_ns, w.end_ns, launched]))
    extra = np.concatenate([talks_ns, holes(calls, w.skipped, float(np.median(np.diff(bounds))))])
    extra = extra[(extra > bounds[0]) & (extra < bounds[-1])]
    if len(w.start_ns):  # nothing happens on the line inside a call that holds it up
        order = np.argsort(w.start_ns, kind="stable")
        inside = np.searchsorted(w.start_ns[order], extra, side="left") - 1
        extra = extra[(inside < 0) | (extra >= w.end_ns[order][np.maximum(inside, 0)])]
    at = np.unique(np.concatenate([bounds, w.end_ns, extra]))
    wait = np.full(len(at), -1, dtype=np.int64)
    wait[np.searchsorted(at, w.end_ns)] = np.arange(len(w.end_ns))
    arrive, cost = at.copy(), np.zeros(len(at), dtype=np.int64)
    held = np.flatnonzero(wait >= 0)
    arrive[held], cost[held] = w.start_ns[wait[held]], w.cost_ns[wait[held]]
    return Line(at, arrive, cost, wait)
