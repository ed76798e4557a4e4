"""How badly each possible lag explains one series: the curve from which the lag is judged.

For each lag the series is fitted by an offset and a gain for each column of the trace (none negative), with
Huber's weights. What is left is judged by a likelihood with heavy tails (Student's t), against the best lag.
Where what is left is correlated from one reading to the next (a board that warms up), readings and model are
taken less a share of the reading before (Cochrane and Orcutt), and readings count less for the rest of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.align.forward import SECOND_NS, SOURCE, Link, Past, columns, past
from stepscope.model.activity import Activity
from stepscope.model.sample import F64, Series
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64

MOST_READINGS = 200
"""Of a longer series the stretch that varies most is looked at: more readings tell no more of a lag."""
LEAST_READINGS = 8
"""A lag at which fewer readings lie within the trace cannot be judged."""
HUBER = 2.0
"""Residuals beyond this many robust sigmas count in proportion, not squared."""
FREEDOM = 4.0
"""Degrees of freedom of Student's t: a reading ten sigmas off costs as 16, not as 100."""
LEAST_SIGMA = 0.004
"""No series is known better than this share of its range: the forward model is no better."""
SCANNED = 256
"""Lags at a time: tables stay in the cache."""
CORRELATED = 0.2
"""Less correlation from one reading to the next is within noise of 60 readings."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One series against one device's trace, over a grid of lags.

    `drop[k]`: how much less likely lag `k` is than the best one, as twice a log likelihood ratio; NaN where
    it cannot be judged. `gain`: the same of no relation at all. `explained`: the share of variance that the
    best lag explains. `window_ns` is the window that fits best, `num` how many readings lie within the trace
    at the best lag, whose place on the grid is `best`.
    """

    signal: str
    drop: F64
    gain: float
    explained: float
    window_ns: int
    num: int
    best: int


def curve(activity: Activity, series: Series, link: Link, lag_ns: I64, window_ns: int) -> Curve | None:
    """The curve of one series; `None` where it or the trace is constant, or too little of it is in the
    trace."""
    parts = columns(activity, link)
    chosen = _chosen(series, activity, lag_ns, window_ns)
    if not parts or chosen is None:
        return None
    at, value = chosen
    pasts = [past(activity, part) for part in parts]
    windows = _windows(link, window_ns)
    models = _models(pasts, at, windows, lag_ns)
    residuals = [_residuals(value, model, link.is_signed) for model in models]
    floor = _floor(series.signal, value)
    which, best = _least(residuals, len(parts) + 1)
    if best < 0:
        return None
    num = np.isfinite(residuals[which]).sum(axis=0)
    own = np.isfinite(residuals[which][:, best])
    mean = value[own] - value[own].mean()
    explained = 1.0 - float((residuals[which][own, best] ** 2).sum() / max((mean**2).sum(), 1e-300))
    distinct = _distinct(np.stack([mean[own, best] for mean in models[which]]))
    rho = _correlation(residuals[which][own, best])
    if rho > CORRELATED:
        follows = np.append(False, np.diff(at) < 1.5 * np.median(np.diff(at)))
        value = _whitened(value[:, None], rho, follows)[:, 0]
        models = [[_whitened(column, rho, follows) for column in model] for model in models]
        residuals = [_residuals(value, model, link.is_signed) for model in models]
        which, best = _least(residuals, len(parts) + 1)
        if best < 0:
            return None
    return _judged(
        series.signal, value, residuals, (which, best), num, floor, windows, explained, distinct, len(parts) +
        1
    )  # fmt: skip


def scan(activity: Activity, series: Series, link: Link, lag_ns: I64, window_ns: int) -> F64 | None:
    """A first look over a fine grid: by plain least squares, `n·log(left / least left)` of each lag (inf
    where it cannot be judged); `None` as of `curve`. It shows where minima are, not how deep."""
    parts = columns(activity, link)
    chosen = _chosen(series, activity, lag_ns, window_ns)
    if not parts or chosen is None:
        return None
    at, value = chosen
    pasts = [past(activity, part) for part in parts]
    least = np.full(len(lag_ns), np.inf)
    for start in range(0, len(lag_ns), SCANNED):
        some = slice(start, start + SCANNED)
        for means in _models(pasts, at, _windows(link, window_ns), lag_ns[some]):
            inside = np.isfinite(means[0])
            num = inside.sum(axis=0)
            x = [np.where(inside, mean, 0.0) for mean in means]
            y = np.where(inside, value[:, None], 0.0)
            residual = np.where(inside, _least_squares(y, x, inside.astype(float), link.is_signed), 0.0)
            left = (residual**2).sum(axis=0) / np.maximum(num - len(x) - 1, 1)
            left[num < LEAST_READINGS] = np.inf
            least[some] = np.minimum(least[some], left)
    lowest = float(least.min())
    if not np.isfinite(lowest):
        return None
    floor = _floor(series.signal, value) ** 2
    curve_: F64 = len(at) * np.log((least + floor) / (lowest + floor))
    return curve_


