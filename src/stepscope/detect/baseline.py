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
AT_ONCE = 16_384
"""Rows learned in one go: bounds what sorting copies takes."""

Points = npt.NDArray[np.float32] | F64


@dataclass(frozen=True, slots=True)
class Normal:
    """Columns over rows. `num` points are behind it, 0 where nothing is learned yet: the first `num_slow`
    points were warm-up by evidence and have to be left out first."""

    median: F64
    sigma: F64
    mean: F64
    deviation: F64
    num: I64
    num_slow: I64


def learned(points: Points, is_ratio: npt.NDArray[np.bool_], quantum: F64) -> Normal:
    """The normal of each row of `points` (rows, points), all finite.

    `quantum` as in `SeriesKind`, NaN where it is not known. `sigma` is the largest of 1.4826 MAD, half the
    quantum and 1 % of the median; infinite where all of these are 0, since of nothing no share can be told.
    Points at the beginning that are beyond 3 sigma without a break are warm-up.
    """
    num_points = points.shape[1]
    median, sigma = _robust(points, is_ratio, quantum)
    far = np.abs(points - median[:, None]) > SIGMAS * sigma[:, None]
    num_slow = np.logical_and.accumulate(far, axis=1).sum(axis=1)
    num = np.where(num_points - num_slow >= LEAST_POINTS, num_points - num_slow, 0)
    mean = points.mean(axis=1, dtype=np.float64)
    deviation = points.std(axis=1, ddof=1, dtype=np.float64)
    for row in np.flatnonzero((num_slow > 0) & (num > 0)).tolist():
        kept = points[row : row + 1, num_slow[row] :]
        median[row : row + 1], sigma[row : row + 1] = _robust(
            kept, is_ratio[row : row + 1], quantum[row : row + 1]
        )
        mean[row], deviation[row] = kept.mean(dtype=np.float64), kept.std(ddof=1, dtype=np.float64)
    # A series that never moved has no deviation: then no point is beyond two of them but by the quantum.
    return Normal(median, sigma, mean, np.maximum(deviation, 1e-9 * np.abs(mean)), num, num_slow)


def _robust(points: Points, is_ratio: npt.NDArray[np.bool_], quantum: F64) -> tuple[F64, F64]:
    ordered = points.copy()
    ordered.sort(axis=1)
    median = _middle(ordered)
    tick = np.where(np.isfinite(quantum), quantum, 0.0)
    unknown = np.isnan(quantum)
    if unknown.any():
        step = np.diff(ordered[unknown], axis=1)
        own = np.min(step, axis=1, where=step > 0, initial=np.inf)
        tick[unknown] = np.where(np.isfinite(own), own, 0.0)
    spread: Points = np.abs(ordered - median[:, None].astype(ordered.dtype))
    spread.sort(axis=1)
    sigma = np.maximum(1.4826 * _middle(spread), tick / 2)
    sigma = np.maximum(sigma, np.maximum(LEAST_SIGMA_RATIO * np.abs(median), LEAST_SIGMA_POINTS * is_ratio))
    return median, np.where(sigma > 0, sigma, np.inf)


def _middle(ordered: Points) -> F64:
    num = ordered.shape[1]
    middle: F64 = (ordered[:, (num - 1) // 2].astype(np.float64) + ordered[:, num // 2]) / 2
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
    held: npt.NDArray[np.float32]

    def take(self, rows: I64, values: F64, is_ratio: npt.NDArray[np.bool_], quantum: F64) -> I64:
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
            for name in ("median", "sigma", "mean", "deviation", "num"):
                getattr(self, name)[some] = getattr(normal, name)
            for row, num_slow in zip(
                some[normal.num == 0].tolist(), normal.num_slow[normal.num == 0].tolist(), strict=True
            ):
                self.held[row, : NUM_POINTS - num_slow] = self.held[row, num_slow:].copy()
                self.num_held[row] = NUM_POINTS - num_slow
                self.median[row] = self.sigma[row] = self.mean[row] = self.deviation[row] = np.nan
        done: I64 = full[self.num[full] > 0]
        return done
