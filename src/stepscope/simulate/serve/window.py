"""A stretch of a live job as the counters' timeline, so that the same code makes the same counters of it.

Whatever lengths a run's time is cut into, the counters are the same: random numbers belong to bins, and what
goes on from stretch to stretch (totals, heat, what leaked) is handed on.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, cast

import numpy as np

from stepscope.simulate.config import START_NS
from stepscope.simulate.counter.meter import BIN_NS, F64, I64, Activity
from stepscope.simulate.counter.timeline import Draw, Timeline
from stepscope.simulate.serve.live import Live

if TYPE_CHECKING:
    from stepscope.simulate.cluster import Cluster
    from stepscope.simulate.plan import Plan

BLOCK = 64
"""Bins whose random numbers are drawn together."""
FAR_NS = 1 << 62


class View:
    """A live job under the names that a played one has."""

    def __init__(self, live: Live) -> None:
        self.config = live.config
        self.faults: tuple[object, ...] = ()
        self.plans = [player.plans for player in live.players]
        self.step_end_ns = [player.step_end_ns for player in live.players]
        self.happenings = [player.happenings for player in live.players]


@dataclass(frozen=True)
class Window(Timeline):
    """Bins from `first_ns` (an edge) on, `num` of them. `activities` are of the ranks that are asked for."""

    live: Live = field(kw_only=True)
    first_ns: int = field(kw_only=True)
    num: int = field(kw_only=True)
    activities: dict[int, Activity] = field(kw_only=True)
    steps: dict[int, I64] = field(kw_only=True, default_factory=dict)
    """Of `step`, once it was asked for."""

    @classmethod
    def of(cls, live: Live, first_ns: int, last_ns: int, ranks: range) -> Window:
        """From one edge to another; what the meters of these ranks hold of it is taken out of them."""
        taken = {rank: live.players[rank].meter.taken(last_ns) for rank in ranks}
        num = (last_ns - first_ns) // BIN_NS
        held = {rank: _within(made, first_ns, num) for rank, made in taken.items()}
        view = cast("Cluster", View(live))
        return cls(view, live=live, first_ns=first_ns, num=num, activities=held)

    @classmethod
    def kept(cls, live: Live, first_ns: int, num: int) -> Window:
        """A grid alone, of what was already made of it."""
        return cls(cast("Cluster", View(live)), live=live, first_ns=first_ns, num=num, activities={})

    @cached_property
    def end_ns(self) -> int:
        """Until when steps go on; far away while they do."""
        return FAR_NS if self.live.hang is None else self.live.hang.since_ns

    @cached_property
    def stop_ns(self) -> int:
        """When the processes end; far away while they do not."""
        return FAR_NS if self.live.dead_ns is None else self.live.dead_ns

    def spins(self, rank: int) -> list[tuple[int, int]]:
        """As the timeline's, of hangs that are over as well."""
        if self.cluster.config.ranks == 1:
            return []
        found = [(start, end) for start, end, culprit in self.live.hangs if culprit != rank]
        hang = self.live.hang
        if hang is not None and self.live.dead_ns is None and hang.culprit != rank:
            found.append((hang.since_ns, FAR_NS))
        return found

    @property
    def start_ns(self) -> int:
        """Of the first bin."""
        return self.first_ns

    @cached_property
    def num_bins(self) -> int:
        """Of the window."""
        return self.num

    def draw(self, purpose: int, number: int) -> Draw:
        """Random numbers that belong to the bins, however time is cut."""
        bin_number = (self.first_ns - START_NS) // BIN_NS
        return BinDraw((self.cluster.config.seed, purpose, number), bin_number)

    def activity(self, rank: int) -> Activity:
        """What a rank's device did."""
        return self.activities[rank]

    def step(self, rank: int) -> I64:
        """The place in `plans` of the step that a rank's device is in, -1 outside."""
        found = self.steps.get(rank)
        if found is None:
            found = self.steps[rank] = np.where(self.middle_ns < self.stop_ns, super().step(rank), -1)
        return found

    def plan_at(self, rank: int, step: int) -> Plan:
        """A step's plan, by its number."""
        return self.cluster.plans[rank][step - self.live.players[rank].first_kept]


def _within(activity: Activity, first_ns: int, num: int) -> Activity:
    """So many bins from `first_ns` on. A meter's own time begins with the first step: before it, nothing."""
    missing = num - len(activity)
    if missing <= 0:
        return activity
    return activity.padded(missing, num)


class BinDraw:
    """Random numbers by bin: the n-th call for arrays is a stream of its own."""

    def __init__(self, key: tuple[int, int, int], first: int) -> None:
        self._key, self._first = key, first
        self._num_calls = 0
        self._scalars = np.random.default_rng([*key, 1])

    def standard_normal(self, size: int) -> F64:
        """One a bin."""
        return self._drawn(size, is_normal=True)

    def random(self, size: int) -> F64:
        """One a bin, 0..1."""
        return self._drawn(size, is_normal=False)

    def uniform(self, low: float, high: float) -> float:
        """The n-th call gives the same in every window."""
        return float(self._scalars.uniform(low, high))

    def _drawn(self, size: int, is_normal: bool) -> F64:
        self._num_calls += 1
        blocks = range(self._first // BLOCK, (self._first + size - 1) // BLOCK + 1)
        drawn = np.concatenate([_block((*self._key, self._num_calls), n, is_normal) for n in blocks])
        offset = self._first - blocks.start * BLOCK
        return drawn[offset : offset + size]


@lru_cache(maxsize=2048)
def _block(key: tuple[int, ...], number: int, is_normal: bool) -> F64:
    draw = np.random.default_rng([*key, 2, number % 2**32, int(number < 0)])
    return draw.standard_normal(BLOCK) if is_normal else draw.random(BLOCK)
