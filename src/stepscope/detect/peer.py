"""Which ranks deviate from their peers: in which steps, by how much, and how little can be told.

The input is one number for each rank and step: a duration, or how late the rank came. Steps that are slow for
all ranks are no news here: each cell is compared with the median of the *other* ranks in the same step
(`against_peers`). Four tests follow, each blind to what the others see:

* **always**: the median over all steps. A small difference in every step adds up, since the error of a median
  falls with the root of the number of steps; it is widened where the levels of ranks wander, because then
  steps are not independent (block medians against what white noise would give, as in a batch-means test).
* **runs**: late in 6 of 8 steps in a row, against the rank's own ordinary ratio. A rank that is always 8 %
  slower and now 30 % is news by the 22 %.
* **often**: late in more steps than hiccups explain (garbage collection, checkpoints, a busy host): a tail
  of the binomial distribution. Finds lateness that moves from rank to rank.
* **change**: a one-sided CUSUM (Page 1954), whose limit is set from the noise itself by Lundberg's bound, so
  that a false alarm has at most a given probability whatever the tails. Finds a small shift that begins
  within the window.

For a stream, give the latest steps as the window: nothing is remembered between calls.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

Test = Literal["always", "runs", "often", "change"]
MovingOrNot = Literal["persistent", "moving", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """What makes a deviation news. Ratios are of the peers' median; sigmas of the noise found."""

    always_ratio: float = 0.02
    """Least difference in all steps. Below 2 % clocks and cooling of equal devices differ by themselves."""
    always_sigmas: float = 4.5
    """In errors of the median: of ordinary ranks one in 300,000. From few cells the noise is taken to be a
    third larger, so that it is 6 there."""
    always_spreads: float = 4.0
    """In spreads of the other ranks' levels: where machines differ anyway, a straggler must differ more."""
    sure_steps: int = 12
    sure_errors: float = 6.5
    """Or in errors of the row's own mean, from so many steps on: by Student's t of 11 degrees of freedom one
    in 40,000, of 19 in 600,000."""
    always_share: float = 0.75
    """Steps in which it must be behind its peers."""
    rare_share: float = 0.125
    """Stragglers are few. Where more ranks than this are always a little slower, they are another kind of
    machine or have another role; such ranks are `slower_kind` unless they differ by `kind_ratio`."""
    kind_ratio: float = 0.10
    """From 10 % a group of slower ranks is named one by one: the gate of published fleet detectors."""
    late_ratio: float = 0.05
    """Least lateness of one step that counts (the smallest effect worth a note)."""
    late_sigmas: float = 3.0
    """And in noise, as the gate of a single series has it: one in 740 ordinary cells."""
    runs: tuple[int, int] = (6, 8)
    """Late in so many of so many steps in a row. Fewer alarms than three in a row: steps are not
    independent, and evaluation or a checkpoint takes up to four."""
    hiccup_share: float = 0.02
    """Steps in which any rank may be late without anything being wrong with it."""
    often_alarm: float = 1e-6
    """Probability of naming anybody by chance for `often`."""
    false_alarm: float = 1e-6
    """And for `change`, in one call."""
    slack_sigmas: float = 1.5
    """What CUSUM forgives a step: half of the shift to find, 3 sigma."""
    clip_sigmas: float = 4.0
    """No single step counts for more than this."""
    change_ratio: float = 0.02
    change_sigmas: float = 2.0
    """Least mean shift of a change."""
    least_steps: int = 6
    """Steps below which nobody is named: noise is not known from fewer."""
    noise_ratio: float = 0.001
    """Noise is never taken to be smaller."""


