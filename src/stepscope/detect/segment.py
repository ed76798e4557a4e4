"""Abnormal segments of an hour: where a signal leaves its hourly median by more than 15 % for 3 points.

They say which windows the hourly diagnosis looks at; nobody is paged by them. The median is that of the whole
clock hour, so that an hour is judged when it is over. A segment ends with its hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepscope.model.sample import F64
from stepscope.model.trace import I64

HOUR_NS = 3600 * 10**9
LEAVES = 0.15
LEAST_POINTS = 3


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment: its first and last point's time, how many points, the hour's median, and the value that
    is farthest from it. `effect` is the median of its points against the hour's, as a share."""

    start_ns: int
    end_ns: int
    num_points: int
    median: float
    extreme: float
    effect: float


def segments(at_ns: I64, values: F64) -> tuple[Segment, ...]:
    """Of one series in order of time; points that are missing (NaN) are left out, and are no break."""
    is_there = np.isfinite(values)
    at_ns, values = at_ns[is_there], values[is_there]
    hours = at_ns // HOUR_NS
    edges = np.flatnonzero(np.diff(hours)) + 1
    bounds = [0, *edges.tolist(), len(values)]
    found: list[Segment] = []
    for first, last in pairwise(bounds):
        found += _of_hour(at_ns[first:last], values[first:last])
    return tuple(found)


def _of_hour(at_ns: I64, values: F64) -> list[Segment]:
    if len(values) < LEAST_POINTS:
        return []
    median = float(np.median(values))
    away = values - median
    # On one side: a point above and the next one below are two, not a segment.
    side = np.sign(away) * (np.abs(away) > LEAVES * abs(median))
    edges = np.flatnonzero(np.diff(side)) + 1
    bounds = [0, *edges.tolist(), len(side)]
    found = []
    for first, last in pairwise(bounds):
        if side[first] == 0 or last - first < LEAST_POINTS or median == 0:
            continue
        piece = values[first:last]
        extreme = float(piece[np.argmax(np.abs(piece - median))])
        effect = (float(np.median(piece)) - median) / abs(median)
        found.append(Segment(int(at_ns[first]), int(at_ns[last - 1]), last - first, median, extreme, effect))
    return found


class Hours:
    """The same over a stream of one series, in order of time: segments come when their hour is over."""

    def __init__(self) -> None:
        self._at_ns: list[int] = []
        self._values: list[float] = []

    def push(self, at_ns: int, value: float) -> tuple[Segment, ...]:
        """One point: the segments of the hour before, where it begins another one; else none."""
        told: tuple[Segment, ...] = ()
        if self._at_ns and at_ns // HOUR_NS != self._at_ns[0] // HOUR_NS:
            told = self.so_far()
            self._at_ns, self._values = [], []
        self._at_ns.append(at_ns)
        self._values.append(value)
        return told

    def so_far(self) -> tuple[Segment, ...]:
        """Of the hour that is not over, against the median of what there is of it."""
        return segments(np.array(self._at_ns, dtype=np.int64), np.array(self._values, dtype=np.float64))
