"""One run of a job: the steps that all its ranks have done, and what state its steps are in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stepscope.detect.seen.rank import CHECKPOINT, COMMUNICATION, RankSeen, Step
from stepscope.model.batch import Marks
from stepscope.model.sample import F64

NS = 1_000_000_000
State = Literal["unknown", "still", "advancing", "stopped"]
"""`still`: in start-up, evaluation or checkpoint. `stopped`: known to make no step, and in none of these."""
KEPT = 64
"""Steps over which ranks are held against each other."""
WAITED_NS = 2_500_000_000
"""For ranks whose marks are late."""
MOST_WAITING = 256
LEAST_STOPPED_NS, TAIL = 30 * NS, 3.0
"""No step for 30 s and three of the longest of late: as of a hang."""
FIRST_STEP_NS = 1800 * NS
"""So long a job may take to its first step."""
AFTER_NS, BEFORE_NS = 2 * NS, 1 * NS
"""Counters are up to two seconds behind marks, and average over one."""


@dataclass(frozen=True, slots=True)
class Whole:
    """A step of all ranks that told of it in time. `own_s` (ranks,) is each rank's step less what it waited
    for others in meetings, `data_ratio` (ranks,) what it waited for data, of the step; NaN where a rank does
    not tell. `tokens_per_second` of all ranks, `communication_s` that of the rank that waited least."""

    step: int
    begin_ns: int
    end_ns: int
    took_s: float
    is_clean: bool
    ranks: tuple[int, ...]
    own_s: F64
    data_ratio: F64
    tokens_per_second: float | None
    communication_s: float | None
    pause_s: float = 0.0


@dataclass(slots=True)
class RunSeen:
    """A run. `offset_ns` is how far our clock is ahead of that of its agents, as far as marks tell."""

    job: str
    run: str
    rings: dict[str, RankSeen] = field(default_factory=dict)
    first_ns: int | None = None
    heard_ns: int = 0
    took_ns: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    last_begin_ns: int | None = None
    num_steps: int = 0
    last_step: int | None = None
    _waiting: dict[int, dict[int, Step]] = field(default_factory=dict)
    _since_ns: dict[int, int] = field(default_factory=dict)

    def take(self, batch: Marks, now_ns: int) -> None:
        """Marks of one of its rings."""
        ring = self.rings.get(batch.ring)
        if ring is None:
            rank = batch.identity.get("rank")
            ring = self.rings[batch.ring] = RankSeen(batch.ring, rank if isinstance(rank, int) else None)
            ring.host = batch.host
        world = batch.identity.get("world_size")
        ring.world_size = world if isinstance(world, int) else ring.world_size
        uuids = batch.identity.get("device_uuids")
        if isinstance(uuids, list) and len(uuids) == 1:
            ring.device = uuids[0]
        ring.take(batch)
        if ring.last_ns is not None:
            self.heard_ns = now_ns
            self.first_ns = ring.last_ns if self.first_ns is None else self.first_ns
        for step in ring.fresh:
            self._waiting.setdefault(step.step, {})[ring.rank or 0] = step
            self._since_ns.setdefault(step.step, now_ns)
            if self.last_begin_ns is None or step.begin_ns + step.took_ns > self.last_begin_ns:
                self.last_begin_ns = step.begin_ns + step.took_ns
        ring.fresh.clear()

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset(each.host for each in self.rings.values() if each.host is not None)

    @property
    def is_over(self) -> bool:
        """Every rank that is known said that it ends, or is gone."""
        return bool(self.rings) and all(r.has_exit or r.is_alive is False for r in self.rings.values())

    @property
    def last_ns(self) -> int | None:
        """The last mark of any rank."""
        return max((each.last_ns for each in self.rings.values() if each.last_ns is not None), default=None)

    def rank(self, number: int) -> RankSeen | None:
        """The newest ring of a rank."""
        found = [each for each in self.rings.values() if each.rank == number]
        return found[-1] if found else None

    def agent_now_ns(self, now_ns: int) -> int | None:
        """Now, by the clock of its marks."""
        last = self.last_ns
        return None if last is None else last + max(now_ns - self.heard_ns, 0)

    def state(self, now_ns: int) -> State:
        """What its steps do."""
        now = self.agent_now_ns(now_ns)
        if now is None or self.is_over:
            return "unknown"
        if any(each.open_phase is not None for each in self.rings.values() if not each.has_exit):
            return "still"
        if self.last_begin_ns is None:
            is_young = self.first_ns is not None and now - self.first_ns < FIRST_STEP_NS
            return "still" if is_young else "stopped"
        patience = max(LEAST_STOPPED_NS, int(TAIL * max(self.took_ns, default=0)))
        return "advancing" if now - self.last_begin_ns <= patience else "stopped"

    def is_set_aside(self, second: int) -> bool:
        """Whether counters of that second (by the agents' clock) may be of what is set aside, or of no
        step."""
        begin, end = second * NS - AFTER_NS, (second + 1) * NS + BEFORE_NS
        if (
            self.last_begin_ns is None
            or begin - self.last_begin_ns > 2 * max(self.took_ns, default=0) + AFTER_NS
        ):
            return True  # no step ran then
        for ring in self.rings.values():
            open_ = ring.open_phase
            if open_ is not None and open_[1] < end:
                return True
            if any(first < end and last > begin for first, last in ring.marked):
                return True
        return False

    def checkpoint(self, now_ns: int) -> tuple[int, int, RankSeen] | None:
        """(since when, the longest before, whose) of a checkpoint that is open."""
        for ring in self.rings.values():
            open_ = ring.open_phase
            if open_ is not None and open_[0] == CHECKPOINT and not ring.has_exit:
                longest = max(each.longest_checkpoint_ns for each in self.rings.values())
                return open_[1], longest, ring
        return None

    def whole(self, now_ns: int) -> list[Whole]:
        """Steps that every living rank has done, or that were waited for long enough, in order."""
        if not self._waiting:
            return []
        alive = {
            each.rank or 0 for each in self.rings.values() if not each.has_exit and each.is_alive is not False
        }
        world = max((each.world_size or 0 for each in self.rings.values()), default=0)
        expected = max(len(alive), min(world, len(self.rings)))
        found = []
        for number in sorted(self._waiting):
            of_ranks = self._waiting[number]
            is_late = now_ns - self._since_ns[number] >= WAITED_NS or len(self._waiting) > MOST_WAITING
            if len(of_ranks) < expected and not is_late:
                break
            del self._waiting[number], self._since_ns[number]
            if self.last_step is not None and number <= self.last_step and number > self.last_step - KEPT:
                continue  # it came after it was given up
            whole = _whole(number, of_ranks)
            self.last_step = number
            self.num_steps += 1
            if whole.is_clean:
                self.took_ns.append(round(whole.took_s * NS))
            found.append(whole)
        return found


def _whole(number: int, of_ranks: dict[int, Step]) -> Whole:
    ranks = tuple(sorted(of_ranks))
    steps = [of_ranks[rank] for rank in ranks]
    took = np.array([each.took_ns for each in steps], dtype=np.float64)
    shapes = {tuple(key for key, _ in each.meetings) for each in steps}
    own = took.copy()
    communication: float | None = None
    if len(shapes) == 1 and next(iter(shapes)):
        long = np.array([[took_ns for _, took_ns in each.meetings] for each in steps], dtype=np.float64)
        # They end together: who was in it for the shortest time came last, and needs no common clock.
        own = took - (long - long.min(axis=0)).sum(axis=1)
        is_told = np.array([key >> 8 == COMMUNICATION for key, _ in steps[0].meetings])
        if is_told.any():
            communication = float(long[:, is_told].sum(axis=1).min()) / NS
    elif len(shapes) > 1:
        own[:] = np.nan
    data = np.array([np.nan if each.data_ns is None else each.data_ns for each in steps], dtype=np.float64)
    tokens = [each.tokens for each in steps]
    middle = float(np.median(took)) / NS
    counted = [each for each in tokens if each is not None]
    return Whole(
        step=number,
        begin_ns=min(each.begin_ns for each in steps),
        end_ns=max(each.begin_ns + each.took_ns for each in steps),
        took_s=middle,
        is_clean=all(each.is_clean for each in steps),
        ranks=ranks,
        own_s=own / NS,
        data_ratio=np.clip(data / np.maximum(took, 1), 0.0, 1.0),
        tokens_per_second=sum(counted) / middle if len(counted) == len(steps) and middle > 0 else None,
        communication_s=communication,
        pause_s=float(np.median([each.pause_ns for each in steps])) / NS,
    )
