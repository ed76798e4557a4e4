"""Interval sets on the nanosecond axis: sorted, disjoint, half open; all operations over columns.

A set is a pair of int64 arrays. Union is a stable sort and a running maximum; everything else follows from
searchsorted, so no function loops over intervals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I64

_EMPTY = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Intervals:
    """Sorted, disjoint, non-empty, half-open intervals: `start[i] < end[i] <= start[i + 1]`."""

    start: I64
    end: I64

    def __len__(self) -> int:
        return len(self.start)

    @property
    def total_ns(self) -> int:
        """Summed length in nanoseconds."""
        return int((self.end - self.start).sum())


NOTHING = Intervals(_EMPTY, _EMPTY)


def union(start: I64, end: I64, *, is_sorted: bool = False) -> Intervals:
    """The union of any intervals; empty and inverted ones count for nothing. Touching ones are joined."""
    keep = end > start
    if not keep.all():
        start, end = start[keep], end[keep]
    if len(start) == 0:
        return NOTHING
    if not is_sorted:
        order = np.argsort(start, kind="stable")
        start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    first = np.empty(len(start), dtype=bool)
    first[0] = True
    np.greater(start[1:], reach[:-1], out=first[1:])
    heads = np.flatnonzero(first)
    tails = np.append(heads[1:], len(start)) - 1
    return Intervals(start[heads], reach[tails])


def single(start_ns: int, end_ns: int) -> Intervals:
    """One interval, or nothing when it is empty."""
    if end_ns <= start_ns:
        return NOTHING
    return Intervals(np.array([start_ns], dtype=np.int64), np.array([end_ns], dtype=np.int64))


def join(*sets: Intervals) -> Intervals:
    """The union of several sets."""
    sets = tuple(s for s in sets if len(s))
    if len(sets) <= 1:
        return sets[0] if sets else NOTHING
    return union(np.concatenate([s.start for s in sets]), np.concatenate([s.end for s in sets]))


def pairs(
    a_start: I64, a_end: I64, b_start: I64, b_end: I64
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], I64, I64]:
    """All overlaps of any intervals a with sorted, disjoint intervals b.

    Returns (index in a, index in b, start, end), ordered by a, then by b; lengths are positive.
    """
    low = np.searchsorted(b_end, a_start, side="right")
    high = np.searchsorted(b_start, a_end, side="left")
    count = np.maximum(high - low, 0)
    count[a_end <= a_start] = 0
    total = int(count.sum())
    a_index = np.repeat(np.arange(len(a_start)), count)
    offset = np.cumsum(count) - count
    b_index = np.arange(total) - np.repeat(offset - low, count)
    return (
        a_index,
        b_index,
        np.maximum(a_start[a_index], b_start[b_index]),
        np.minimum(a_end[a_index], b_end[b_index]),
    )


def intersect(a: Intervals, b: Intervals) -> Intervals:
    """What is in both."""
    if not len(a) or not len(b):
        return NOTHING
    _, _, start, end = pairs(a.start, a.end, b.start, b.end)
    return Intervals(start, end)


def subtract(a: Intervals, b: Intervals) -> Intervals:
    """What is in a and not in b."""
    if not len(a) or not len(b):
        return a
    low = min(int(a.start[0]), int(b.start[0]))
    high = max(int(a.end[-1]), int(b.end[-1]))
    holes = Intervals(np.append(np.int64(low), b.end), np.append(b.start, np.int64(high)))
    keep = holes.end > holes.start
    return intersect(a, Intervals(holes.start[keep], holes.end[keep]))


def gaps(a: Intervals, start_ns: int, end_ns: int) -> Intervals:
    """What of [start_ns, end_ns) is not in a."""
    return subtract(single(start_ns, end_ns), a)


def overlap_ns(start: I64, end: I64, b: Intervals) -> I64:
    """For each interval (start, end), how many nanoseconds of it lie in b."""
    if not len(b):
        return np.zeros(len(start), dtype=np.int64)
    # Most intervals lie in no part of b: found by one search, and only the others are measured.
    next_start = np.append(b.start, np.iinfo(np.int64).max)[np.searchsorted(b.end, start, side="right")]
    hit = np.flatnonzero(next_start < end)
    covered = np.append(np.int64(0), np.cumsum(b.end - b.start))

    def before(t: I64) -> I64:
        index = np.searchsorted(b.start, t, side="right")
        # Before the first interval nothing lies beyond t: its earliest instant stands for an end there.
        ends = np.append(t.min(initial=np.int64(b.end[-1])), b.end)
        inside: I64 = covered[index] - np.maximum(ends[index] - t, 0)
        return inside

    result = np.zeros(len(start), dtype=np.int64)
    result[hit] = np.maximum(before(end[hit]) - before(start[hit]), 0)
    return result
