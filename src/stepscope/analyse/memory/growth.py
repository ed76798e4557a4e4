"""How the peaks of steps rise: a slope that single steps do not bend, and how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepscope.model import report

LEAST_STEPS = 10
"""In fewer counted steps a rise and a few uneven batches look alike: two halves of five are the least."""
UNIT_BYTES = 512
"""Allocations are multiples of this: a smaller difference of peaks is none."""
MOST_STEPS = 2_000
"""Of more steps every so many are taken: all pairs of them are compared."""


def growth(steps: Sequence[report.MemoryStep]) -> report.MemoryGrowth | None:
    """The growth of the peaks of these steps (in order, counted ones only), `None` with too few of them.

    The slope is Theil and Sen's: it stands while fewer than 29 % of the steps are odd. Its error is that of a
    least-squares slope under noise of the residuals' robust size; with few steps that is too hopeful, so the
    certainty is Mann and Kendall's, which asks only for the order of the peaks.
    """
    if len(steps) < LEAST_STEPS:
        return None
    stride = -(-len(steps) // MOST_STEPS)
    number = np.array([each.step for each in steps[::stride]], dtype=np.float64)
    peak = np.array([each.peak_bytes for each in steps[::stride]], dtype=np.float64)
    slope = _slope(number, peak)
    if slope is None:
        return None
    left = peak - slope * number
    noise = max(1.4826 * float(np.median(np.abs(left - np.median(left)))), UNIT_BYTES)
    error = noise / float(np.sqrt(((number - number.mean()) ** 2).sum()))
    middle = len(number) // 2
    halves = [_slope(number[:middle], peak[:middle]), _slope(number[middle:], peak[middle:])]
    steady = 0.0
    if slope and all(half is not None for half in halves):
        steady = min((half or 0.0) / slope for half in halves)
    return report.MemoryGrowth(
        bytes_per_step=slope,
        error_bytes_per_step=error,
        certainty=_certainty(peak),
        steady_share=min(1.0, max(0.0, steady)),
        num_steps=len(steps),
    )


def _certainty(peak: npt.NDArray[np.float64]) -> float:
    """Mann and Kendall's z: pairs in rising order less those in falling order, over their standard deviation
    where every order is as likely; one pair nearer to 0, for it comes in steps. Ties are reckoned with."""
    n = len(peak)
    first, second = np.triu_indices(n, 1)
    score = float(np.sign(peak[second] - peak[first]).sum())
    _, same = np.unique(peak, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((same * (same - 1) * (2 * same + 5)).sum())) / 18
    if variance <= 0:
        return 0.0
    return float(np.sign(score) * max(0.0, abs(score) - 1) / np.sqrt(variance))


def _slope(number: npt.NDArray[np.float64], peak: npt.NDArray[np.float64]) -> float | None:
    """The median slope between all pairs of points with different numbers, `None` where there are none."""
    first, second = np.triu_indices(len(number), 1)
    run = number[second] - number[first]
    is_apart = run != 0
    if not is_apart.any():
        return None
    return float(np.median((peak[second] - peak[first])[is_apart] / run[is_apart]))