def _models(pasts: list[Past], at: I64, windows: list[int], lag_ns: I64) -> list[list[F64]]:
    """For each window, what each column would show."""
    tables = [each.means(at, windows, lag_ns) for each in pasts]
    return [list(means) for means in zip(*tables, strict=True)]


def _windows(link: Link, window_ns: int) -> list[int]:
    """The windows that a signal may average over, where the source's own is known."""
    every = sorted({window if window != SOURCE else window_ns for window in link.windows_ns})
    return [each for each in every if each <= max(window_ns, SECOND_NS)]


def _judged(
    signal: str,
    value: F64,
    residuals: list[F64],
    place: tuple[int, int],
    num: npt.NDArray[np.intp],
    floor: float,
    windows: list[int],
    explained: float,
    distinct: float,
    num_free: int,
) -> Curve | None:
    which, best = place
    own = residuals[which][:, best]
    own = own[np.isfinite(own)]
    # The best of many lags leaves less than the true one would: a parameter for the lag, one for the window.
    few = np.sqrt(len(own) / max(len(own) - num_free - 2, 1))
    scale = np.hypot(_sigma(own) * few, floor)

    def cost(residual: F64) -> F64:
        """Twice the negative log likelihood a reading, of the readings within the trace: shape (lags,)."""
        known = np.isfinite(residual)
        count = known.sum(axis=0)
        part = (FREEDOM + 1.0) * np.log1p(np.where(known, residual, 0.0) ** 2 / (FREEDOM * scale**2))
        mean: F64 = part.sum(axis=0) / np.maximum(count, 1)
        return np.where(count >= LEAST_READINGS, mean, np.nan)

    over = np.stack([cost(residual) for residual in residuals])
    judged = np.isfinite(over).any(axis=0)
    least = np.full(over.shape[1], np.nan)
    least[judged] = np.nanmin(over[:, judged], axis=0)
    best = int(np.nanargmin(least))
    which = int(np.nanargmin(over[:, best]))
    counted = np.isfinite(residuals[which]).sum(axis=0)
    at_best = np.isfinite(residuals[which][:, best])
    nothing = cost((value[at_best] - np.median(value[at_best]))[:, None])
    rho = max(_correlation(residuals[which][at_best, best]), 0.0)
    share = (1.0 - rho) / (1.0 + rho) * distinct
    drop = np.minimum(counted, counted[best]) * share * (least - least[best])
    gain = float(counted[best] * share * (nothing[0] - least[best]))
    return Curve(signal, drop, gain, explained, windows[which], int(num[best]), best)


def _chosen(series: Series, activity: Activity, lag_ns: I64, window_ns: int) -> tuple[I64, F64] | None:
    """Readings that any lag brings into the trace; of many, the stretch that varies most."""
    low, high = activity.start_ns + int(lag_ns[0]), activity.end_ns + window_ns + int(lag_ns[-1])
    first, last = np.searchsorted(series.at_ns, [low, high])
    at, value = series.at_ns[first:last], series.value[first:last]
    if len(at) > MOST_READINGS:
        # Within the trace at every lag where it is long enough, or the stretch would shrink with the lag.
        inner = np.searchsorted(
            at, [activity.start_ns + window_ns + int(lag_ns[-1]), activity.end_ns + int(lag_ns[0])]
        )
        if inner[1] - inner[0] >= MOST_READINGS:
            at, value = at[inner[0] : inner[1]], value[inner[0] : inner[1]]
            start = _liveliest(value, MOST_READINGS)
            at, value = at[start : start + MOST_READINGS], value[start : start + MOST_READINGS]
    return (at, value) if len(at) >= LEAST_READINGS and np.ptp(value) > 0 else None


def _liveliest(value: F64, length: int) -> int:
    """Where the stretch of a length begins that varies most."""
    centred = value - value.mean()
    one, two = np.append(0.0, np.cumsum(centred)), np.append(0.0, np.cumsum(centred**2))
    sums, squares = one[length:] - one[:-length], two[length:] - two[:-length]
    return int(np.argmax(squares - sums**2 / length))


def _least(residuals: list[F64], num_free: int) -> tuple[int, int]:
    """(window, lag) with the least median square left; lag -1 where none can be judged."""
    found, place = np.inf, (0, -1)
    for index, residual in enumerate(residuals):
        known = np.isfinite(residual)
        num = known.sum(axis=0)
        size = np.where(known, np.abs(residual), 0.0)
        limit = 4.0 * size.sum(axis=0) / np.maximum(num, 1)
        square = (np.minimum(size, limit) ** 2).sum(axis=0) / np.maximum(num - num_free, 1)
        square[num < LEAST_READINGS] = np.inf
        best = int(np.argmin(square))
        if square[best] < found:
            found, place = float(square[best]), (index, best)
    return place


def _whitened(column: F64, rho: float, follows: npt.NDArray[np.bool_]) -> F64:
    """Each reading less a share of the one before; NaN where none is just before."""
    before = np.vstack([np.full_like(column[:1], np.nan), column[:-1]])
    return np.where(follows[:, None], column - rho * before, np.nan)


