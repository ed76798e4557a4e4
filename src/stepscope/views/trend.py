"""A signal over time on the axis of the traces: its lag taken off, gaps as gaps, and how far it may be off.

A sample read at t describes some time between `t - most` and `t - least`, the lags that fit; over its
source's window before that. Where no lag is known it lies where it was read, and says so.
"""

from __future__ import annotations

import itertools
import statistics
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model import report

GAP = 2.5
"""No sample for so many intervals is a gap: nothing is drawn there."""
_FEW = 200
"""From so many points on they may be chosen out of more, unevenly: their extremes are kept."""
_UNEVEN = 6.0
_CELLS = 120
"""Places in which the span of a doubtful signal is told."""

Point = tuple[int, float]


@dataclass(frozen=True, slots=True)
class Placed:
    """Points on the axis. What is drawn at x may truly lie from `x - before_ns` to `x + after_ns`; `is_raw`
    where nothing is known of the lag, so that it lies where it was read."""

    points: tuple[Point, ...]
    before_ns: int = 0
    after_ns: int = 0
    is_raw: bool = False
    window_ns: int | None = None

    @property
    def gap_ns(self) -> float:
        """The longest distance of two neighbours that is no gap."""
        return longest_step_ns([at for at, _ in self.points])

    def runs(self) -> list[tuple[Point, ...]]:
        """The points between gaps."""
        most, made = self.gap_ns, []
        start = 0
        for at in range(1, len(self.points) + 1):
            if at == len(self.points) or self.points[at][0] - self.points[at - 1][0] > most:
                made.append(self.points[start:at])
                start = at
        return made


def longest_step_ns(times: Sequence[int]) -> float:
    """The longest distance of two neighbours that is no gap in these times, which ascend."""
    steps = [b - a for a, b in itertools.pairwise(times) if b > a]
    if not steps:
        return 0.0
    usual = GAP * statistics.median(steps)
    return usual if len(times) < _FEW else max(usual, _UNEVEN * (times[-1] - times[0]) / len(times))


def placed(summary: report.SignalSummary, clock: report.TelemetryClock | None) -> Placed:
    """A signal's points on the axis of the traces, as far as its source's lag is known."""
    points = tuple(sorted(summary.points))
    if clock is None or (clock.lag_ns is None and clock.lag_range_ns is None):
        return Placed(points, is_raw=True, window_ns=None if clock is None else clock.window_ns)
    least, most = clock.lag_range_ns or (clock.lag_ns or 0, clock.lag_ns or 0)
    lag = clock.lag_ns if clock.lag_ns is not None else (least + most) // 2
    return Placed(
        tuple((at - lag, value) for at, value in points),
        before_ns=max(0, most - lag),
        after_ns=max(0, lag - least),
        window_ns=clock.window_ns,
    )


@dataclass(frozen=True, slots=True)
class Reach:
    """Least and largest value that may belong to a place of the axis."""

    at_ns: int
    least: float
    most: float


def reaches(one: Placed, start_ns: int, end_ns: int) -> list[list[Reach]]:
    """What values a doubtful signal may have along the axis, in runs without gaps; none where it is certain
    to a cell."""
    cell = max(1, (end_ns - start_ns) // _CELLS)
    if one.before_ns + one.after_ns < cell or not one.points:
        return []
    times = [at for at, _ in one.points]
    hold = one.gap_ns / GAP
    made: list[list[Reach]] = [[]]
    for n in range(_CELLS + 1):
        at = start_ns + n * cell
        # Drawn at x, a point may lie from x - before to x + after.
        low = bisect_left(times, at - one.after_ns - hold)
        high = bisect_right(times, at + one.before_ns)
        values = [value for _, value in one.points[low:high]]
        if values:
            made[-1].append(Reach(at, min(values), max(values)))
        elif made[-1]:
            made.append([])
    return [run for run in made if run]


@dataclass(frozen=True, slots=True)
class Bar:
    """One sample as the time that it describes."""

    start_ns: int
    end_ns: int
    value: float


def bars(one: Placed, start_ns: int, end_ns: int) -> list[Bar]:
    """The samples that describe any of this time: each over its source's window, else since the sample before
    it where no gap lies between."""
    made = []
    longest = one.gap_ns
    before: int | None = None
    for at, value in one.points:
        since = at - one.window_ns if one.window_ns is not None else before
        if since is not None and at - since <= max(longest, one.window_ns or 0):
            start = max(since, start_ns if before is None or one.window_ns is None else max(start_ns, before))
            if start < min(at, end_ns):
                made.append(Bar(start, min(at, end_ns), value))
        before = at
    return made


@dataclass(frozen=True, slots=True)
class Slice:
    """What the samples in a piece of the axis say."""

    start_ns: int
    end_ns: int
    least: float
    most: float
    count: int


def slices(one: Placed, start_ns: int, end_ns: int, number: int) -> list[Slice]:
    """Equal pieces of the axis with their samples; those without any are left out."""
    times = [at for at, _ in one.points]
    made = []
    for n in range(number):
        low = start_ns + (end_ns - start_ns) * n // number
        high = start_ns + (end_ns - start_ns) * (n + 1) // number
        last = bisect_right(times, high) if n == number - 1 else bisect_left(times, high)
        values = [value for _, value in one.points[bisect_left(times, low) : last]]
        if values:
            made.append(Slice(low, high, min(values), max(values), len(values)))
    return made
