"""Where each rank of a job is, and which of them is elsewhere than the others. Pure.

In a job that stands still most ranks wait in one place, and one is not there: that one they wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Standing:
    """One rank. `step` is the one that was open, `None` between two: then `last_step` was whole before it
    (`None` where none was). `phase` is `None` outside of all. `is_alive` as the ring says, `None` where
    nobody knows."""

    rank: int | None
    step: int | None
    last_step: int | None
    phase: str | None
    since_ns: int | None
    is_alive: bool | None

    @property
    def place(self) -> tuple[int | None, int | None, str | None]:
        """Ranks of which this is equal are in the same place."""
        return self.step, None if self.step is not None else self.last_step, self.phase

    @property
    def _progress(self) -> tuple[float, float]:
        """How far it came: a rank that is behind went into its phase before the others left theirs."""
        done = -inf if self.last_step is None else self.last_step + 0.5
        return float(self.step) if self.step is not None else done, self.since_ns or 0


def elsewhere(stands: Sequence[Standing]) -> tuple[Standing, ...]:
    """Those that the others wait for; empty where all are in one place, or where there is one only.

    The gone, where others live; else those who are not where more than half of the ranks are; else, of
    halves, those that came less far.
    """
    gone = tuple(each for each in stands if each.is_alive is False)
    if gone and any(each.is_alive for each in stands):
        return gone
    places: dict[object, list[Standing]] = {}
    for each in stands:
        places.setdefault(each.place, []).append(each)
    if len(places) < 2:
        return ()
    most = max(places.values(), key=len)
    if 2 * len(most) > len(stands):
        return tuple(each for each in stands if each.place != most[0].place)
    behind = min(stands, key=lambda each: (each._progress, str(each.place)))
    return tuple(places[behind.place])