def _residuals(value: F64, means: list[F64], is_signed: bool) -> F64:
    """What an offset and gains leave, with Huber's weights: (readings, lags), NaN outside the trace."""
    inside = np.isfinite(means[0]) & np.isfinite(value)[:, None]
    x = [np.where(inside, mean, 0.0) for mean in means]
    y = np.where(inside, value[:, None], 0.0)
    weight = inside.astype(np.float64)
    residual = _least_squares(y, x, weight, is_signed)
    num = np.maximum(inside.sum(axis=0), 1)
    for _ in range(2):
        size = np.abs(residual)
        # 1.2533: sigma of a normal distribution by its mean deviation, which costs no sorting.
        limit = HUBER * 1.2533 * np.where(inside, size, 0.0).sum(axis=0) / num
        # limit / size where that is less than 1: divided so that it cannot overflow.
        weight = np.where(inside, limit / np.maximum(size, np.maximum(limit, 1e-300)), 0.0)
        residual = _least_squares(y, x, weight, is_signed)
    return np.where(inside, residual, np.nan)


def _least_squares(y: F64, x: list[F64], weight: F64, is_signed: bool) -> F64:
    """Residuals of y over an offset and one or two columns of x, a lag a column; gains below 0 are 0."""
    total = np.maximum(weight.sum(axis=0), 1e-300)

    def centred(column: F64) -> F64:
        rest: F64 = column - (weight * column).sum(axis=0) / total
        return rest

    dy = centred(y)
    dx = [centred(column) for column in x]
    xx = [(weight * column**2).sum(axis=0) for column in dx]
    xy = [(weight * column * dy).sum(axis=0) for column in dx]
    single = []
    for square, cross in zip(xx, xy, strict=True):
        gain = np.where(square > 1e-18 * total, cross / np.maximum(square, 1e-300), 0.0)
        single.append(gain if is_signed else np.maximum(gain, 0.0))
    if len(x) == 1:
        return dy - single[0] * dx[0]
    both = (weight * dx[0] * dx[1]).sum(axis=0)
    det = xx[0] * xx[1] - both**2
    is_sound = det > 1e-9 * xx[0] * xx[1]
    safe = np.where(is_sound, det, 1.0)
    first = (xy[0] * xx[1] - xy[1] * both) / safe
    second = (xy[1] * xx[0] - xy[0] * both) / safe
    use = is_sound & (is_signed | ((first >= 0) & (second >= 0)))
    better = single[0] * xy[0] >= single[1] * xy[1]
    first = np.where(use, first, np.where(better, single[0], 0.0))
    second = np.where(use, second, np.where(better, 0.0, single[1]))
    return dy - first * dx[0] - second * dx[1]


def _distinct(expected: F64) -> float:
    """The share of readings that say something of their own: (columns, readings) as the model has them.

    Work whose period is a whole number of readings shows the same few values over and over, and what the
    model is off by (rounding, a ratio that stops at 1) comes again with them: it does not average out. A
    value counts for two readings.
    """
    span = np.maximum(np.ptp(expected, axis=1, keepdims=True), 1e-300)
    num = np.unique(np.round(expected / span * 100.0), axis=1).shape[1]
    return float(min(2.0 * num / expected.shape[1], 1.0))


def _floor(signal: str, value: F64) -> float:
    """The least noise of a reading: of rounding, and of the model."""
    row = SIGNALS.get(signal)
    step = 0.01 if row is not None and row.unit == "ratio" else 1.0
    is_round = bool(np.allclose(value / step, np.round(value / step), atol=1e-6))
    rounding = step / np.sqrt(12.0) if is_round else 0.0
    return max(rounding, LEAST_SIGMA * float(np.ptp(value)), 1e-12)


def _robust_sigma(residual: F64) -> float:
    return 1.4826 * float(np.median(np.abs(residual - np.median(residual)))) if len(residual) else 0.0


def _sigma(residual: F64) -> float:
    """Of the nine tenths that lie closest, as of a normal distribution; or the robust one, if that is more.

    The robust one alone is next to nothing where most readings are a plain 0 or 1.
    """
    near = np.sort(residual**2)[: max(int(0.9 * len(residual)), 1)]
    # Within 1.645 sigma a normal distribution has 0.789 of its root mean square.
    return max(_robust_sigma(residual), float(np.sqrt(near.mean())) / 0.789)


def _correlation(residual: F64) -> float:
    """Of residuals from one reading to the next, at most 0.98. The plain estimate is low by about
    (1 + 4 rho) / n (Kendall): that is added."""
    if len(residual) < LEAST_READINGS:
        return 0.0
    # A lone outlier is no reason to think that its neighbours are independent.
    limit = 4.0 * _robust_sigma(residual)
    centred = residual - np.median(residual)
    if limit > 0.0:
        centred = np.clip(centred, -limit, limit)
    centred = centred - centred.mean()
    power = float((centred**2).sum())
    if power <= 0.0:
        return 0.0
    rho = float((centred[1:] * centred[:-1]).sum()) / power
    return min(rho + (1.0 + 4.0 * max(rho, 0.0)) / len(residual), 0.98)
