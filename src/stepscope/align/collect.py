"""How often a source is read and reads its device, where it has gaps, and when its values are old.

A scrape reads what the source read last: a source that reads its device every 30 s and is scraped every
second says each value thirty times. Only a change tells that it read anew. No value says nothing; it is never
idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import NOTHING, Intervals, union
from stepscope.model.sample import F64, Owner, Series
from stepscope.model.trace import I64

Bools = npt.NDArray[np.bool_]

GAP_INTERVALS = 2.5
"""One lost sample leaves 2 intervals, and read times jitter; more than that is a gap."""
STALE_INTERVALS = 2.0
"""An energy counter that stands still for longer while power flows is old (reference: telemetry, section
7)."""
HELD = 1.5
"""Values are held where the source reads this much more seldom than it is read."""
LEAST_CHANGES = 5
"""Fewer changes of value give no interval."""


@dataclass(frozen=True, slots=True)
class Cadence:
    """How often a source is read (`scrape_ns`) and how often it reads its device (`collect_ns`).

    `is_bound`: nearly every reading brings a new value, so that `collect_ns` is the most that it can be.
    `num_changes` readings brought one, on the device that tells most.
    """

    scrape_ns: int
    collect_ns: int
    is_bound: bool
    num_changes: int

    @property
    def is_held(self) -> bool:
        """Whether readings repeat what an earlier one said."""
        return not self.is_bound and self.collect_ns >= HELD * self.scrape_ns


@dataclass(frozen=True, slots=True)
class TimeFaults:
    """What is wrong with times, in the order of a file.

    `num_same` repeat the one before; `num_late` lie before one that came earlier, alone; `num_steps`: the
    clock was set back, and went on from there; `most_back_ns` is the furthest that any went back.
    """

    num_same: int = 0
    num_late: int = 0
    num_steps: int = 0
    most_back_ns: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether times rise throughout."""
        return not (self.num_same or self.num_late or self.num_steps)


def time_faults(at_ns: I64) -> TimeFaults:
    """Faults of the times of one series, in the order in which the file has them."""
    if len(at_ns) < 2:
        return TimeFaults()
    reach = np.maximum.accumulate(at_ns)
    behind = at_ns[1:] < reach[:-1]
    # A run that stays behind what was reached for two samples or more is a clock that was set back.
    heads = np.flatnonzero(behind & ~np.append(False, behind[:-1]))
    tails = np.flatnonzero(behind & ~np.append(behind[1:], False))
    lengths = tails - heads + 1
    back = (reach[:-1] - at_ns[1:])[behind]
    return TimeFaults(
        num_same=int((at_ns[1:] == at_ns[:-1]).sum()),
        num_late=int((lengths == 1).sum()),
        num_steps=int((lengths > 1).sum()),
        most_back_ns=int(back.max()) if len(back) else 0,
    )


def scrape_interval(at_ns: I64) -> int | None:
    """Median distance of readings in nanoseconds; `None` of fewer than 2."""
    steps = np.diff(at_ns)
    steps = steps[steps > 0]
    return int(np.median(steps)) if len(steps) else None


def collect_interval(series: Iterable[Series]) -> Cadence | None:
    """The source's cadence from runs of equal values; `None` where too little changes to tell.

    Each owner's readings are compared whole, for a source reads all its fields together: a reading in which
    any of them changed is a new one. The owner with most changes counts (an idle device says little). A
    reading may equal the one before by chance; how often is the chance that two values of its noisiest series
    agree.
    """
    best: Cadence | None = None
    for _, held in by_owner(series):
        told = _cadence(held)
        if told is not None and (best is None or told.num_changes > best.num_changes):
            best = told
    return best


def _cadence(held: Sequence[Series]) -> Cadence | None:
    at, changed = _changes(held)
    # Series of one device that are read at times of their own have more times together than each has.
    scrapes = [told for each in held if (told := scrape_interval(each.at_ns)) is not None]
    if not scrapes:
        return None
    scrape = min(scrapes)
    ticks = at[changed]
    if len(ticks) < LEAST_CHANGES:
        return None
    # A lost stretch has lost changes too: distances across a gap say nothing.
    lost = gaps(at, scrape)
    apart = np.diff(ticks)
    if len(lost):
        apart = apart[np.diff(np.searchsorted(lost.start, ticks)) == 0]
    if len(apart) < LEAST_CHANGES - 1:
        return None
    chance = min(_collision(each.value) for each in held if len(each) > 1)
    mean = float(np.mean(apart)) * (1.0 - min(chance, 0.5))
    is_bound = mean < 1.25 * scrape
    return Cadence(scrape, scrape if is_bound else round(mean), is_bound, len(ticks))


