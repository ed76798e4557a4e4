"""By how much a telemetry source lags behind a trace: the set of lags that fit, not the best one alone.

A reading at t describes `[t − lag − window, t − lag)`. The lag is one a source: its devices share it.
Ordinarily it lies between 0 and the collect interval; the clocks of two hosts may differ by more, so that
more is searched. Periodic work looks the same a period later: then several lags fit, and it is not known
which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.align.collect import Cadence, collect_interval, unheld
from stepscope.align.forward import LINKS, SECOND_NS, Link
from stepscope.align.misfit import Curve, curve, scan
from stepscope.model.activity import Activity
from stepscope.model.interval import union
from stepscope.model.report.base import LagStatus
from stepscope.model.sample import F64, Owner, Series, Telemetry
from stepscope.model.trace import I64

SEARCH_NS = 10 * SECOND_NS
"""Hosts without a time service were seen seconds apart: the least half-width of the search."""
DELIVERY_NS = 300_000_000
"""DCGM hands a value out up to 0.3 s after it was read (DCGM#170)."""
LEAST_WINDOWS = 20
"""Fewer readings within the trace give no lag: with some 20 to try, one fits by chance."""
FITS = 20.0
"""Lags that are less likely than the best one by no more than this (as chi² of one degree of freedom: 2·10⁻⁴)
fit too. Calibrated by `bench/lag.py`: docs/reference/telemetry-time.md."""
RELATED = 30.0
"""Less likely than this against no relation at all, and a series says nothing of the lag."""
LEAST_EXPLAINED = 0.2
"""Likewise where so little of its variance is explained: something slow that both share."""
MODEL_PARTS = 50
"""Where a window begins and ends is known to a part of it: a source stamps and averages as it likes."""
MOST_LAGS = 4000
MOST_MINIMA = 100
COARSE = 8
FAR = 4
"""So many times the search is looked through for a better lag before one is called found."""
MOST_DEVICES = 4
MOST_SIGNALS = 3


@dataclass(frozen=True, slots=True)
class Side:
    """One device on both sides: its trace, and the telemetry's series of it."""

    activity: Activity
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of one source, and how well it is known.

    `lag_ns` is there where it was found or declared, `range_ns` is the least and the largest lag that fit as
    well (of an unknown one the prior), `sets` all intervals of lags that fit. `window_ns` is the source's own
    window; `windows_ns` are those of signals that average over another. `num_windows`: readings within the
    trace; `signals` are those that were asked. `why` is a sentence.
    """

    status: LagStatus
    lag_ns: int | None
    range_ns: tuple[int, int] | None
    sets: tuple[tuple[int, int], ...]
    num_windows: int
    window_ns: int | None
    why: str
    collect_ns: int | None = None
    windows_ns: Mapping[str, int] = field(default_factory=dict)
    signals: tuple[str, ...] = ()

    @property
    def used_ns(self) -> int:
        """The lag to reckon with: as known, else the middle of its range; 0 without either."""
        if self.lag_ns is not None:
            return self.lag_ns
        return (self.range_ns[0] + self.range_ns[1]) // 2 if self.range_ns else 0

    @property
    def slack_ns(self) -> int:
        """How far windows may lie from where they are put, end to end; 0 of a lag that is known."""
        return self.range_ns[1] - self.range_ns[0] if self.lag_ns is None and self.range_ns else 0

    def window_of(self, signal: str) -> int | None:
        """What a reading of a signal averages over; `None` where nothing tells."""
        return self.windows_ns.get(signal, self.window_ns)


def lag_of(
    telemetry: Telemetry, activities: Mapping[Owner, Activity], search_ns: tuple[int, int] | None = None
) -> Lag:
    """The lag of a source against the traces of its devices, as `estimate` has it."""
    cadence = collect_interval(telemetry.series)
    traces = {owner.key: activity for owner, activity in activities.items()}
    held: dict[tuple[str | int | None, ...], list[Series]] = {}
    for each in unheld(telemetry.series, cadence):
        if each.owner.key in traces:
            held.setdefault(each.owner.key, []).append(each)
    return estimate(
        [Side(traces[key], tuple(series)) for key, series in held.items()],
        cadence,
        window_ns=telemetry.window_ns,
        collect_ns=telemetry.collect_ns,
        declared_ns=telemetry.lag_ns,
        search_ns=search_ns,
    )


def estimate(
    sides: Sequence[Side],
    cadence: Cadence | None,
    *,
    window_ns: int | None = None,
    collect_ns: int | None = None,
    declared_ns: int | None = None,
    search_ns: tuple[int, int] | None = None,
) -> Lag:
    """The lag that one source's series (`collect.unheld`) have behind the traces of their devices.

    `search_ns` narrows the lags that can be, as where both come from one host's clock. Pure; the cost is
    about 10 ms a signal and device.
    """
    collect = collect_ns or (cadence.collect_ns if cadence else None)
    window = window_ns or collect
    if window is None:
        return _unknown(
            None, None, declared_ns, 0, "No reading differs from the one before: nothing tells the window."
        )
    prior = (0, (collect or window) + DELIVERY_NS)
    wide = max(SEARCH_NS, 2 * window)
    low, high = search_ns or (-wide, max(wide, prior[1]))
    step = max((high - low) // MOST_LAGS, min(window, SECOND_NS) // 160, 1)
    fine = np.arange(low, high + step, step, dtype=np.int64)
    num = _num_windows(sides, window)
    if num < LEAST_WINDOWS:
        why = f"{num} windows of the source lie within the trace; {LEAST_WINDOWS} are needed."
        return _unknown(window, collect, declared_ns, num, why)
    lags, telling = fine, list[list[tuple[_Row, Curve]]]()
    for tier in sorted({link.tier for link in LINKS.values()}):
        lags, telling = _asked(sides, tier, fine, window)
        if telling:
            break
    if not telling:
        why = "The work is too steady, or no signal follows it: every lag fits as well."
        return _unknown(window, collect, declared_ns, num, why)
    asked = [[told for _, told in of_device] for of_device in telling]
    fit, apart = _together(asked)
    sets = _sets(lags, fit, window // MODEL_PARTS)
    found = int(lags[int(np.nanargmin(fit))])
    signals = tuple(dict.fromkeys(each.signal for curves in asked for each in curves))
    windows = {each.signal: each.window_ns for curves in reversed(asked) for each in curves}
    windows = {signal: each for signal, each in windows.items() if each != window}
    status, why = _status(sets, (low, high), window, found)
    if status == "found" and apart > FITS:
        status, why = "ambiguous", "Signals or devices of the source disagree about its lag."
    if status == "found" and search_ns is None:
        far = _better_beyond(telling[0][0][0], (low, high), window)
        if far is not None:
            status, why = "ambiguous", f"A lag of {far / 1e9:.1f} s fits as well, beyond what is searched."
    if status == "found":
        others = _repeats(telling[0][0][0], found, (low, high), window)
        if others:
            half = (sets[0][1] - sets[0][0]) // 2
            every = np.array([found, *others], dtype=np.int64)
            whole = union(every - half, every + half)
            sets = tuple(zip(whole.start.tolist(), whole.end.tolist(), strict=True))
            status = "ambiguous"
            why = f"The work repeats itself: {len(sets)} lags look alike, {found / 1e9:.2f} s fits best."
    if declared_ns is not None:
        if status != "found":
            status, why = "declared", "The source declares its lag; the trace tells no better."
        elif not sets[0][0] <= declared_ns <= sets[0][1]:
            why += f" The source declares {declared_ns / 1e9:.2f} s."
    lag, reach = _reach(status, sets, prior, declared_ns, found)
    return Lag(status, lag, reach, sets, num, window, why, collect, windows, signals)


_Row = tuple[Activity, Series, Link]


def _asked(
    sides: Sequence[Side], tier: int, fine: I64, window_ns: int
) -> tuple[I64, list[list[tuple[_Row, Curve]]]]:
    """(lags that are judged, what each device's telling signals say), of the signals of one tier. Of many the
    most telling are asked: of a device `MOST_SIGNALS`, and `MOST_DEVICES` in all."""
    ranked: list[list[tuple[float, _Row]]] = []
    for side in sides:
        held = []
        for each in side.series:
            link = LINKS.get(each.signal)
            if link is not None and link.tier == tier:
                row = (side.activity, each, link)
                # Over a coarse grid: enough to say which are worth a fine one.
                glance = scan(*row, fine[::COARSE], window_ns)
                if glance is not None:
                    held.append((_depth(glance), row))
        held.sort(key=lambda ranks: ranks[0], reverse=True)
        ranked.append(held[:MOST_SIGNALS])
    ranked.sort(key=lambda held: held[0][0] if held else 0.0, reverse=True)
    rows = [[row for _, row in held] for held in ranked[:MOST_DEVICES]]
    scans = [scan(*row, fine, window_ns) for held in rows for row in held]
    lags = _worth(fine, [each for each in scans if each is not None])
    asked = []
    for each_device in rows:
        every = [(row, curve(*row, lags, window_ns)) for row in each_device]
        telling = [(row, told) for row, told in every if told is not None and _tells(told)]
        if telling:
            asked.append(telling)
    return lags, asked


def _num_windows(sides: Sequence[Side], window_ns: int) -> int:
    """How many readings of one series lie in a trace with their whole window, the lag aside; the most."""
    most = 0
    for side in sides:
        first, last = side.activity.start_ns + window_ns, side.activity.end_ns
        for each in side.series:
            if each.signal in LINKS:
                low, high = np.searchsorted(each.at_ns, [first, last + 1])
                most = max(most, int(high - low))
    return most


def _depth(scanned: F64) -> float:
    """How far the lowest minimum of a scan lies under its ordinary value."""
    return float(np.median(scanned[np.isfinite(scanned)]))


def _tells(told: Curve) -> bool:
    return told.gain >= RELATED and told.explained >= LEAST_EXPLAINED


def _together(asked: list[list[Curve]]) -> tuple[F64, float]:
    """(one curve for the source, by how much its parts disagree): the mean over the signals of a device, then
    over devices, times the root of their number. Signals of one device err together, and devices that are
    read in one scrape in part. A lag that a part cannot judge is judged by the others."""

    def mean(parts: list[F64]) -> F64:
        both: F64 = np.ma.masked_invalid(np.stack(parts)).mean(axis=0).filled(np.nan)
        return both

    whole = mean([mean([each.drop for each in curves]) for curves in asked])
    apart = float(np.nanmin(whole))
    return (whole - apart) * min(np.sqrt(len(asked)), 2.0), apart


def _better_beyond(row: _Row, searched: tuple[int, int], window_ns: int) -> int | None:
    """A lag outside the search that fits about as well as the best one inside; `None` where there is none.

    Of steps that are nearly alike the best one inside may be a neighbour of a true one outside.
    """
    low, high = (FAR * edge for edge in searched)
    step = max((high - low) // MOST_LAGS, min(window_ns, SECOND_NS) // 40, 1)
    lags = np.arange(low, high + step, step, dtype=np.int64)
    told = scan(*row, lags, window_ns)
    if told is None:
        return None
    inside = (lags >= searched[0]) & (lags <= searched[1])
    beyond = np.where(inside, np.inf, told)
    best = int(np.argmin(beyond))
    return int(lags[best]) if beyond[best] <= float(told[inside].min()) + FITS else None


ALIKE = 0.9
"""Correlation of the trace with itself at another lag, from which on no reading is good enough to choose:
what the model leaves out of a step (0.1 of its variance) is in every step alike, and no noise."""


def _repeats(row: _Row, found: int, searched: tuple[int, int], window_ns: int) -> list[int]:
    """Other lags, at the minima of difference, at which the trace looks to this series as at the one
    found."""
    activity, series, _ = row
    step = max((searched[1] - searched[0]) // MOST_LAGS, min(window_ns, SECOND_NS) // 20, 1)
    lags = np.arange(searched[0], searched[1] + step, step, dtype=np.int64)
    busy = activity.parts.get("busy")
    if busy is None:
        return []
    edges = activity.start_ns + activity.cell_ns * np.arange(len(busy) + 1, dtype=np.float64)
    summed = np.concatenate(([0.0], np.cumsum(busy)))

    def means(lag: int) -> F64:
        end = (series.at_ns - lag).astype(np.float64)
        value: F64 = (np.interp(end, edges, summed) - np.interp(end - window_ns, edges, summed)) / window_ns
        value[(end - window_ns < edges[0]) | (end > edges[-1])] = np.nan
        return value

    mine = means(found)
    alike = np.full(len(lags), -1.0)
    for place, lag in enumerate(lags.tolist()):
        if abs(lag - found) > window_ns:
            other = means(lag)
            both = ~np.isnan(mine) & ~np.isnan(other)
            if both.sum() >= LEAST_WINDOWS and mine[both].std() > 1e-3 and other[both].std() > 1e-3:
                alike[place] = np.corrcoef(mine[both], other[both])[0, 1]
    padded = np.concatenate([[-1.0], alike, [-1.0]])
    peaks = (alike >= ALIKE) & (alike >= padded[:-2]) & (alike >= padded[2:])
    return [int(lag) for lag in lags[peaks]]


def _worth(fine: I64, scans: Sequence[F64]) -> I64:
    """The lags that are judged: every eighth of the fine grid, and all around its lowest minima."""
    keep = np.zeros(len(fine), dtype=bool)
    keep[::COARSE] = True
    if scans:
        fit = np.mean(np.stack(scans), axis=0)
        padded = np.concatenate([[np.inf], fit, [np.inf]])
        lowest = np.flatnonzero((fit <= padded[:-2]) & (fit <= padded[2:]) & np.isfinite(fit))
        lowest = lowest[np.argsort(fit[lowest], kind="stable")][:MOST_MINIMA]
        around = lowest[:, None] + np.arange(-COARSE // 2, COARSE // 2 + 1)[None, :]
        keep[np.clip(around, 0, len(fine) - 1)] = True
    return fine[keep]


def _sets(lags: I64, fit: F64, slack_ns: int) -> tuple[tuple[int, int], ...]:
    """Intervals of lags that fit, from the last lag before that does not to the first one after, and what the
    model itself is off by to either side."""
    fits = np.where(np.isfinite(fit), fit <= FITS, False)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], fits.astype(np.int8), [0]])))
    first, last = np.maximum(edges[::2] - 1, 0), np.minimum(edges[1::2], len(lags) - 1)
    whole = union(lags[first] - slack_ns, lags[last] + slack_ns)
    return tuple(zip(whole.start.tolist(), whole.end.tolist(), strict=True))


def _status(
    sets: tuple[tuple[int, int], ...],
    searched: tuple[int, int],
    window: int,
    found: int,
) -> tuple[LagStatus, str]:
    """(status, why), whatever is declared. A set that reaches the end of the search may go on beyond it."""
    is_open = sets[0][0] <= searched[0] or sets[-1][1] >= searched[1]
    width = sets[0][1] - sets[0][0]
    if len(sets) == 1 and width < window / 2 and not is_open:
        return "found", f"One lag fits: {found / 1e9:.2f} s."
    if len(sets) == 1 and is_open:
        return "ambiguous", f"The lags that fit reach the end of the search, {found / 1e9:.1f} s."
    if len(sets) == 1:
        return "ambiguous", f"Lags over {width / 1e9:.2f} s fit as well; a window is {window / 1e9:.2f} s."
    middles = np.array([(a + b) / 2 for a, b in sets])
    period = float(np.median(np.diff(middles))) / 1e9
    return "ambiguous", f"{len(sets)} lags fit as well, {period:.2f} s apart: the work repeats itself."


def _reach(
    status: LagStatus,
    sets: tuple[tuple[int, int], ...],
    prior: tuple[int, int],
    declared: int | None,
    found: int,
) -> tuple[int | None, tuple[int, int]]:
    """(lag, range) of a status. Of several lags those within the prior count, if any is."""
    if status == "found":
        return found, sets[0]
    if status == "declared" and declared is not None:
        return declared, (declared, declared)
    inside = [
        (max(a, prior[0]), min(b, prior[1])) for a, b in sets if max(a, prior[0]) < min(b, prior[1])
    ]  # fmt: skip
    return None, (inside[0][0], inside[-1][1]) if inside else prior


def _unknown(window: int | None, collect: int | None, declared: int | None, num: int, why: str) -> Lag:
    if declared is not None:
        return Lag("declared", declared, (declared, declared), (), num, window, why, collect)
    prior = (0, (collect or window or 0) + DELIVERY_NS) if window else None
    return Lag("unknown", None, prior, (), num, window, why, collect)
