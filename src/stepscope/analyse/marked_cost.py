"""What marks cost, measured in the run itself: blocks of steps with inner marks against blocks without."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I64

RESOLVABLE = 0.005
"""An interval wider than this share of a step to either side says nothing."""
LEAST_GROUPS = 10
LEAST_STEPS = 3
"""Steps that a block must have left, its first one apart: that one ends in the state that the other block
left behind (caches, a collection that was due)."""
_T975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Student's t at 97.5 %, for 1 to 30 degrees of freedom; beyond, 1.96 + 2.5 / n is within 0.001."""


@dataclass(frozen=True, slots=True)
class MarkCost:
    """What the inner marks of one step cost: nanoseconds and share of an unmarked step, with a 95 % interval.

    `why` is set where nothing can be said: then the interval is what was found, if anything was.
    """

    cost_ns: float | None
    low_ns: float | None
    high_ns: float | None
    share: float | None
    num_groups: int
    why: str | None = None
    usual_ns: float | None = None
    """Median of the unmarked steps; `None` of fewer than two groups."""


def mark_cost(
    step: I64, duration_ns: I64, is_shadow: npt.NDArray[np.bool_], is_left_out: npt.NDArray[np.bool_]
) -> MarkCost:
    """Compare blocks of steps with the mean of their two neighbours, which are of the other kind: a run that
    slows down or speeds up evenly moves both the same. No block is used twice.

    `duration_ns` is of whole steps in order; `is_left_out` are those that count for neither side (captured,
    stalled, checkpoint, evaluation). A block is a run of consecutive step numbers of one kind; its middle is
    the median, so that a pause in one step decides nothing.
    """
    if not len(step):
        return MarkCost(None, None, None, None, 0, "no steps")
    edge = np.flatnonzero((is_shadow[1:] != is_shadow[:-1]) | (np.diff(step) != 1)) + 1
    starts = np.append(0, edge)
    ends = np.append(edge, len(step))
    middles: list[float | None] = []
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        times = duration_ns[start + 1 : end][~is_left_out[start + 1 : end]]
        middles.append(float(np.median(times)) if len(times) >= LEAST_STEPS else None)
    kinds = is_shadow[starts].tolist()
    found: list[tuple[float, float]] = []
    at = 0
    while at + 2 < len(middles):
        before, mid, behind = middles[at : at + 3]
        if before is None or mid is None or behind is None or kinds[at] == kinds[at + 1]:
            at += 1
            continue
        around = (before + behind) / 2
        found.append((mid, around) if kinds[at] else (around, mid))
        at += 3
    return _of(found)


def _of(found: list[tuple[float, float]]) -> MarkCost:
    num = len(found)
    few = f"{num} groups of blocks, {LEAST_GROUPS} are needed"
    if num < 2:
        return MarkCost(None, None, None, None, num, few)
    difference = np.array([marked - shadow for marked, shadow in found])
    usual = float(np.median([shadow for _, shadow in found]))
    mean = float(difference.mean())
    quantile = _T975[num - 2] if num - 2 < len(_T975) else 1.96 + 2.5 / (num - 1)
    half = quantile * float(difference.std(ddof=1)) / num**0.5
    why = None
    if num < LEAST_GROUPS:
        why = few
    elif half > RESOLVABLE * usual:
        why = f"not resolvable: ±{half / usual:.2%} of a step, {RESOLVABLE:.1%} is needed"
    low, high = mean - half, mean + half
    if why is not None:
        return MarkCost(None, low, high, None, num, why, usual)
    return MarkCost(mean, low, high, mean / usual, num, usual_ns=usual)