DEFAULT = Threshold()
JOINED = Threshold(hiccup_share=0.01, often_alarm=1e-4)
"""Of ranks that meet in collectives: one step in a hundred at half as long again is a heavy tail, and
whoever is named must have cost the others time besides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deviant:
    """A rank that deviates: `rank` and `steps` are rows and columns of the matrix."""

    rank: int
    steps: tuple[int, ...]
    """In which it is late."""
    excess: float
    """Median over those steps: a share of the peers' time, or nanoseconds for lateness."""
    found_by: tuple[Test, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Who deviates, and from what noise on anybody could be told to."""

    deviants: tuple[Deviant, ...]
    """By excess; empty where nobody deviates."""
    persistence: MovingOrNot
    """`moving`: several ranks, each for a step or two; `unknown` where nobody is named."""
    noise: float
    """One sigma of an ordinary cell, in the unit of `excess`."""
    least: float
    """One step later than this counts as late."""
    excess: F64
    """(ranks, steps) against the peers and, where a rank is always ahead or behind, that too; NaN where
    missing."""
    late: Flags
    """(ranks, steps)"""
    slower_kind: tuple[int, ...] = ()
    """Rows that are always a little slower together: a kind of machine or a role, not stragglers."""
    why: str | None = None
    """Why nobody can be named, or why only with doubt."""


def by_ratio(durations: npt.ArrayLike, threshold: Threshold = DEFAULT) -> Gate:
    """The gate over durations (ranks, steps): positive numbers of any scale, NaN where missing.

    What is not finite or not positive is taken as missing.
    """
    x = np.array(durations, dtype=np.float64, ndmin=2)
    x[~(np.isfinite(x) & (x > 0))] = np.nan
    centre = against_peers(x)
    with np.errstate(invalid="ignore"):
        excess = np.log(x) - np.log(centre)
    typical = float(np.nanmedian(x)) if np.isfinite(x).any() else 1.0
    floor = max(threshold.noise_ratio, quantum(x) / typical / 2)
    return _gate(excess, threshold, floor)


def by_lateness(lateness_ns: npt.ArrayLike, least_ns: float, threshold: Threshold = DEFAULT) -> Gate:
    """The gate over how late each rank came in each step (ranks, steps), NaN where missing.

    Any origin that the ranks of one step share will do. `least_ns` is what cannot be told from nothing, such
    as the error of the clocks; the thresholds that are ratios become this.
    """
    x = np.array(lateness_ns, dtype=np.float64, ndmin=2)
    x[~np.isfinite(x)] = np.nan
    unit = max(float(least_ns), 1.0)
    in_ns = dataclasses.replace(
        JOINED if threshold is DEFAULT else threshold,
        always_ratio=unit,
        kind_ratio=unit,
        late_ratio=unit,
        change_ratio=unit,
        noise_ratio=unit / 4,
    )
    # Of two exact values the difference is no tick of a clock.
    floor = max(in_ns.noise_ratio, min(quantum(x) / 2, unit))
    return _gate(x - against_peers(x), in_ns, floor)


MOVING_SHARE = 0.5
"""Somebody is late in so many of the steps, and in more of them than hiccups of all ranks explain."""


def is_somebody_late(late: Flags, threshold: Threshold = DEFAULT) -> bool:
    """Whether lateness moves over so many ranks that none of them is late often, and somebody nearly always
    is.

    `late` (ranks, steps) as in `Gate`. Of many ranks with a heavy tail each, somebody is late in many steps
    too: that many must be exceeded (binomial tail).
    """
    num_ranks, num_steps = late.shape
    if num_ranks < 2 or num_steps < threshold.least_steps:
        return False
    anybody = 1.0 - (1.0 - threshold.hiccup_share) ** num_ranks
    allowed = max(_binomial_limit(num_steps, anybody, threshold.often_alarm), MOVING_SHARE * num_steps)
    return bool(int(late.any(axis=0).sum()) > allowed)


def against_peers(x: F64) -> F64:
    """(ranks, steps): the median of the other ranks in the step; NaN where there is no other.

    The rank itself is left out: among few ranks it would pull the median to its side.
    """
    num_ranks = x.shape[0]
    order = np.argsort(x, axis=0, kind="stable")  # NaN last
    ordered = np.take_along_axis(x, order, axis=0)
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(num_ranks)[:, None], axis=0)
    others = np.isfinite(x).sum(axis=0) - 1
    columns = np.arange(x.shape[1])

    def nth(n: npt.NDArray[np.int64]) -> F64:
        at = np.clip(np.where(place <= n, n + 1, n), 0, num_ranks - 1)
        picked: F64 = ordered[at, columns]
        return picked

    low, high = np.maximum((others - 1) // 2, 0), np.maximum(others // 2, 0)
    middle = (nth(low) + nth(high)) / 2
    return np.where(np.isfinite(x) & (others > 0), middle, np.nan)


def quantum(x: F64) -> float:
    """The smallest difference between two values: clocks that tick and tables that round."""
    values = np.unique(x[np.isfinite(x)])
    return float(np.diff(values).min()) if len(values) > 1 else 0.0


def _gate(excess: F64, limit: Threshold, floor: float) -> Gate:
    """The gate over differences from the peers; `floor` is the least noise."""
    num_ranks, num_steps = excess.shape
    nobody = np.zeros(excess.shape, dtype=bool)
    counts = np.isfinite(excess).sum(axis=1)
    if num_ranks < 2 or num_steps < limit.least_steps or not (counts >= limit.least_steps).any():
        lacks = (
            "one rank has no peers" if num_ranks < 2 else f"fewer than {limit.least_steps} steps to compare"
        )
        return Gate(
            deviants=(),
            persistence="unknown",
            noise=floor,
            least=floor,
            excess=excess,
            late=nobody,
            why=lacks,
        )
    is_judged = counts >= limit.least_steps
    sigma = max(_noise(excess, counts), floor)
    level = np.full(num_ranks, np.nan)
    level[is_judged] = np.nanmedian(excess[is_judged], axis=1)

    always, kind = _always(excess, level, counts, sigma, limit)
    # What a rank always is, by its better quarter: it must not learn a fault of half the window as ordinary.
    ordinary = np.zeros(num_ranks)
    ordinary[is_judged] = np.maximum(np.nanquantile(excess[is_judged], 0.25, axis=1) + 0.6745 * sigma, 0.0)
    beyond = excess - ordinary[:, None]
    least = max(limit.late_ratio, limit.late_sigmas * sigma)
    with np.errstate(invalid="ignore"):
        late = (beyond > least) & is_judged[:, None]
    runs = _in_runs(late, np.isfinite(excess), limit.runs)
    allowed = _most_by_chance(counts, limit.hiccup_share, limit.often_alarm / num_ranks)
    often = late.sum(axis=1) > allowed
    changed = _changed(beyond, sigma, limit)
    found: list[Deviant] = []
    with np.errstate(invalid="ignore"):
        behind = excess > limit.always_ratio / 2
    shown = np.zeros(excess.shape, dtype=bool)
    for rank in np.flatnonzero(is_judged):
        tests: list[Test] = []
        usual = float(np.nanquantile(excess[rank], 0.25))
        if often[rank] and usual < float(np.median(excess[rank][late[rank]])) / 3:
            always[rank] = False  # late now and then, and on time between
        steps = np.zeros(num_steps, dtype=bool)
        if always[rank]:
            tests.append("always")
            steps |= behind[rank]
        if runs[rank].any():
            tests.append("runs")
            steps |= runs[rank] & late[rank]
        if often[rank]:
            tests.append("often")
            steps |= late[rank]
        if changed[rank].any():
            tests.append("change")
            steps |= changed[rank]
        if not tests:
            continue
        shown[rank] = steps
        value = excess[rank] if always[rank] else np.maximum(beyond[rank], 0)
        found.append(
            Deviant(
                rank=int(rank),
                steps=tuple(np.flatnonzero(steps).tolist()),
                excess=float(np.nanmedian(value[steps])),
                found_by=tuple(tests),
            )
        )
    why: str | None = None
    if len(found) > num_ranks / 2 and not _alternates(shown, found):
        why = f"{len(found)} of {num_ranks} ranks differ from the rest: with no majority nobody is ordinary"
        found = []
    elif num_ranks == 2 and found:
        why = "of two ranks it shows only that one is slower than the other"
    return Gate(
        deviants=tuple(sorted(found, key=lambda each: -each.excess)),
        persistence=_persistence(shown, found),
        noise=sigma,
        least=least,
        excess=excess,
        late=late,
        slower_kind=tuple(np.flatnonzero(kind).tolist()),
        why=why,
    )


LEVELS = 3.0
"""Noise that steps share with the step before by less than 0.89 does not make this difference."""


def _noise(excess: F64, counts: npt.NDArray[np.int64]) -> float:
    """One sigma of an ordinary cell.

    From deviations around each rank's own median; and from the spread of their sizes alone, which does not
    mistake lateness that alternates between ranks for noise (of a normal distribution the median absolute
    deviation of |x| is 0.399 sigma). The smaller counts, widened for few cells. Where a rank is late in half
    of the steps both hold its two levels for noise: then what changes from one step to the next tells.
    """
    use = counts > 1
    own = excess[use] - np.nanmedian(excess[use], axis=1)[:, None]
    plain = 1.4826 * float(np.nanmedian(np.abs(own)))
    size = np.abs(excess[np.isfinite(excess)])
    folded = float(np.median(np.abs(size - np.median(size)))) / 0.399
    usual = min(plain, folded)
    steady = float(np.nanmedian(np.abs(np.diff(excess[use], axis=1)))) / (0.6745 * math.sqrt(2))
    if LEVELS * steady < usual:
        usual = steady
    # Cells of one step share their median; of two ranks they are each other's mirror.
    num_free = max(float(counts.sum()) * (1 - 1 / len(counts)), 1.0)
    return usual * (1 + 1.5 / math.sqrt(num_free))


def _always(
    excess: F64,
    level: F64,
    counts: npt.NDArray[np.int64],
    sigma: float,
    limit: Threshold,
) -> tuple[Flags, Flags]:
    """Rows that are behind in the whole window, and rows that are so as a kind."""
    known = np.isfinite(level)
    widened = max(_wander(excess, sigma), math.sqrt(_memory(excess)))
    error = 1.2533 * sigma * widened / np.sqrt(np.maximum(counts, 1))
    spread = np.zeros(len(level))
    places = np.flatnonzero(known)
    if len(places) > 4:
        deviation = np.abs(level[places] - np.median(level[places]))
        spread[:] = 1.4826 * float(np.median(deviation))
    least = np.maximum(limit.always_ratio, limit.always_sigmas * error)
    least = np.maximum(least, limit.always_spreads * spread)
    with np.errstate(invalid="ignore"):
        share = np.where(counts > 0, (excess > 0).sum(axis=1) / np.maximum(counts, 1), 0)
        is_behind = known & (level >= least) & (share >= limit.always_share)
        is_behind |= _is_sure(excess, counts, limit, spread) & (share >= limit.always_share) & known
        is_far = level >= max(limit.kind_ratio, 3 * sigma)
    num_rare = max(1, int(len(places) * limit.rare_share))
    if is_behind.sum() > num_rare:
        return is_behind & is_far, is_behind & ~is_far
    return is_behind, np.zeros(len(level), dtype=bool)


def _is_sure(excess: F64, counts: npt.NDArray[np.int64], limit: Threshold, spread: F64) -> Flags:
    """Rows whose mean is far from 0 by their own scatter (Student's t).

    Of two ranks half of the cells mirror the other half, and the noise of all is hardly known: a row's own
    scatter is known better, and tails only make it larger.
    """
    num = np.maximum(counts, 2)
    mean = np.nansum(excess, axis=1) / num
    scatter = np.sqrt(np.nansum((excess - mean[:, None]) ** 2, axis=1) / (num - 1))
    error = np.maximum(scatter, limit.noise_ratio) / np.sqrt(num)
    level: Flags = mean >= np.maximum(limit.always_ratio, limit.always_spreads * spread)
    sure: Flags = level & (counts >= limit.sure_steps) & (mean >= limit.sure_errors * error)
    return sure


def _wander(excess: F64, sigma: float) -> float:
    """By how much the levels of ranks move more than independent steps would make them: 1 or more."""
    num_steps = excess.shape[1]
    num_blocks = min(10, num_steps // 8)
    if num_blocks < 4:
        return 1.0
    length = num_steps // num_blocks
    blocks = excess[:, : length * num_blocks].reshape(excess.shape[0], num_blocks, length)
    enough = np.isfinite(blocks).sum(axis=2) >= length / 2
    if enough.sum() < 4:
        return 1.0
    filled = np.where(enough[..., None], blocks, 0.0)
    medians = np.where(enough, np.nanmedian(filled, axis=2), np.nan)
    rows = enough.any(axis=1)
    own = medians[rows] - np.nanmedian(medians[rows], axis=1)[:, None]
    spread = 1.4826 * float(np.nanmedian(np.abs(own)))
    return max(1.0, spread * math.sqrt(length) / (1.2533 * sigma))


def _in_runs(late: Flags, measured: Flags, runs: tuple[int, int]) -> Flags:
    """Cells within a stretch of so many measured steps of which so many are late."""
    least, length = runs
    result = np.zeros(late.shape, dtype=bool)
    for rank in np.flatnonzero(late.sum(axis=1) >= least):
        places = np.flatnonzero(measured[rank])
        if len(places) < least:
            continue
        size = min(length, len(places))
        total = np.concatenate(([0], np.cumsum(late[rank, places])))
        begin = np.flatnonzero(total[size:] - total[:-size] >= least)
        for first in begin:
            result[rank, places[first] : places[first + size - 1] + 1] = True
    return result


def _most_by_chance(counts: npt.NDArray[np.int64], share: float, chance: float) -> npt.NDArray[np.int64]:
    """For each count the number of late steps that hiccups exceed with at most this chance."""
    answer = {int(n): _binomial_limit(int(n), share, chance) for n in np.unique(counts)}
    return np.array([answer[int(n)] for n in counts], dtype=np.int64)


def _binomial_limit(num: int, share: float, chance: float) -> int:
    """The least k with P(more than k of num) <= chance."""
    term = (1 - share) ** num
    tail = 1 - term
    k = 0
    while tail > chance and k < num:
        k += 1
        term *= (num - k + 1) / k * share / (1 - share)
        tail = max(tail - term, 0.0) if tail - term > 1e-14 else 0.0
    return k


def _changed(beyond: F64, sigma: float, limit: Threshold) -> Flags:
    """Cells behind, from the beginning of a shift to where CUSUM was highest."""
    least = max(limit.change_ratio, limit.change_sigmas * sigma)
    u = np.clip(beyond / sigma, -limit.clip_sigmas, limit.clip_sigmas) - limit.slack_sigmas
    height = _limit_of(u[np.isfinite(u)], limit.false_alarm)
    result = np.zeros(beyond.shape, dtype=bool)
    if height is None:
        return result
    height *= _memory(u)
    path = np.cumsum(np.where(np.isfinite(u), u, 0.0), axis=1)
    lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
    climbed = path - lowest
    for rank in np.flatnonzero(climbed.max(axis=1) > height):
        end = int(np.argmax(climbed[rank]))
        below = np.flatnonzero(climbed[rank, : end + 1] <= 0)
        begin = int(below[-1]) + 1 if len(below) else 0
        piece = beyond[rank, begin : end + 1]
        known = piece[np.isfinite(piece)]
        if len(known) >= limit.least_steps and float(np.median(known)) >= least:
            with np.errstate(invalid="ignore"):
                result[rank, begin : end + 1] = piece > least / 2
    return result


def _limit_of(u: F64, chance: float) -> float | None:
    """How high CUSUM of such cells climbs with at most this chance, anywhere.

    ln(cells / chance) / theta, where theta > 0 solves E exp(theta u) = 1 (Lundberg; Asmussen and Albrecher,
    Ruin Probabilities, 2010). `None` where the mean is not negative: then nothing is ordinary. The exponent
    is taken of the cells at hand, so that heavy tails, and faults too, raise the limit. It holds for steps
    that are independent; slack and the least mean shift stand against those that are not.
    """
    if len(u) == 0 or float(u.mean()) >= 0:
        return None
    low, high = 0.0, 8.0
    for _ in range(40):
        theta = (low + high) / 2
        if float(np.exp(theta * u).mean()) > 1:
            high = theta
        else:
            low = theta
    return math.log(max(len(u), 1) / chance) / max(low, 1e-3)


def _memory(x: F64) -> float:
    """By how much the variance of sums of steps exceeds that of independent steps: (1 + r) / (1 - r) with r
    the correlation of a step with the one before, of the median rank; 1 or more."""
    found = []
    for row in x:
        known = row[np.isfinite(row)]
        known = known - known.mean() if len(known) else known
        power = float((known**2).sum())
        if len(known) >= 8 and power > 0:
            # The sum over so few steps is too small by about 1 / n.
            found.append(float((known[1:] * known[:-1]).sum()) / power + 1 / len(known))
    r = min(max(float(np.median(found)), 0.0), 0.9) if found else 0.0
    return (1 + r) / (1 - r)


def _alternates(shown: Flags, found: list[Deviant]) -> bool:
    """Whether the ranks take turns: hardly ever two of them late in one step."""
    rows = shown[[each.rank for each in found]]
    together = rows.sum(axis=0)
    return bool(rows.any()) and float((together > 1).sum()) <= 0.1 * float((together > 0).sum())


def _persistence(shown: Flags, found: list[Deviant]) -> MovingOrNot:
    """`moving` where several ranks take turns, each for two steps or less."""
    if not found:
        return "unknown"
    if len(found) > 1 and _alternates(shown, found):
        stays = [_stay(shown[each.rank]) for each in found]
        if float(np.median(stays)) <= 2:
            return "moving"
    return "persistent"


def _stay(row: Flags) -> float:
    """Median number of steps that a rank stays late."""
    edges = np.diff(np.concatenate(([0], row.astype(np.int8), [0])))
    return float(np.median(np.flatnonzero(edges < 0) - np.flatnonzero(edges > 0)))
