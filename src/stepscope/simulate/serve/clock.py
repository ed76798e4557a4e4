"""How fast simulated time goes, and what its clocks show.

At a time scale of 1 a simulated nanosecond is a real one, and rings show the machine's own clocks: what is
scraped and what is marked then lie on one axis. At any other scale K all clocks of the job run K times as
fast, from the moment at which it began: a reader that joins them must let its own clock run as fast
(`stepscope agent --time-scale K`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stepscope.simulate.clock import MONTH_NS, Clock
from stepscope.simulate.serve.live import BEGIN_NS


@dataclass(frozen=True, slots=True)
class Clocks:
    """What the clocks of the job's hosts showed when it began (`BEGIN_NS` in true time)."""

    mono_ns: int
    real_ns: int

    def mono(self, true_ns: int) -> int:
        """CLOCK_MONOTONIC."""
        return true_ns - BEGIN_NS + self.mono_ns

    def real(self, true_ns: int) -> int:
        """CLOCK_REALTIME."""
        return true_ns - BEGIN_NS + self.real_ns

    def true_of_real(self, real_ns: int) -> int:
        """The true time at which CLOCK_REALTIME shows this."""
        return real_ns - self.real_ns + BEGIN_NS

    def of_trace(self) -> Clock:
        """The same for a trace file."""
        return Clock(self.real_ns - BEGIN_NS, 0.0, self.real_ns // MONTH_NS * MONTH_NS)


MOST_BEHIND_NS = 2_000_000_000
"""Of real time. Beyond that what was missed is given up."""


class Pace:
    """Simulated time against real time. `now` is CLOCK_MONOTONIC in nanoseconds."""

    def __init__(self, scale: float, now: Callable[[], int]) -> None:
        self.scale, self._now = scale, now
        self._start = now()
        self._lost = 0.0

    def true_ns(self) -> int:
        """What time it is in the simulated job."""
        return BEGIN_NS + int((self._now() - self._start - self._lost) * self.scale)

    def gave_up(self, reached_ns: int) -> int:
        """Call with the true time that was reached before this moment: where it lies too far behind, that
        much real time (nanoseconds) was lost and is given up, 0 else. A job at scale 1 was asleep meanwhile;
        at any other scale its time goes on from where it was."""
        behind = (self.true_ns() - reached_ns) / self.scale
        if behind < MOST_BEHIND_NS:
            return 0
        if self.scale != 1.0:
            self._lost += behind
        return int(behind)
