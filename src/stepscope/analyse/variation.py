"""How step times vary: typical, tail, slow ones, and whether they come at a period."""

from __future__ import annotations

import numpy as np

from stepscope.model.report import Variation
from stepscope.model.trace import I64

SLOW_FACTOR = 1.2
"""A step this many times the median is slow; honest step noise stays within a few percent."""
MIN_SLOW = 3
"""Fewer slow steps than this cannot show a period."""


def variation(number: I64, duration_ns: I64) -> Variation | None:
    """First, median, p95, slow steps and period over counted steps; `None` without any.

    `p95_ns` and slow steps need two steps. A period needs three slow steps at equal distances.
    """
    if len(number) == 0:
        return None
    median = int(np.median(duration_ns))
    if len(number) == 1:
        return Variation(first_ns=int(duration_ns[0]), median_ns=median)
    slow = number[duration_ns > SLOW_FACTOR * median]
    return Variation(
        first_ns=int(duration_ns[0]),
        median_ns=median,
        p95_ns=int(np.percentile(duration_ns, 95, method="higher")),
        slow_steps=tuple(slow.tolist()),
        period_steps=period_steps(slow),
    )


def period_steps(slow: I64) -> int | None:
    """The distance at which slow steps come, in steps; `None` where they do not."""
    if len(slow) < MIN_SLOW:
        return None
    distance = np.diff(slow)
    if distance.min() == distance.max() and distance[0] > 1:
        return int(distance[0])
    return None


def periodic_excess_ns(number: I64, duration_ns: I64) -> int:
    """Time of periodic slow steps beyond the median step, in nanoseconds; 0 where nothing is periodic."""
    if len(number) < 2:
        return 0
    median = int(np.median(duration_ns))
    slow = duration_ns > SLOW_FACTOR * median
    if period_steps(number[slow]) is None:
        return 0
    return int((duration_ns[slow] - median).sum())
