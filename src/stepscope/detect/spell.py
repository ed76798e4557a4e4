"""Spells: runs of steps in which a series is far above what it is in the run's other steps.

A mean over a long run hides a cause that held for a while. The same reading of *in a row* as for ranks
(`detect.peer`): 6 of 8 steps. The ordinary is the better quarter of the series, so that a cause of half the
run is not learnt as ordinary; one that was always there is no spell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.sample import F64

LEAST, LENGTH = 6, 8
SIGMAS = 4.0
"""Of the ordinary steps' scatter. One in 30,000 of ordinary steps; six of eight in a row are no chance."""
LEAST_STEPS = 24
"""Of fewer steps a spell is most of the run."""
MOST_SHARE = 0.8
"""A spell of nearly all steps is the run."""


@dataclass(frozen=True, slots=True)
class Spell:
    """Places of the first and last step, and the median excess over the ordinary inside, in the series'
    unit."""

    first: int
    last: int
    excess: float


def spells(series: F64, least: float) -> tuple[Spell, ...]:
    """The spells of one series over steps in order; steps count where they exceed the ordinary by `least`
    and by the scatter. Spells apart by less than `LENGTH` steps are one."""
    num = len(series)
    if num < LEAST_STEPS:
        return ()
    ordinary, sigma = _ordinary(series)
    limit = max(least, SIGMAS * sigma)
    high = series - ordinary > limit
    if high.sum() < LEAST:
        return ()
    total = np.concatenate(([0], np.cumsum(high)))
    begin = np.flatnonzero(total[LENGTH:] - total[:-LENGTH] >= LEAST)
    found: list[list[int]] = []
    for first in begin.tolist():
        inside = np.flatnonzero(high[first : first + LENGTH]) + first
        low, up = int(inside[0]), int(inside[-1])
        if found and low - found[-1][1] < LENGTH:
            found[-1][1] = max(found[-1][1], up)
        else:
            found.append([low, up])
    return tuple(
        Spell(low, up, float(np.median(series[low : up + 1]) - ordinary))
        for low, up in found
        if up - low + 1 <= MOST_SHARE * num
    )


def _ordinary(series: F64) -> tuple[float, float]:
    """Level and scatter of the ordinary steps, from the better half around the lower quartile."""
    quarter = float(np.quantile(series, 0.25))
    median = float(np.median(series))
    below: npt.NDArray[np.float64] = series[series <= quarter]
    # Of a normal series the lower quartile lies 0.6745 sigma under the median, and the median of what is
    # below it another 0.476 under that: as narrow as the better quarter is, so is the rest of the ordinary.
    spread = (quarter - float(np.median(below))) / 0.476
    level = min(median, quarter + 0.6745 * spread)
    near = series[series <= level + SIGMAS * spread]
    own = 1.4826 * float(np.median(np.abs(near - level))) if len(near) else 0.0
    return level, max(own, spread)
