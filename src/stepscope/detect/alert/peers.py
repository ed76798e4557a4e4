"""Ranks of a run against each other, over their own part of the last steps: who is slower now."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from stepscope.detect import peer
from stepscope.detect.seen.run import KEPT, Whole
from stepscope.model.sample import F64

LEAST_STEPS = 12
"""Clean steps before anybody is named."""
LATE, OF = 6, 8
NOTICED = 0.05
"""A step later than this counts (`peer.Threshold.late_ratio`)."""
KIND = 0.10
"""Who was always behind is told from here on: machines differ by less."""
MOST_SHARE = 0.5
"""Where more ranks than this are late it is no straggler: the majority is what is usual."""


@dataclass(frozen=True, slots=True)
class Slow:
    """A rank that is slower than its peers in the last steps: `effect` of theirs; `since` is the first of
    those steps, and when it began."""

    rank: int
    effect: float
    took_s: float
    peers_s: float
    first_step: int
    since_ns: int


@dataclass(slots=True)
class Peers:
    """The last clean steps of one run."""

    _steps: deque[Whole] = field(default_factory=lambda: deque(maxlen=KEPT))

    def take(self, whole: Whole) -> None:
        """A step of all ranks. What is set aside, and a step in which a rank is missing, tells nothing."""
        if not whole.is_clean or len(whole.ranks) < 2 or not np.isfinite(whole.own_s).all():
            return
        if self._steps and self._steps[-1].ranks != whole.ranks:
            self._steps.clear()
        self._steps.append(whole)

    @property
    def is_known(self) -> bool:
        """Whether there are steps enough to name anybody."""
        return len(self._steps) >= LEAST_STEPS

    def slow(self) -> list[Slow]:
        """Who is slow now, the slowest first."""
        if not self.is_known:
            return []
        own = np.array([each.own_s for each in self._steps]).T
        late = _late(own[:, -OF:])
        candidates = np.flatnonzero(late.sum(axis=1) >= LATE)
        if not len(candidates) or len(candidates) > MOST_SHARE * len(own):
            return []
        gate = peer.by_ratio(own)
        named = {each.rank: each for each in gate.deviants}
        found = []
        for row in candidates.tolist():
            deviant = named.get(row)
            if deviant is None:
                continue
            others = float(np.median(peer.against_peers(own[:, -OF:])[row]))
            took = float(np.median(own[row, -OF:]))
            effect = took / others - 1.0
            if effect < (KIND if deviant.found_by == ("always",) else NOTICED):
                continue
            first = self._onset(deviant.steps)
            whole = self._steps[first]
            found.append(Slow(whole.ranks[row], effect, took, others, whole.step, whole.begin_ns))
        return sorted(found, key=lambda each: -each.effect)

    def _onset(self, steps: tuple[int, ...]) -> int:
        """The first of those late steps that go on up to now: with no gap longer than the gate's window."""
        first = steps[-1]
        for place in reversed(steps):
            if first - place > OF - LATE + 1:
                break
            first = place
        return first


def _late(own: F64) -> np.ndarray:
    """(ranks, steps) by how much each is later than its peers."""
    with np.errstate(invalid="ignore"):
        found: np.ndarray = own > (1.0 + NOTICED) * peer.against_peers(own)
    return found
