"""Whether the traced window is like the rest of the run, by the counters.

A short trace and slow sampling meet in few readings: no lag and no step can be told from them, but whether
the device was as busy, as hot and as fast as before can. The median of the window's readings is compared with
medians of windows of equal length outside; those hold as few readings, so that chance counts on both sides
alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import Intervals, intersect, single
from stepscope.model.sample import F64, Series
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64

HOUR_NS = 3_600_000_000_000
LEAST_SAMPLES = 3
"""A median of fewer readings is any of them."""
LEAST_WINDOWS = 10
"""Of 19 windows alike the window itself is beyond them all, on either side, once in ten."""
UNLIKE_SHARE, UNLIKE_LEAST = 0.33, 5
"""So many of the other windows in a row (a share of all, and at least) that differ by an effect, all to one
side, are another level of the run: windows that scatter seldom keep to one side."""
CENTRAL = 0.95
RATIO_EFFECT = 0.10
"""Ten points of a ratio, and ten percent of anything else, are worth a word."""
RELATIVE_EFFECT = 0.10
LEAST_RATE = 1e8
"""A change of less than 0.1 GB/s is no change of any link."""

Status = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One signal in the window and outside: medians in the signal's unit, `low` and `high` the central 95 %
    of windows of equal length outside (more, where several signals are asked). `status` is `unknown` where
    there are too few readings or windows. `name` is the caller's, which may name the device too."""

    name: str
    signal: str
    status: Status
    samples: int
    windows: int
    inside: float | None = None
    outside: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Representative:
    """Whether the window is like the rest, by what, and the numbers."""

    status: Status
    why: str
    signals: tuple[Compared, ...] = ()


def is_compared(signal: str) -> bool:
    """Whether a signal's level says what a run does: means, and rates of a log."""
    row = SIGNALS.get(signal)
    return row is None or (row.kind == "gauge" and row.aggregate == "mean")


def representative(
    series: Mapping[str, Series],
    window: tuple[int, int],
    *,
    lag_ns: int = 0,
    hours: float = 1.0,
    during: Intervals | None = None,
) -> Representative:
    """Whether a window is like up to `hours` before and after it, by signals of one device or one log.

    `series` may hold rates of a log under their own names (`tokens_per_second`). `during` is when the job
    ran: readings outside of it are of something else; `None`: all count. `lag_ns` is taken off.
    """
    asked = {name: each for name, each in series.items() if is_compared(each.signal)}
    # Of twenty signals one is beyond its central 95 % by chance: together they are allowed what one is.
    tail = (1.0 - CENTRAL) / 2.0 / max(len(asked), 1)
    compared = tuple(
        _compared(name, each, window, lag_ns, hours, during, tail) for name, each in asked.items()
    )
    differing = [each for each in compared if each.status == "no"]
    alike = [each for each in compared if each.status == "yes"]
    if differing:
        return Representative("no", "; ".join(_said(each) for each in differing[:3]) + ".", compared)
    if alike:
        names = ", ".join(each.name for each in alike[:4])
        more = f" and {len(alike) - 4} more" if len(alike) > 4 else ""
        return Representative("yes", f"As in the rest of the run: {names}{more}.", compared)
    return Representative("unknown", _lacking(compared), compared)


def _compared(
    name: str,
    series: Series,
    window: tuple[int, int],
    lag_ns: int,
    hours: float,
    during: Intervals | None,
    tail: float,
) -> Compared:
    at, (start, end) = series.at_ns - lag_ns, window
    reach = single(start - round(hours * HOUR_NS), end + round(hours * HOUR_NS))
    if during is not None:
        reach = intersect(reach, during)
    inside = series.value[(at >= start) & (at < end)]
    if len(inside) < LEAST_SAMPLES:
        return Compared(name, series.signal, "unknown", len(inside), 0)
    medians = _medians(at, series.value, start, end, reach, len(inside))
    mine = float(np.median(inside))
    if len(medians) < LEAST_WINDOWS:
        return Compared(name, series.signal, "unknown", len(inside), len(medians), mine)
    low, middle, high = (float(each) for each in np.quantile(medians, [tail, 0.5, 1.0 - tail]))
    effect = _effect(series.signal, middle)
    differs = not low <= mine <= high and abs(mine - middle) >= effect
    # A run of two levels has both within its spread: a window of one is not like the other.
    away = medians - mine
    longest = max(_longest(away >= effect), _longest(-away >= effect))
    differs |= longest >= max(UNLIKE_SHARE * len(medians), UNLIKE_LEAST)
    return Compared(
        name, series.signal, "no" if differs else "yes", len(inside), len(medians), mine, middle, low, high
    )  # fmt: skip


def _longest(holds: npt.NDArray[np.bool_]) -> int:
    """The longest row of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], holds.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))


def _medians(at: I64, value: F64, start: int, end: int, reach: Intervals, num: int) -> F64:
    """Medians of whole windows that tile the time before and after, in `reach`, with at least half as many
    readings as the window itself."""
    length = end - start
    if not len(reach) or length <= 0:
        return np.empty(0)
    before = np.arange(start - length, int(reach.start[0]) - 1, -length)
    after = np.arange(end, int(reach.end[-1]) - length + 1, length)
    found = []
    for begin in np.concatenate([before[::-1], after]).astype(np.int64):
        within = intersect(reach, single(int(begin), int(begin) + length))
        if within.total_ns < length:
            continue
        low, high = np.searchsorted(at, [begin, begin + length])
        if high - low >= max(num / 2, 1):
            found.append(float(np.median(value[low:high])))
    return np.array(found)


def _effect(signal: str, middle: float) -> float:
    """The least difference that matters, in the signal's unit."""
    row = SIGNALS.get(signal)
    if row is not None and row.unit == "ratio":
        return RATIO_EFFECT
    least = LEAST_RATE if row is not None and row.unit == "B/s" else 0.0
    return max(RELATIVE_EFFECT * abs(middle), least)


def _said(each: Compared) -> str:
    row = SIGNALS.get(each.signal)
    if each.inside is None or each.outside is None:
        return each.name
    if row is not None and row.unit == "ratio":
        return f"{each.name} {each.inside:.0%} in the window, {each.outside:.0%} in the rest"
    unit = f" {row.unit}" if row is not None and row.unit != "1" else ""
    inside, outside = _number(each.inside), _number(each.outside)
    return f"{each.name} {inside}{unit} in the window, {outside}{unit} in the rest"


def _number(value: float) -> str:
    """Three significant digits, without an exponent below a million."""
    return f"{float(f'{value:.3g}'):,.0f}" if 100 <= abs(value) < 1e6 else f"{value:.3g}"


def _lacking(compared: tuple[Compared, ...]) -> str:
    if not compared:
        return "No signal that tells a run's level."
    most = max(each.samples for each in compared)
    if most < LEAST_SAMPLES:
        return f"{most} readings lie in the window; {LEAST_SAMPLES} are needed."
    windows = max(each.windows for each in compared)
    return f"{windows} windows of equal length lie outside; {LEAST_WINDOWS} are needed."
