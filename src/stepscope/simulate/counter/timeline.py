"""When a recording begins and ends, and which step each device is in, on the meter's grid."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from stepscope.simulate.cluster import Cluster
from stepscope.simulate.config import START_NS
from stepscope.simulate.counter.meter import BIN_NS, F64, I64, Activity
from stepscope.simulate.plan import Plan


class Draw(Protocol):
    """Random numbers of one subject on the grid, as NumPy's generator gives them."""

    def standard_normal(self, size: int) -> F64:
        """One a bin."""

    def random(self, size: int) -> F64:
        """One a bin, 0..1."""

    def uniform(self, low: float, high: float) -> float:
        """One for all time."""


BEFORE_NS, AFTER_NS = 8_000_000_000, 5_000_000_000
"""A recording begins before the first step (nothing, then a process that loads) and ends after the last."""
STARTED_NS, LOADED_NS = 5_000_000_000, 2_500_000_000
"""How long before the first step the processes start, and have the model in memory."""


@dataclass(frozen=True)
class Timeline:
    """A run's grid of `num_bins` bins from `start_ns`: steps from `START_NS` to `end_ns`, then, where the
    run hangs, nothing until `stop_ns`, when the processes end."""

    cluster: Cluster

    @cached_property
    def end_ns(self) -> int:
        """End of the last step on the last device."""
        return max(ends[-1] for ends in self.cluster.step_end_ns)

    @cached_property
    def hang(self) -> tuple[int, int] | None:
        """The rank that never comes, and how long the others wait for it in nanoseconds."""
        if self.cluster.config.hang_step is None:
            return None
        chosen, culprit = next(each for each in self.cluster.faults if each[0].name == "hang")
        return (0 if culprit is None else culprit), int(1e9 * chosen.much)

    @cached_property
    def stop_ns(self) -> int:
        """When the processes end."""
        return self.end_ns + (300_000_000 if self.hang is None else self.hang[1])

    @property
    def start_ns(self) -> int:
        """Of the first bin."""
        return START_NS - BEFORE_NS

    @cached_property
    def num_bins(self) -> int:
        """Of the grid."""
        return -(-(self.stop_ns + AFTER_NS - self.start_ns) // BIN_NS)

    @cached_property
    def middle_ns(self) -> I64:
        """Of each bin."""
        return self.start_ns + BIN_NS * np.arange(self.num_bins, dtype=np.int64) + BIN_NS // 2

    def spins(self, rank: int) -> list[tuple[int, int]]:
        """From when to when a rank's device does nothing but wait in an exchange for one that never comes."""
        if self.hang is None or rank == self.hang[0] or self.cluster.config.ranks == 1:
            return []
        return [(self.end_ns, self.stop_ns)]

    def draw(self, purpose: int, number: int) -> Draw:
        """Random numbers of a rank or node, by seed."""
        return np.random.default_rng([self.cluster.config.seed, purpose, number])

    def activity(self, rank: int) -> Activity:
        """What a rank's device did, on this grid."""
        return self.cluster.activity[rank].padded(BEFORE_NS // BIN_NS, self.num_bins)

    def step(self, rank: int) -> I64:
        """The step that a rank's device is in, -1 outside of the run."""
        ends = np.array(self.cluster.step_end_ns[rank], dtype=np.int64)
        step = np.searchsorted(ends, self.middle_ns, side="right")
        is_in = (self.middle_ns >= START_NS) & (step < len(ends))
        found: I64 = np.where(is_in, step, -1)
        return found

    def planned(self, rank: int, name: str, outside: float) -> F64:
        """A field of the plan of the step that a rank is in, `outside` elsewhere."""
        values = [_number(getattr(plan, name), outside) for plan in self.cluster.plans[rank]]
        found: F64 = np.array([*values, outside], dtype=np.float64)[self.step(rank)]
        return found

    def held(self, rank: int, name: str) -> F64:
        """As `planned`, but what was there in the first step was there before it, and stays after the
        last."""
        values = np.array([_number(getattr(plan, name), 0.0) for plan in self.cluster.plans[rank]])
        step = np.where(self.middle_ns < START_NS, 0, self.step(rank))
        return values[np.where(step < 0, len(values) - 1, step)]

    def plan_at(self, rank: int, step: int) -> Plan:
        """A step's plan."""
        return self.cluster.plans[rank][step]

    def covered(self, start_ns: int, end_ns: int) -> tuple[int, F64]:
        """The first bin of an interval, and how much of each bin from there it covers (0..1)."""
        first = max((start_ns - self.start_ns) // BIN_NS, 0)
        last = min(-(-(end_ns - self.start_ns) // BIN_NS), self.num_bins)
        edges = self.start_ns + BIN_NS * np.arange(first, last + 1, dtype=np.int64)
        inside: F64 = np.diff(np.clip(edges, start_ns, end_ns)).astype(np.float64) / BIN_NS
        return first, inside


def _number(given: object, outside: float) -> float:
    return float(given) if isinstance(given, (int, float)) else outside
