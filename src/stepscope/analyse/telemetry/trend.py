"""Whether steps became longer from the beginning of a run to its end, beyond what its steps scatter."""

from __future__ import annotations

import math

import numpy as np

from stepscope.model.sample import F64

LEAST_LINES = 8
"""Fewer lines tell no trend."""
MOST_WARM_UP, WARM_UP_FACTOR = 3, 1.5
"""Up to so many first steps are warm-up where each is so much longer than the median."""
SIGMAS = 3.5
"""Of steps that scatter alike at both ends one run in 2,100 differs so."""
LEAST_QUARTER, FEW_SIGMAS = 10, 1.9
"""Quarters of fewer lines cannot differ by that much: then they must be apart entirely, and halves differ by
so much besides."""

LEAST_MEMORY = 16
"""Of fewer steps the resemblance of neighbours is not known; so many sigma of them are nearly all apart."""


def growth(seconds: F64) -> float | None:
    """Median step of the last quarter against that of the first, after the warm-up; `None` of fewer than
    eight values. 1 where the two do not differ beyond the scatter of steps, by the order of all of them
    (Mann and Whitney's test): a median alone falls to either side by chance where every other step is long.
    """
    seconds = _after_warm_up(seconds)
    if len(seconds) < LEAST_LINES:
        return None
    quarter = len(seconds) // 4
    first, last = seconds[:quarter], seconds[-quarter:]
    before, after = float(np.median(first)), float(np.median(last))
    if before <= 0:
        return None
    ratio = after / before
    way = 1.0 if ratio > 1 else -1.0
    if quarter >= LEAST_QUARTER:
        return ratio if way * difference_sigmas(first, last) >= SIGMAS else 1.0
    half = len(seconds) // 2
    is_apart = first.max() < last.min() if ratio > 1 else first.min() > last.max()
    is_told = is_apart and way * difference_sigmas(seconds[:half], seconds[-half:]) >= FEW_SIGMAS
    return ratio if is_told else 1.0


def difference_sigmas(first: F64, last: F64) -> float:
    """By how many sigma the second set of steps is longer than the first, by Mann and Whitney's test with
    ties; 0 where all are equal. Steps that resemble the one before count for fewer."""
    n, m = len(first), len(last)
    rank = _ranks(np.concatenate([first, last]))
    more = float(rank[n:].sum()) - m * (m + 1) / 2 - n * m / 2
    _, same = np.unique(rank, return_counts=True)
    ties = float((same**3 - same).sum()) / ((n + m) * (n + m - 1))
    variance = n * m / 12 * (n + m + 1 - ties)
    if variance <= 0:
        return 0.0
    return more / math.sqrt(variance * max(_memory(rank[:n]), _memory(rank[n:])))


def _ranks(value: F64) -> F64:
    """The place of each value in the order of all, equal ones sharing theirs."""
    ordered = np.sort(value)
    low, high = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
    found: F64 = (low + high + 1) / 2
    return found


def _memory(rank: F64) -> float:
    """By how much the variance of a sum of these steps exceeds that of independent ones: (1 + r) / (1 - r)
    with r the correlation of a step with the one before, once their slope is taken off; 1 or more."""
    if len(rank) < LEAST_MEMORY:
        return 1.0
    at = np.arange(len(rank)) - (len(rank) - 1) / 2
    left = rank - rank.mean()
    left = left - at * float((at * left).sum() / (at**2).sum())
    power = float((left**2).sum())
    if power <= 0:
        return 1.0
    # Of so few steps, less mean and slope, it comes out too small by about 2 / n.
    r = float((left[1:] * left[:-1]).sum()) / power + 2 / len(rank)
    r = min(max(r, 0.0), 0.9)
    return (1 + r) / (1 - r)


def _after_warm_up(seconds: F64) -> F64:
    """Without the long steps at the start: more in a row than a start has are none."""
    if len(seconds) < LEAST_LINES:
        return seconds
    is_long = seconds > WARM_UP_FACTOR * float(np.median(seconds))
    num = int(np.argmin(np.append(is_long, False)))
    return seconds[num:] if num <= MOST_WARM_UP else seconds
