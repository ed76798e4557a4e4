"""What a signal was while something went on: in a step, in a group of steps, in any intervals, on a grid.

A reading at t describes `[t − lag − window, t − lag)` and counts by how much of that lies in what is asked
for. A step that spans less than two windows is told by no reading of its own: such steps are told in groups.
Counters count by what they grew between two readings, states by the middle of the window, masks by the bits
that were set. A code (the last Xid) has no value over time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from stepscope.align.lag import Lag
from stepscope.model.interval import Intervals, join, overlap_ns, pairs, union
from stepscope.model.sample import F64, Series
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64

STEP_WINDOWS = 2
"""A step that spans two windows holds at least one whole."""
CELL_NS = 100_000_000
"""The common grid: no counter of a device is finer (DCGM#310)."""
Masked: TypeAlias = "np.ma.MaskedArray[tuple[int], np.dtype[np.float64]]"
Way = Literal["mean", "max", "last", "any", "none", "counter"]


@dataclass(frozen=True, slots=True)
class BySteps:
    """A signal over groups of steps, a row a group that any reading tells of; other groups are absent.

    `first`, `last` are places in the given steps, both in the group. `value` is in the signal's unit, of a
    counter what it grew by. `samples`: readings whose window has its middle in the group. `coverage`: the
    share of the group that windows cover, of a counter that between two readings.
    """

    first: I64
    last: I64
    value: F64
    samples: I64
    coverage: F64

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True, slots=True)
class Over:
    """A signal over some intervals, as `BySteps` has it over steps.

    `purity`: the share of the readings' windows that lies in the intervals, as weighted. Intervals far
    shorter than a window are told by windows that are mostly of something else: then it is small.
    """

    value: float
    samples: int
    coverage: float
    purity: float


def group_steps(step_start_ns: I64, step_end_ns: I64, window_ns: int, slack_ns: int = 0) -> tuple[I64, I64]:
    """(first, last) of groups of consecutive steps, each as short as it can be and still two windows long.

    Steps are sorted and disjoint. `slack_ns` is how far windows may lie from where they are put: a group is
    longer by that. What is left at the end joins the last group; steps that make no group at all are in none.
    """
    least = STEP_WINDOWS * window_ns + slack_ns
    first: list[int] = []
    last: list[int] = []
    begin = 0
    for index in range(len(step_start_ns)):
        if step_end_ns[index] - step_start_ns[begin] >= least:
            first.append(begin)
            last.append(index)
            begin = index + 1
    if first and begin < len(step_start_ns):
        last[-1] = len(step_start_ns) - 1
    return np.array(first, dtype=np.int64), np.array(last, dtype=np.int64)


def by_step(
    series: Series,
    *,
    lag_ns: int,
    window_ns: int,
    step_start_ns: I64,
    step_end_ns: I64,
    every_ns: int = 0,
    slack_ns: int = 0,
) -> BySteps:
    """A signal over each step that spans two windows, else over groups of steps that do.

    `every_ns`: how often the source reads, where that is more than its window: a group spans two of those.
    Empty of a code, and where all steps together are too short.
    """
    first, last = group_steps(step_start_ns, step_end_ns, max(window_ns, every_ns), slack_ns)
    how = _aggregate(series)
    if not len(first) or how == "none" or not len(series):
        nothing = np.empty(0, dtype=np.int64)
        return BySteps(nothing, nothing, np.empty(0), nothing, np.empty(0))
    group = np.full(len(step_start_ns), -1, dtype=np.int64)
    for place, (a, b) in enumerate(zip(first, last, strict=True)):
        group[a : b + 1] = place
    held = np.flatnonzero(group >= 0)
    start, end, of = step_start_ns[held], step_end_ns[held], group[held]
    length = np.bincount(of, weights=end - start, minlength=len(first))
    weight, value, samples, covered = _summed(series, how, lag_ns, window_ns, start, end, of, len(first))
    told = weight > 0
    coverage = covered / np.maximum(length, 1)
    return BySteps(first[told], last[told], value[told], samples[told], coverage[told])


def over_steps(series: Series, lag: Lag, step_start_ns: I64, step_end_ns: I64) -> BySteps | None:
    """`by_step` with what is known of a source's time; `None` where not even its window is."""
    window = lag.window_of(series.signal)
    if window is None:
        return None
    return by_step(
        series,
        lag_ns=lag.used_ns,
        window_ns=window,
        step_start_ns=step_start_ns,
        step_end_ns=step_end_ns,
        every_ns=max(lag.window_ns or 0, lag.collect_ns or 0),
        slack_ns=lag.slack_ns,
    )


def over(series: Series, intervals: Intervals, *, lag_ns: int, window_ns: int) -> Over | None:
    """A signal over any intervals, such as those under load or in communication; `None` where no reading
    tells.

    The value is that of windows weighted by how much of them lies in the intervals.
    """
    how = _aggregate(series)
    if not len(intervals) or how == "none" or not len(series):
        return None
    none = np.zeros(len(intervals), dtype=np.int64)
    weight, value, samples, covered = _summed(
        series, how, lag_ns, window_ns, intervals.start, intervals.end, none, 1
    )
    if weight[0] <= 0:
        return None
    start, end = _windows(series, how, lag_ns, window_ns)
    inside = overlap_ns(start, end, intervals).astype(np.float64)
    share = inside / np.maximum(end - start, 1)
    if inside.sum() > 0:
        purity = float((inside * share).sum() / inside.sum())
    else:
        purity = 1.0  # instants: each lies in the intervals or does not
    return Over(float(value[0]), int(samples[0]), float(covered[0] / intervals.total_ns), purity)


