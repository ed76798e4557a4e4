"""What is normal for a series: learned once from its first clean points, then held.

A handful of slow first steps inside the baseline makes a mean and a standard deviation blind (measured:
0 % of slowdowns by 20 % found), and so do single spikes: what decides is the median and the median absolute
deviation. Mean and standard deviation are kept for the specified alarm alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.columns import Columns, Fields
from stepscope.model.sample import F64
from stepscope.model.trace import I64

NUM_POINTS = 100
"""Clean points that a baseline is learned from."""
LEAST_POINTS = 60
"""Fewer of them without their slow beginning are no baseline: more are waited for."""
WARM_UP = 10
"""First clean points after a start that are left out whatever they are: compilation, autotuning, caches."""
LEAST_SIGMA_RATIO = 0.01
"""Of the median. Steadier series exist; differences below 3 % of them are no matter."""
LEAST_SIGMA_POINTS = 0.005
"""Of ratios, absolute: half a percent point. A share that is usually 0 would have no scatter at all."""
SIGMAS = 3.0
MOVING = 4.0
"""Scatter against steps from point to point. Of independent points it is 1, of points that resemble their
neighbours (0.6) 1.6."""
MOST_PLATEAU = 25
"""More points on another level than this are no exception among 100 but the next level."""
MOST_WAITS = 5
"""So often half of the points are replaced; a series that still moves then is one that does so."""
LEAST_PLATEAU = 4
"""Points beyond 3 sigma in a row. Of steps that resemble their neighbours few do that."""
AT_ONCE = 16_384
"""Rows learned in one go: bounds what sorting copies takes."""

Flags = npt.NDArray[np.bool_]
Points = npt.NDArray[np.float32] | F64


@dataclass(frozen=True, slots=True)
class Normal:
    """Columns over rows. `num` points are behind it, 0 where nothing is learned yet: the first `num_slow`
    points were warm-up by evidence and have to be left out first. `is_moving`: the level moved within the
    points, and what was learned is between two."""

    median: F64
    sigma: F64
    mean: F64
    deviation: F64
    num: I64
    num_slow: I64
    is_moving: Flags


def learned(points: Points, is_ratio: Flags, quantum: F64) -> Normal:
    """The normal of each row of `points` (rows, points), all finite.

    `quantum` as in `SeriesKind`, NaN where it is not known. `sigma` is the largest of 1.4826 MAD, half the
    quantum and 1 % of the median; infinite where all of these are 0, since of nothing no share can be told.
    Points at the beginning that are beyond 3 sigma without a break are warm-up, 4 or more such points in a
    row further on a plateau that nobody marked: both are left out, and the rest is looked at once more.
    """
    num_points = points.shape[1]
    ordered = points.copy()
    ordered.sort(axis=1)
    tick = np.where(np.isfinite(quantum), quantum, _ticks(ordered))
    median, sigma = _robust(ordered, is_ratio, tick)
    mean = points.mean(axis=1, dtype=np.float64)
    deviation = points.std(axis=1, ddof=1, dtype=np.float64)
    far = np.abs(points - median[:, None]) > SIGMAS * sigma[:, None]
    num_slow = np.logical_and.accumulate(far, axis=1).sum(axis=1)
    num = np.full(len(points), num_points)
    is_moving = _moves(points, is_ratio, tick, median, sigma)
    again = np.flatnonzero((num_slow > 0) | (far.sum(axis=1) >= LEAST_PLATEAU))
    if len(again):
        out = _in_a_row(far[again]) | (np.arange(num_points) < num_slow[again, None])
        num[again] = num_points - out.sum(axis=1)
        is_moving[again] |= num_points - num[again] - num_slow[again] > MOST_PLATEAU
        rest = np.where(out, np.nan, points[again])
        rest[num[again] < LEAST_POINTS] = points[again][num[again] < LEAST_POINTS]
        median[again], sigma[again] = _robust(np.sort(rest, axis=1), is_ratio[again], tick[again])
        mean[again], deviation[again] = np.nanmean(rest, axis=1), np.nanstd(rest, axis=1, ddof=1)
        # Half of the points on a plateau are no plateau: only a slow beginning is waited for.
        whole = (num < LEAST_POINTS) & (num_points - num_slow >= LEAST_POINTS)
        num = np.where(whole, num_points, np.where(num < LEAST_POINTS, 0, num))
    deviation = np.maximum(deviation, 1e-9 * np.abs(mean))
    return Normal(median, sigma, mean, deviation, num, num_slow, is_moving)


def _moves(points: Points, is_ratio: Flags, tick: F64, median: F64, sigma: F64) -> Flags:
    """Where points scatter far more than they differ from the point before: two levels, half of the points
    each, as when a job comes up."""
    step = np.abs(np.diff(points, axis=1))
    step.sort(axis=1)
    num = np.full(len(step), step.shape[1])
    usual = 1.4826 / 2**0.5 * _middle(step, num)
    floor = np.maximum(
        np.maximum(tick / 2, LEAST_SIGMA_POINTS * is_ratio), LEAST_SIGMA_RATIO * np.abs(median)
    )
    moving: Flags = np.isfinite(sigma) & (sigma > MOVING * np.maximum(usual, floor))
    return moving


def _in_a_row(far: Flags) -> Flags:
    """Where so many points in a row are far."""
    num = far.shape[1] - LEAST_PLATEAU + 1
    begins = np.logical_and.reduce([far[:, n : n + num] for n in range(LEAST_PLATEAU)])
    result = np.zeros(far.shape, dtype=bool)
    for n in range(LEAST_PLATEAU):
        result[:, n : n + num] |= begins
    return result


def _ticks(ordered: Points) -> F64:
    """The smallest difference between two values of a row; 0 of one value."""
    step = np.diff(ordered, axis=1)
    least: F64 = np.min(step, axis=1, where=step > 0, initial=np.inf).astype(np.float64)
    return np.where(np.isfinite(least), least, 0.0)


def _robust(ordered: Points, is_ratio: Flags, tick: F64) -> tuple[F64, F64]:
    """Median and sigma of rows in ascending order; NaN, at their end, is left out."""
    num = np.isfinite(ordered).sum(axis=1)
    median = _middle(ordered, num)
    spread = np.abs(ordered - median[:, None].astype(ordered.dtype))
    spread.sort(axis=1)
    sigma = np.maximum(1.4826 * _middle(spread, num), tick / 2)
    sigma = np.maximum(sigma, np.maximum(LEAST_SIGMA_RATIO * np.abs(median), LEAST_SIGMA_POINTS * is_ratio))
    return median, np.where(sigma > 0, sigma, np.inf)


def _middle(ordered: Points, num: npt.NDArray[np.int64]) -> F64:
    """The median of rows in order, of which the first `num` count."""
    each = np.arange(len(ordered))
    middle: F64 = (ordered[each, (num - 1) // 2].astype(np.float64) + ordered[each, num // 2]) / 2
    return middle


class Baselines(Columns):
    """The normal of each row, and the points it is being learned from."""

    FIELDS: ClassVar[Fields] = {
        "median": (np.float64, 0, np.nan),
        "sigma": (np.float64, 0, np.nan),
        "mean": (np.float64, 0, np.nan),
        "deviation": (np.float64, 0, np.nan),
        "num": (np.int32, 0, 0),
        "num_left_out": (np.int16, 0, 0),
        "num_held": (np.int16, 0, 0),
        "num_waits": (np.int16, 0, 0),
        # Single precision: 100 points of 200,000 series are 80 MB so, and 1e-7 of a value is no matter.
        "held": (np.float32, NUM_POINTS, 0),
    }
    median: F64
    sigma: F64
    mean: F64
    deviation: F64
    num: npt.NDArray[np.int32]
    num_left_out: npt.NDArray[np.int16]
    num_held: npt.NDArray[np.int16]
    num_waits: npt.NDArray[np.int16]
    held: npt.NDArray[np.float32]

    def take(self, rows: I64, values: F64, is_ratio: Flags, quantum: F64) -> I64:
        """One clean point of each of these rows, which have no baseline yet: those that have one now.
        `is_ratio` and `quantum` are columns over all rows."""
        is_warm = self.num_left_out[rows] >= WARM_UP
        self.num_left_out[rows[~is_warm]] += 1
        rows, values = rows[is_warm], values[is_warm]
        self.held[rows, self.num_held[rows]] = values
        self.num_held[rows] += 1
        full = rows[self.num_held[rows] == NUM_POINTS]
        for first in range(0, len(full), AT_ONCE):
            some = full[first : first + AT_ONCE]
            normal = learned(self.held[some], is_ratio[some], quantum[some])
            is_moving = normal.is_moving & (self.num_waits[some] < MOST_WAITS)
            self.num_waits[some] += is_moving
            is_known = (normal.num > 0) & ~is_moving
            for name in ("median", "sigma", "mean", "deviation", "num"):
                getattr(self, name)[some[is_known]] = getattr(normal, name)[is_known]
            left_out = np.where(is_known, 0, np.maximum(normal.num_slow, is_moving * NUM_POINTS // 2))
            for num in np.unique(left_out[left_out > 0]).tolist():
                again = some[left_out == num]
                self.held[again, : NUM_POINTS - num] = self.held[again, num:]
                self.num_held[again] = NUM_POINTS - num
        done: I64 = full[self.num[full] > 0]
        return done
