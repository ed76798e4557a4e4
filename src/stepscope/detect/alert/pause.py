"""How much of a job's time goes to evaluations and checkpoints: by cycles of steps and the pause after."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from stepscope.detect.seen.run import Whole

CYCLES = 4
"""That are looked at: one long evaluation says nothing of the rule."""


@dataclass(slots=True)
class _Cycle:
    begin_ns: int
    took_s: float = 0.0
    pause_s: float = 0.0

    @property
    def share(self) -> float:
        return self.pause_s / self.took_s if self.took_s > 0 else 0.0


@dataclass(slots=True)
class Pauses:
    """The last cycles of one run. Steps in a row that each have a pause end one cycle together."""

    _cycles: deque[_Cycle] = field(default_factory=lambda: deque(maxlen=CYCLES))
    _open: _Cycle | None = None

    def take(self, whole: Whole) -> None:
        """A step of all ranks."""
        if self._open is not None and self._open.pause_s and not whole.pause_s:
            self._cycles.append(self._open)
            self._open = None
        if self._open is None:
            self._open = _Cycle(whole.begin_ns)
        self._open.took_s += whole.took_s
        self._open.pause_s += whole.pause_s

    def begin_ns(self, least: float) -> int | None:
        """When the first of those cycles began that has this share; `None` where none has."""
        return next((each.begin_ns for each in self._cycles if each.share >= least), None)

    @property
    def share(self) -> float | None:
        """The share of a cycle that is its pause, in the middle of the last four; less where the next one is
        long in coming. `None` before there are four."""
        if len(self._cycles) < CYCLES:
            return None
        longest = max(each.pause_s for each in self._cycles)
        open_s = 0.0 if self._open is None else self._open.took_s - self._open.pause_s
        return min(median(each.share for each in self._cycles), longest / (open_s + longest))
