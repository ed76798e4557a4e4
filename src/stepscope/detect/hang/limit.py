"""From when on silence is a hang: bounds, and what a job's own history makes of them."""

from __future__ import annotations

from bisect import insort
from collections import deque
from dataclasses import dataclass, field

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HangLimits:
    """Bounds in nanoseconds of a host's clock. Where each comes from: `docs/how-to/find-who-hangs.md`."""

    least_ns: int = 30 * SECOND_NS
    """No silence below this is a hang."""
    tail_times: float = 3.0
    """Nor one below so many times the longest that this job took for the same before."""
    first_ns: int = 600 * SECOND_NS
    """Silence in an evaluation, a checkpoint or another phase that this job was never seen to finish."""
    start_ns: int = 1800 * SECOND_NS
    """Silence before the first whole step: imports, downloads, compilation."""
    work_ns: int = 7200 * SECOND_NS
    """What the counters show to work is left alone for so long at most."""
    confirm_ns: int = 3 * SECOND_NS
    """The host's clock must go on for so long while the silence holds: a clock that jumps is no silence."""
    settle_ns: int = 2 * SECOND_NS
    """Processes that go within this time went together."""
    agent_ns: int = 30 * SECOND_NS
    """An agent that was not heard for so long is silent: nothing is known of its ranks."""


MOST_KEPT = 1024
MANY = 20
"""From so many on the longest one may be an accident: the second longest counts."""
MOST_OWNERS = 8
"""Ranks that a job's history is taken from: those of a thousand do the same at the same time."""


@dataclass(slots=True)
class Tail:
    """How long the same took before: of the last 1,024 the second longest, about the 99.9th percentile. Of
    fewer than 20 the longest."""

    _kept: deque[int] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    _longest: list[int] = field(default_factory=list)
    """The two longest of those kept, the longest last."""
    _owners: set[int] = field(default_factory=set)

    def add(self, duration_ns: int, owner: int) -> None:
        """One more, seen by a rank's process."""
        if duration_ns < 0 or (owner not in self._owners and len(self._owners) >= MOST_OWNERS):
            return
        self._owners.add(owner)
        is_full = len(self._kept) == MOST_KEPT
        gone = self._kept[0] if is_full else None
        self._kept.append(duration_ns)
        if gone is not None and gone >= self._longest[0]:
            self._longest = sorted(self._kept)[-2:]
            return
        insort(self._longest, duration_ns)
        del self._longest[:-2]

    @property
    def ns(self) -> int | None:
        """The tail, `None` of nothing."""
        if not self._longest:
            return None
        return self._longest[0] if len(self._kept) >= MANY else self._longest[-1]
