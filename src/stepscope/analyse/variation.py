"""How step times vary: typical, tail, slow ones, and whether they come at a period."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.analyse.comb import comb
from stepscope.model.report import Variation
from stepscope.model.trace import I64

SLOW_FACTOR = 1.2
"""A step this many times the median is slow; honest step noise stays within a few percent."""
MOST_APART = 2.0
"""Slow steps whose time beyond the median differs by more than this, with none between, are two kinds: a
pause of a second is not hidden by hiccups of other load."""
MOST_KINDS = 6
MOST_UNLIKE = 3.0
"""Three slow steps alone make a period only where the longest takes at most so many times the shortest beyond
the median."""
MIN_SLOW = 3
"""Fewer slow steps than this cannot show a period."""
LEAST_STEPS = 10 * MIN_SLOW
"""In fewer steps a stall every ten may not come often enough: seeing none rules nothing out."""


def variation(number: I64, duration_ns: I64, is_counted: npt.NDArray[np.bool_]) -> Variation | None:
    """First, median and p95 over the counted steps, slow steps and their period over all given ones.

    `None` without a counted step. `p95_ns` and slow steps need two counted steps, a period those that come
    at one (`periodic_steps`). A marked step may be slow for a known reason; it comes at its period all the
    same.
    """
    counted = duration_ns[is_counted]
    if len(counted) == 0:
        return None
    median = int(np.median(counted))
    if len(counted) == 1:
        return Variation(first_ns=int(counted[0]), median_ns=median)
    periodic = periodic_steps(number, duration_ns, is_counted)
    return Variation(
        first_ns=int(counted[0]),
        median_ns=median,
        p95_ns=int(np.percentile(counted, 95, method="higher")),
        slow_steps=tuple(number[duration_ns > SLOW_FACTOR * median].tolist()),
        period_steps=periodic.period if periodic is not None else None,
    )


@dataclass(frozen=True, slots=True)
class Periodic:
    """Slow steps that come at a period: the `period` in steps, and the numbers of these `steps`."""

    period: int
    steps: I64


def periodic_steps(number: I64, duration_ns: I64, is_counted: npt.NDArray[np.bool_]) -> Periodic | None:
    """The slow steps that come at a period, judged kind by kind of size; `None` where none do.

    Slow steps one after another are one stall: what begins at the end of a step goes on in the next. Of
    several kinds at a period the one that takes most time counts; all kinds together only where none does by
    itself.
    """
    counted = duration_ns[is_counted]
    if len(counted) < 2:
        return None
    median = int(np.median(counted))
    slow = np.flatnonzero(duration_ns > SLOW_FACTOR * median)
    if len(slow) < MIN_SLOW:
        return None
    stall = np.cumsum(np.diff(number[slow], prepend=number[slow[0]] - 2) > 1) - 1
    beyond = (duration_ns[slow] - median).astype(np.float64)
    most = np.zeros(stall[-1] + 1)
    np.maximum.at(most, stall, beyond)
    time_ns = np.bincount(stall, weights=beyond)
    # A stall is where the first large step of its run is: other load may make the one before it slow too.
    large = np.flatnonzero(2 * beyond >= most[stall])
    begun = number[slow[large[np.unique(stall[large], return_index=True)[1]]]]
    span = int(number[-1] - number[0]) + 1
    kinds = _kinds(most)
    best: tuple[float, int, npt.NDArray[np.intp]] | None = None
    for bounds in (pairwise(kinds), ((low, np.inf) for low in kinds[-3::-1])):
        for low, high in bounds:
            mine = np.flatnonzero((most >= low) & (most < high))
            one = comb(begun[mine], span)
            if one is None:
                continue
            on = mine[list(one.events)]
            time, is_unlike = float(time_ns[on].sum()), most[on].max() > MOST_UNLIKE * most[on].min()
            is_some = (len(on) == MIN_SLOW and is_unlike) or 2 * time < float(time_ns[mine].sum())
            if not is_some and (best is None or time > best[0]):
                best = time, one.period, on
        if best is not None:
            break
    if best is None:
        return None
    of = slow[np.isin(stall, best[2])]
    return Periodic(best[1], number[of[number[of] >= begun[stall[np.isin(stall, best[2])]]]])


def _kinds(beyond_ns: npt.NDArray[np.float64]) -> list[float]:
    """Bounds of the kinds of size, ascending, the first below and the last above all."""
    ordered = np.sort(np.maximum(beyond_ns, 1.0))
    ratio = ordered[1:] / ordered[:-1]
    cuts = np.flatnonzero(ratio > MOST_APART)
    cuts = np.sort(cuts[np.argsort(-ratio[cuts], kind="stable")][: MOST_KINDS - 1])
    return [-np.inf, *ordered[cuts + 1].tolist(), np.inf]


def period_steps(slow: I64) -> int | None:
    """The distance at which slow steps come, in steps; `None` where they do not.

    All distances equal, of three or more, or a comb among as many steps as events at random so far from first
    to last would be strewn over.
    """
    begun = slow[np.diff(slow, prepend=slow[:1] - 2) > 1]
    if len(begun) < MIN_SLOW:
        return None
    distance = np.diff(begun)
    if distance.min() == distance.max():
        return int(distance[0])
    among = round((int(begun[-1] - begun[0]) + 1) * (len(begun) + 1) / (len(begun) - 1))
    found = comb(begun, among)
    return found.period if found is not None else None


def periodic_excess_ns(
    number: I64, duration_ns: I64, is_counted: npt.NDArray[np.bool_], compute_ns: I64
) -> int:
    """Time of periodic slow steps beyond the median counted step, in nanoseconds, without what they compute
    beyond theirs: an optimizer step every fourth is no stall. 0 where nothing is periodic."""
    counted = duration_ns[is_counted]
    if len(counted) < 2:
        return 0
    median = int(np.median(counted))
    periodic = periodic_steps(number, duration_ns, is_counted)
    if periodic is None:
        return 0
    slow = np.isin(number, periodic.steps)
    more = np.maximum(compute_ns[slow] - int(np.median(compute_ns[is_counted])), 0)
    return int(np.maximum(duration_ns[slow] - median - more, 0).sum())