def _collision(value: F64) -> float:
    """The chance that two values which a source read one after the other agree: that of any two, repeats
    aside."""
    heads = value[np.append(True, value[1:] != value[:-1])]
    if len(heads) < 2:
        return 1.0
    count = np.unique(heads, return_counts=True)[1].astype(np.float64)
    return float((count * (count - 1.0)).sum() / (len(heads) * (len(heads) - 1.0)))


def _changes(held: Sequence[Series]) -> tuple[I64, Bools]:
    """All reading times of one owner, and in which of them any series differs from its value before.

    The first reading of all counts for no change: how old it is cannot be told.
    """
    at = np.unique(np.concatenate([each.at_ns for each in held])) if held else np.empty(0, np.int64)
    changed = np.zeros(len(at), dtype=bool)
    for each in held:
        index = np.searchsorted(at, each.at_ns[1:])
        changed[index] |= each.value[1:] != each.value[:-1]
    return at, changed


def by_owner(series: Iterable[Series]) -> list[tuple[Owner, list[Series]]]:
    """Series grouped by owner, in the order of their first."""
    groups: dict[tuple[str | int | None, ...], list[Series]] = {}
    for each in series:
        if len(each):
            groups.setdefault(each.owner.key, []).append(each)
    return [(held[0].owner, held) for held in groups.values()]


def unheld(series: Iterable[Series], cadence: Cadence | None) -> tuple[Series, ...]:
    """Series with repeated readings left out, and the others put where they became new.

    A value that first shows in the reading at t was not there in the one before: it became new in between, at
    the middle on average, and there it is put. Without a change for 1.5 collect intervals a reading counts
    as new all the same, for a steady device is read too. Unchanged where values are not held.
    """
    series = tuple(series)
    if cadence is None or not cadence.is_held:
        return series
    kept: list[Series] = []
    for _, held in by_owner(series):
        at, changed = _changes(held)
        new = _with_steady(at, changed, cadence.collect_ns)
        before = np.append(at[:1], at[:-1])[new]
        tick = at[new]
        became = tick - np.minimum((tick - before) // 2, cadence.scrape_ns // 2)
        until = np.append(tick[1:], np.iinfo(np.int64).max)
        for each in held:
            first = np.searchsorted(each.at_ns, tick)
            is_read = first < np.searchsorted(each.at_ns, until)
            kept.append(replace(each, at_ns=became[is_read], value=each.value[first[is_read]]))
    return tuple(kept)


def _with_steady(at: I64, changed: Bools, collect_ns: int) -> Bools:
    ticks: Bools = changed.copy()
    last = int(at[0])
    for index in range(1, len(at)):
        if ticks[index]:
            last = int(at[index])
        elif at[index] - last >= HELD * collect_ns:
            ticks[index] = True
            last += collect_ns * int((at[index] - last) // collect_ns)
    return ticks


def gaps(at_ns: I64, interval_ns: int, start_ns: int | None = None, end_ns: int | None = None) -> Intervals:
    """Where a series says nothing: beyond a reading by more than an interval, up to an interval before the
    next one, wherever two are more than 2.5 intervals apart.

    With `start_ns` and `end_ns` the time before the first and after the last reading counts likewise. A gap
    is not idle, and holds no reading.
    """
    edges = at_ns
    if start_ns is not None:
        first = np.append(at_ns[:1], start_ns - interval_ns).min()
        edges = np.append(first, edges)
    if end_ns is not None:
        last = np.append(at_ns[-1:], end_ns + interval_ns).max()
        edges = np.append(edges, last)
    if len(edges) < 2:
        return NOTHING
    wide = np.diff(edges) > GAP_INTERVALS * interval_ns
    return union(edges[:-1][wide] + interval_ns, edges[1:][wide] - interval_ns)


def stale(energy: Series, power: Series, collect_ns: int) -> Intervals:
    """Where a source repeats old values: its energy counter stands still for more than two collect intervals,
    while its own power says that energy flows. What any series says there is of before."""
    if len(energy) < 2 or not len(power):
        return NOTHING
    change = np.append(True, energy.value[1:] != energy.value[:-1])
    heads = np.flatnonzero(change)
    tails = np.append(heads[1:], len(energy)) - 1
    start, end = energy.at_ns[heads], energy.at_ns[tails]
    still = end - start > STALE_INTERVALS * collect_ns
    flows = np.append(0, np.cumsum(power.value > 0))
    low, high = np.searchsorted(power.at_ns, start), np.searchsorted(power.at_ns, end, side="right")
    powered = (flows[high] - flows[low] == high - low) & (high > low)
    return union(start[still & powered], end[still & powered])
