"""Steps that tile and phases that take turns: what every callback has in common."""

from __future__ import annotations

import sys
from typing import Any

from stepscope_sdk import Monitor, monitor

LOGGED = ("loss", "grad_norm", "learning_rate", "loss_scale")
"""Numbers that are marked where a framework tells them."""


class Turn:
    """One phase at a time. A step ends where the next begins."""

    def __init__(self, made: Monitor | None = None) -> None:
        self.monitor = monitor() if made is None else made
        self._phase: str | None = None
        self._sync = False
        self._is_open = False

    def begin(self, step: int) -> None:
        """The first step begins, as long as none is open."""
        if not self._is_open:
            self._is_open = True
            self.monitor.begin_step(step)

    def next_step(self, step: int, **counts: Any) -> None:
        """The step ends (`tokens`, `samples`, `seq_len`: its counts), and step number `step` begins."""
        self.to(None)
        if self._is_open:
            self.monitor.end_step(**counts)
        self._is_open = True
        self.monitor.begin_step(step)

    def to(self, phase: str | None, sync: bool = False) -> None:
        """From here on it is this phase; None: none that is known."""
        if self._phase is not None:
            self.monitor.end_phase(self._phase, sync=self._sync)
        self._phase, self._sync = phase, sync
        if phase is not None:
            self.monitor.begin_phase(phase, sync=sync)

    @property
    def phase(self) -> str | None:
        """The phase that it is in."""
        return self._phase

    def end(self) -> None:
        """Training ends: what has begun since the last step is none, and is never ended."""
        self.to(None)
        self._is_open = False

    def log(self, values: Any) -> None:
        """Those of `LOGGED` that are among the values."""
        known = {name: values[name] for name in LOGGED if name in values}
        if known:
            self.monitor.log(**known)


def world() -> int:
    """How many processes train together, as far as torch knows."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return 1
    return int(distributed.get_world_size())
