"""Who was late in a handful of steps: too few to know what is ordinary over time.

Noise is then what the other ranks show among themselves in the same steps, and never less than the caller
says cannot be told from nothing. Nothing is said of what happens in other steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

SIGMAS = 4.0
"""Of the spread of all others: one in 30,000 where nobody is late."""
MOST_STEPS = 0.75
"""Late in three quarters of the steps, or by more than the caller says is any tail."""
BY_CHANCE = 0.05
"""Probability with which chance may name anybody for coming last often."""
MOVING_SHARE = 0.8
"""Somebody is late in so many of the steps, each time another."""
LEAST_MOVING = 3


@dataclass(frozen=True, slots=True)
class Few:
    """`late` (ranks, steps); `ranks` are rows that are late in any step, the latest first; `noise` what was
    taken as the least lateness that tells, in the unit of the matrix."""

    late: npt.NDArray[np.bool_]
    ranks: tuple[int, ...]
    persistence: Literal["persistent", "moving", "unknown"]
    noise: float


def few_steps(
    lateness: npt.ArrayLike, least: float, num_last: npt.ArrayLike | None = None, far: float = np.inf
) -> Few:
    """Judge a matrix (ranks, steps) of lateness, NaN where a rank was not there.

    `num_last` is how often each rank came last where ranks meet, by more than the clocks can hide: a rank
    that is last far more often than one in so many ranks is late in every step in which it exceeds `least`,
    even if all ranks come one by one. With two ranks there is no spread of others: then `least` alone
    decides.
    """
    x = np.array(lateness, dtype=np.float64, ndmin=2)
    late = np.zeros(x.shape, dtype=bool)
    often = _often_last(len(x), num_last)
    noise = float(least)
    for step in range(x.shape[1]):
        column = x[:, step]
        there = np.flatnonzero(np.isfinite(column))
        if len(there) < 2:
            continue
        for rank in there.tolist():
            others = column[there[there != rank]]
            centre = float(np.sort(others)[(len(others) - 1) // 2])
            spread = 0.0 if often[rank] else _spread_of(others)
            late[rank, step] = column[rank] - centre > max(float(least), SIGMAS * spread)
        if not often.any():
            noise = max(noise, _spread_of(column[there[~late[there, step]]]) * SIGMAS)
    there = np.isfinite(x)
    share = late.sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    with np.errstate(invalid="ignore"):
        is_far = (x > far) & late
    # Now and then by a little is anybody's: always, or by much.
    late[share < MOST_STEPS] &= is_far[share < MOST_STEPS]
    found = np.flatnonzero(late.any(axis=1))
    total = np.array([np.nansum(np.where(late[rank], x[rank], 0.0)) for rank in found.tolist()])
    ranks = tuple(found[np.argsort(-total, kind="stable")].tolist())
    return Few(late, ranks, _persistence(late, x), noise)


def _often_last(num_ranks: int, num_last: npt.ArrayLike | None) -> npt.NDArray[np.bool_]:
    """Ranks that came last more often than chance lets any rank (binomial tail, all ranks counted)."""
    counts = np.zeros(num_ranks, dtype=int) if num_last is None else np.asarray(num_last, dtype=int)
    trials = int(counts.sum())
    limit = BY_CHANCE / max(num_ranks, 1)
    result: npt.NDArray[np.bool_] = np.array(
        [count > 0 and _tail(trials, 1.0 / num_ranks, int(count)) < limit for count in counts], dtype=bool
    )
    return result


def _tail(trials: int, share: float, at_least: int) -> float:
    """Probability of `at_least` or more of `trials`."""
    return sum(
        math.comb(trials, k) * share**k * (1.0 - share) ** (trials - k) for k in range(at_least, trials + 1)
    )


def _spread_of(values: F64) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values)))) if len(values) > 1 else 0.0


def _persistence(late: npt.NDArray[np.bool_], x: F64) -> Literal["persistent", "moving", "unknown"]:
    """Always the same, always somebody else, or too few steps to say."""
    there = np.isfinite(x).any(axis=0)
    num = int(there.sum())
    if num < 2 or not late.any():
        return "unknown"
    per_rank, per_step = late.sum(axis=1), late.any(axis=0)
    if (per_rank == num).any():
        return "persistent"
    if num >= LEAST_MOVING and per_step.sum() >= MOVING_SHARE * num and (per_rank > 0).sum() > 1:
        return "moving"
    return "unknown"
