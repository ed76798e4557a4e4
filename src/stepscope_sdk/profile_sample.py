"""Sampling: every N-th step is captured on its own, light, as long as the run can afford it."""

from __future__ import annotations

import time
from collections.abc import Callable

from stepscope_sdk.capture_job import Job

OVERHEAD = 0.01
"""Share of the run's time that samples may cost."""
AROUND = 2
"""A sample is felt from the step in front of it to so many steps behind it, while its trace is written."""


class Sampler:
    """Which step is next, and what the last ones cost: the time of the steps around them beyond the usual."""

    def __init__(
        self,
        every: int,
        *,
        overhead: float = OVERHEAD,
        now: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._every, self._overhead, self._now = every, overhead, now
        self._start = now()
        self._begun: int | None = None
        self._usual_ns: float | None = None
        self._cost_ns = 0.0
        self._sampled: int | None = None

    def due(self, step: int) -> Job | None:
        """Step `step` begins: the capture of the next one, if it is due and affordable."""
        now = self._now()
        if self._begun is not None:
            self._account(step - 1, now - self._begun)
        self._begun = now
        target = step + 1
        if target % self._every or self._cost_ns > self._overhead * (now - self._start):
            return None
        self._sampled = target
        return Job(capture=target, first_step=target, num_steps=1, mode="light", flags=0)

    def _account(self, step: int, period_ns: int) -> None:
        if self._sampled is not None and self._sampled - 1 <= step <= self._sampled + AROUND:
            if self._usual_ns is not None:
                self._cost_ns += max(period_ns - self._usual_ns, 0.0)
        elif self._usual_ns is None:
            self._usual_ns = float(period_ns)
        else:
            # A single long step (an evaluation) moves the usual time by an eighth of what it is at most.
            self._usual_ns += min(max(period_ns - self._usual_ns, -self._usual_ns), self._usual_ns) / 8
