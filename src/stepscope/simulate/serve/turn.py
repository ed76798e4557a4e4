"""The loop that turns simulated time with real time, until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable

from stepscope.simulate.serve.clock import Pace
from stepscope.simulate.serve.live import BEGIN_NS
from stepscope.simulate.serve.service import Service

LEAST_WAIT_S, MOST_WAIT_S = 0.02, 0.25
"""Between two looks. What is marked is in its ring at most so much later as the first says."""


class Turn:
    """Brings a service to the present again and again. `wait(seconds)` returns whether to stop."""

    def __init__(
        self, service: Service, pace: Pace, wait: Callable[[float], bool], lasts_s: float | None = None
    ) -> None:
        """`lasts_s`: simulated seconds after which the job ends by itself, `None` for never."""
        self._service, self._pace, self._wait = service, pace, wait
        self._over_ns = None if lasts_s is None else BEGIN_NS + round(1e9 * lasts_s)
        self.lost_s = 0.0
        """Real seconds that were given up, since this machine was too slow or slept."""

    def catch_up(self) -> None:
        """Bring it to the present."""
        service = self._service
        behind = self._pace.gave_up(service.now_ns)
        self.lost_s += behind / 1e9
        now = self._pace.true_ns()
        if behind and self._pace.scale == 1.0:
            service.pause(now)
        service.tick(now if self._over_ns is None else min(now, self._over_ns))

    def run(self) -> None:
        """Until `wait` says so, or the job is over."""
        service = self._service
        is_complete = False
        while True:
            self.catch_up()
            if self._over_ns is not None and service.now_ns >= self._over_ns:
                is_complete = True
                break
            due = (service.next_ns - self._pace.true_ns()) / 1e9 / self._pace.scale
            if self._wait(min(max(due, LEAST_WAIT_S), MOST_WAIT_S)):
                break
        service.end(is_complete)
