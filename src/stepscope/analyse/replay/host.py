"""The host's line of a program: what it does between the calls at which it waits for the device.

The launching threads of a process hand over to each other: their calls in order of time are one line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.idle import FROM_HOST, PREPROCESS, PREPROCESS_SHARE
from stepscope.analyse.replay.program import FIRST_CAUSE
from stepscope.model.interval import NOTHING, Intervals, intersect, join, subtract, union
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import ORDER, RANK
from stepscope.trace.nesting import HostTimeline
from stepscope.trace.thread import Threads

HOLE_OF_STEP, LEAST_HOLE_NS = 0.002, 100_000
"""Host work without a call for so long is an edge of its own: what stalls a rank is then told from what it
always does."""


@dataclass(frozen=True, slots=True)
class Calls:
    """Calls that block until work of the device has ended, by start, none inside another.

    `row` are core rows; `is_copy` tells blocking copies from synchronisation; `is_whole` synchronisation of
    the whole device.
    """

    row: I32
    start_ns: I64
    end_ns: I64
    is_copy: npt.NDArray[np.bool_]
    is_whole: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row)


def blocking_calls(trace: Trace, threads: Threads, launched_ns: I64, low: int, high: int) -> Calls:
    """Those of the launching threads that begin and end in [low, high]; `launched_ns` is sorted.

    A call during which other threads go on launching holds up nobody's launches: it is host work as any.
    """
    rows, starts, ends, copies = [], [], [], []
    for track in threads.driving:
        r = threads.rows[track]
        mask = (r.kind == Kind.CALL) & np.isin(r.cause, (RANK["host_sync"], RANK["copy_wait"]))
        mask &= (r.start_ns >= low) & (r.end_ns <= high)
        rows.append(r.row[mask])
        starts.append(r.start_ns[mask])
        ends.append(r.end_ns[mask])
        copies.append(r.cause[mask] == RANK["copy_wait"])
    if not rows:
        rows, starts, ends = [np.empty(0, np.int32)], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        copies = [np.empty(0, bool)]
    row, start, end = np.concatenate(rows), np.concatenate(starts), np.concatenate(ends)
    is_copy = np.concatenate(copies)
    inner = np.searchsorted(launched_ns, end, side="left") - np.searchsorted(launched_ns, start, side="right")
    keep = (inner <= 0) & (end > start)
    order = np.flatnonzero(keep)[np.argsort(start[keep], kind="stable")]
    reach = np.maximum.accumulate(np.append(np.int64(low), end[order]))[:-1]
    order = order[start[order] >= reach]
    names = [trace.names[n] for n in trace.spans.name_id[row[order]].tolist()]
    whole = np.array(["Device" in n or "Ctx" in n or "Thread" in n for n in names], dtype=bool)
    return Calls(row[order].astype(np.int32), start[order], end[order], is_copy[order], whole)


def time_before(when: Intervals, t: I64) -> I64:
    """How much of the set lies before each instant, nanoseconds."""
    if not len(when):
        return np.zeros(len(t), dtype=np.int64)
    covered = np.append(np.int64(0), np.cumsum(when.end - when.start))
    at = np.searchsorted(when.start, t, side="right")
    last = np.maximum(at - 1, 0)
    inside: I64 = covered[last] + np.minimum(t, when.end[last]) - when.start[last]
    return np.where(at > 0, inside, 0)


@dataclass(frozen=True, slots=True)
class HostCauses:
    """When the launching threads worked for which cause: disjoint sets by place in `PARTS`."""

    sets: dict[int, Intervals]

    def of(self, cause: str) -> Intervals:
        """The set of one host cause."""
        return self.sets.get(FIRST_CAUSE + int(FROM_HOST[RANK[cause]]), NOTHING)

    def without(self, when: Intervals) -> HostCauses:
        """The same sets less some time."""
        if not len(when):
            return self
        return HostCauses({part: subtract(each, when) for part, each in self.sets.items()})


def host_causes(timeline: HostTimeline | None, main: int | None, low: int, high: int) -> HostCauses:
    """What the main thread, or who works for it, did in [low, high)."""
    if timeline is None or main is None or main not in timeline.rows:
        return HostCauses({})
    pieces = timeline.pieces(main)
    first = int(np.searchsorted(pieces.end, low, side="right"))
    last = int(np.searchsorted(pieces.start, high, side="left"))
    cause, start, end = pieces.cause[first:last], pieces.start[first:last], pieces.end[first:last]
    found = {}
    for rank in range(len(ORDER)):
        mask = cause == rank
        if mask.any():
            found[FIRST_CAUSE + int(FROM_HOST[rank])] = union(start[mask], end[mask], is_sorted=True)
    return HostCauses(found)


def told_preprocess(causes: HostCauses, bounds: I64, launched_ns: I64) -> HostCauses:
    """Host work of a step before its first launch is preprocessing where it is long, as in the accounting;
    `launched_ns` is sorted."""
    at = np.searchsorted(launched_ns, bounds[:-1], side="left")
    has = at < len(launched_ns)
    first = np.minimum(launched_ns[np.minimum(at, len(launched_ns) - 1)], bounds[1:])[has]
    begin = bounds[:-1][has]
    work = join(causes.of("launch"), causes.of("python"))
    is_long = time_before(work, first) - time_before(work, begin) > PREPROCESS_SHARE * np.diff(bounds)[has]
    found = intersect(work, union(begin[is_long], first[is_long]))
    if not len(found):
        return causes
    return HostCauses({**causes.without(found).sets, FIRST_CAUSE + PREPROCESS: found})


def holes(times: I64, skipped: Intervals, step_ns: float) -> I64:
    """The calls before which the host worked long without any; `times` are sorted starts and ends of calls,
    `skipped` is no work."""
    least = max(LEAST_HOLE_NS, HOLE_OF_STEP * step_ns)
    return times[1:][np.diff(times - time_before(skipped, times)) > least]
