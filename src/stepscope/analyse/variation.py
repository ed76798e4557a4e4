"""How step times vary: typical, tail, slow ones, and whether they come at a period."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.model.report import Variation
from stepscope.model.trace import I64

SLOW_FACTOR = 1.2
"""A step this many times the median is slow; honest step noise stays within a few percent."""
BIG_FACTOR = 3.0
"""Where slow steps show no period, those so many times the median may: other load on a host makes steps slow
at random, but seldom that slow, and a pause is not hidden by it."""
MIN_SLOW = 3
"""Fewer slow steps than this cannot show a period."""
LEAST_STEPS = 10 * MIN_SLOW
"""In fewer steps a stall every ten may not come often enough: seeing none rules nothing out."""


def variation(number: I64, duration_ns: I64, is_counted: npt.NDArray[np.bool_]) -> Variation | None:
    """First, median and p95 over the counted steps, slow steps and their period over all given ones.

    `None` without a counted step. `p95_ns` and slow steps need two counted steps, a period three slow
    ones at equal distances. A marked step may be slow for a known reason; it comes at its period all the
    same.
    """
    counted = duration_ns[is_counted]
    if len(counted) == 0:
        return None
    median = int(np.median(counted))
    if len(counted) == 1:
        return Variation(first_ns=int(counted[0]), median_ns=median)
    return Variation(
        first_ns=int(counted[0]),
        median_ns=median,
        p95_ns=int(np.percentile(counted, 95, method="higher")),
        slow_steps=tuple(number[duration_ns > SLOW_FACTOR * median].tolist()),
        period_steps=period_steps(number[_at_a_period(number, duration_ns, median)]),
    )


def _at_a_period(number: I64, duration_ns: I64, median_ns: int) -> npt.NDArray[np.bool_]:
    """The slow steps; of those without a period the big ones, where these have one."""
    slow, big = (duration_ns > factor * median_ns for factor in (SLOW_FACTOR, BIG_FACTOR))
    return slow if period_steps(number[slow]) is not None or period_steps(number[big]) is None else big


def period_steps(slow: I64) -> int | None:
    """The distance at which slow steps come, in steps; `None` where they do not.

    Slow steps one after another are one stall: what begins at the end of a step goes on in the next.
    """
    begun = slow[np.diff(slow, prepend=slow[:1] - 2) > 1]
    if len(begun) < MIN_SLOW:
        return None
    distance = np.diff(begun)
    return int(distance[0]) if distance.min() == distance.max() else None


def periodic_excess_ns(
    number: I64, duration_ns: I64, is_counted: npt.NDArray[np.bool_], compute_ns: I64
) -> int:
    """Time of periodic slow steps beyond the median counted step, in nanoseconds, without what they compute
    beyond theirs: an optimizer step every fourth is no stall. 0 where nothing is periodic."""
    counted = duration_ns[is_counted]
    if len(counted) < 2:
        return 0
    median = int(np.median(counted))
    slow = _at_a_period(number, duration_ns, median)
    if period_steps(number[slow]) is None:
        return 0
    more = np.maximum(compute_ns[slow] - int(np.median(compute_ns[is_counted])), 0)
    return int(np.maximum(duration_ns[slow] - median - more, 0).sum())