def on_grid(
    series: Series,
    *,
    start_ns: int,
    end_ns: int,
    lag_ns: int,
    window_ns: int,
    cell_ns: int = CELL_NS,
) -> Masked:
    """A signal in equal cells from `start_ns` on, each by the windows that lie over it; of a counter what it
    grew by a second. Masked where no window does, and throughout of a code. A last part of a cell is left
    out."""
    num = max(end_ns - start_ns, 0) // cell_ns
    values: Masked = np.ma.MaskedArray(np.zeros(num), mask=np.ones(num, dtype=bool))
    how = _aggregate(series)
    if how == "none" or not len(series) or not num:
        return values
    edges = start_ns + cell_ns * np.arange(num + 1, dtype=np.int64)
    start, end = _windows(series, how, lag_ns, window_ns)
    value = series.value[1:] if how == "counter" else series.value
    if how == "counter":
        grown = np.diff(series.value)
        rose = grown >= 0
        start, end = start[rose], end[rose]
        value = grown[rose] / np.maximum(end - start, 1) * 1e9
    of, cell, low, high = pairs(start, end, edges[:-1], edges[1:])
    if how in ("mean", "counter"):
        weight = np.bincount(cell, weights=high - low, minlength=num)
        total = np.bincount(cell, weights=(high - low) * value[of], minlength=num)
        told = weight > 0
        values[told] = total[told] / weight[told]
    else:
        found, known = _picked(value[of], cell, how, num)
        values[known] = found[known]
    return values


_BY_KIND: dict[str, Way] = {"counter": "counter", "mask": "any", "code": "none"}


def _aggregate(series: Series) -> Way:
    """How readings of a signal become one: as its row says, `counter` of a counter, `mean` of an unknown
    one."""
    row = SIGNALS.get(series.signal)
    if row is None:
        return "mean"
    return _BY_KIND.get(row.kind, row.aggregate)


def _windows(series: Series, how: Way, lag_ns: int, window_ns: int) -> tuple[I64, I64]:
    """(start, end) of what each reading describes; of a counter, between each two readings."""
    at = series.at_ns - lag_ns
    if how == "counter":
        return at[:-1], at[1:]
    return at - window_ns, at


def _summed(
    series: Series,
    how: Way,
    lag_ns: int,
    window_ns: int,
    start: I64,
    end: I64,
    of: I64,
    num: int,
) -> tuple[F64, F64, I64, F64]:
    """(weight, value, samples, covered nanoseconds) of `num` groups; interval k belongs to group `of[k]`."""
    low, high = _windows(series, how, lag_ns, window_ns)
    middle = (series.at_ns - lag_ns) if how == "counter" else low + window_ns // 2
    place = np.searchsorted(start, middle, side="right") - 1
    is_in = (place >= 0) & (middle < end[np.maximum(place, 0)])
    group = of[np.maximum(place, 0)]
    samples = np.bincount(group[is_in], minlength=num).astype(np.int64)
    value: F64
    if how in ("mean", "counter"):
        reading = series.value
        if how == "counter":
            grown = np.diff(series.value)
            rose = grown >= 0  # the interval of a reset says nothing
            low, high, reading = low[rose], high[rose], grown[rose]
        which, part, begin, stop = pairs(low, high, start, end)
        inside = (stop - begin).astype(np.float64)
        weight = np.bincount(of[part], weights=inside, minlength=num)
        if how == "mean":
            total = np.bincount(of[part], weights=inside * reading[which], minlength=num)
            value = total / np.maximum(weight, 1.0)
        else:
            share = inside / np.maximum(high - low, 1)[which]
            value = np.bincount(of[part], weights=share * reading[which], minlength=num).astype(np.float64)
    else:
        value, known = _picked(series.value[is_in], group[is_in], how, num)
        weight = known.astype(np.float64)
    shown = overlap_ns(start, end, union(low, high)).astype(np.float64)
    covered = np.bincount(of, weights=shown, minlength=num)
    return weight.astype(np.float64), value.astype(np.float64), samples, covered.astype(np.float64)


def _picked(
    value: F64, group: npt.NDArray[np.integer], how: Way, num: int
) -> tuple[F64, npt.NDArray[np.bool_]]:
    """The largest, the last or all bits of the readings of each group, and which groups have any."""
    known = np.bincount(group, minlength=num) > 0
    found = np.zeros(num)
    if how == "max":
        found[:] = -np.inf
        np.maximum.at(found, group, value)
    elif how == "any":
        bits = np.zeros(num, dtype=np.int64)
        np.bitwise_or.at(bits, group, value.astype(np.int64))
        found = bits.astype(np.float64)
    else:
        found[group] = value  # readings are in order: the last assignment stays
    return found, known


def under_load(series: Series, *, lag_ns: int, window_ns: int, least: float) -> Intervals:
    """The windows in which a signal was at least `least`: what a device did then counts as under load."""
    busy = series.value >= least
    at = series.at_ns[busy] - lag_ns
    return join(union(at - window_ns, at))
