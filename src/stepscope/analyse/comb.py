"""Whether events come at a period: the teeth of a comb, on a line of steps.

Real loops have steps that other load made slow, a pause that came a step late and one that did not come: so
not all distances need be equal. A comb counts where hardly one like it is to be expected of as many events
that are strewn at random over as many steps. Of those the number is bounded as in a scan statistic: combs of
m teeth in N steps, times the ways in which k of the m are hit by n events drawn without replacement.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]

LEAST_TEETH = 3
"""Two events have a distance and no period."""
LEAST_HIT = 0.75
"""Part of the teeth, from the first to the last that is hit, that must be there."""
BY_CHANCE = 0.01
"""Combs that chance may be expected to show."""
BY_CHANCE_THREE = 0.06
"""Of three events at exactly equal distances, and no other: in 30 steps chance shows 0.055. They must
be of like size besides, which this does not count."""
SLACK = 1
"""An event may come so many steps beside its tooth, where there are more than three."""
MOST_CANDIDATES = 24
MOST_PAIRS = 4
"""A period is the distance of two events between which at most so many others lie, less one."""


@dataclass(frozen=True, slots=True)
class Comb:
    """`events` are places in what was given of those that lie on a tooth, `chance` how many such combs are to
    be expected of chance."""

    period: int
    events: tuple[int, ...]
    chance: float


def comb(at: I64, num_steps: int) -> Comb | None:
    """The likeliest comb of the events `at` (ascending, distinct) among `num_steps` steps; `None` where there
    is none that chance does not make."""
    if len(at) < LEAST_TEETH:
        return None
    found: list[Comb] = []
    for period in _candidates(at):
        for slack in (0, SLACK) if period > 2 * (2 * SLACK + 1) else (0,):
            one = _at_period(at, period, slack, max(num_steps, len(at)))
            if one is not None:
                found.append(one)
    return min(found, key=lambda each: (each.chance, each.period), default=None)


def _candidates(at: I64) -> list[int]:
    counts: Counter[int] = Counter()
    for apart in range(1, min(MOST_PAIRS, len(at) - 1) + 1):
        counts.update((at[apart:] - at[:-apart]).tolist())
    ranked = sorted(counts, key=lambda distance: (-counts[distance], distance))
    return [distance for distance in ranked[:MOST_CANDIDATES] if distance > 1]


def _at_period(at: I64, period: int, slack: int, num_steps: int) -> Comb | None:
    """The comb of this period at its best phase; `None` where it is too thin or chance makes such."""
    phase = np.bincount(at % period, minlength=period)
    wide = sum(np.roll(phase, shift) for shift in range(-slack, slack + 1))
    best = int(np.argmax(wide * (len(at) + 1) + phase))  # of equal ones where most lie exactly
    off = (at - best + slack) % period
    on = np.flatnonzero(off <= 2 * slack)
    tooth = (at[on] - best + slack) // period
    tooth, first = np.unique(tooth, return_index=True)
    on = on[first]
    num_hit = len(tooth)
    if num_hit < LEAST_TEETH:
        return None
    num_teeth = int(tooth[-1] - tooth[0]) + 1
    if num_hit < LEAST_HIT * num_teeth:
        return None
    is_three = num_hit == LEAST_TEETH
    if is_three and (slack or len(at) > num_hit or num_teeth > num_hit):
        return None
    chance = _expected(num_hit, num_teeth, len(at), num_steps, 2 * slack + 1)
    return (
        Comb(period, tuple(on.tolist()), chance)
        if chance <= (BY_CHANCE_THREE if is_three else BY_CHANCE)
        else None
    )


def _expected(num_hit: int, num_teeth: int, num_events: int, num_steps: int, width: int) -> float:
    """How many combs of so many teeth are hit so often, of events at random. Two of them set the comb, the
    others may lie in `width` places each."""
    combs = max(num_steps**2 / (2 * (num_teeth - 1)), 1.0)
    log = (
        math.log(combs)
        + _log_choose(num_teeth, num_hit)
        + (num_hit - 2) * math.log(width)
        + math.lgamma(num_events + 1) - math.lgamma(num_events - num_hit + 1)
        - math.lgamma(num_steps + 1) + math.lgamma(num_steps - num_hit + 1)
    )  # fmt: skip
    return math.exp(min(log, 0.0))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
