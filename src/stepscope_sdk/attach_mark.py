"""What attach mode has seen, turned into marks: steps that tile, phases that nest as they may.

Knows nothing of torch: it is told that a forward began or that an optimizer is done. All marks come from one
thread, the one whose optimizer steps. A step runs from the end of one step of the leading optimizer to the
end of its next; the leader is the first that steps.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from threading import get_ident
from typing import Any

from stepscope_sdk.monitor import Monitor

INSIDE = {
    "optimizer": frozenset({"forward", "backward", "communication", "compile", "checkpoint", "data"}),
    "forward": frozenset({"compile", "communication", "checkpoint"}),
    "backward": frozenset({"compile", "communication", "optimizer"}),
    "eval": frozenset({"compile"}),
}
"""What is marked inside of a phase; all else there belongs to the phase itself. An optimizer that is given a
closure runs the passes, evaluation has a loader and passes of its own, and a dataset may call modules."""
OPENS = frozenset({"data", "forward", "backward", "optimizer"})
"""Phases that make a process one that trains: before the first of them it gets no ring."""
MOST_OTHERS = 50
"""Steps of other optimizers in a row after which one of them leads: the first may have been for a warm-up."""
MOST_LOGGING = 32
"""Logging phases marked in one step: a loop that logs a thousand lines fills no ring."""


class Marks:
    """The marks of one process. `open_monitor` gives the monitor when the first mark is made."""

    def __init__(self, open_monitor: Callable[[], Monitor | None]) -> None:
        self._open = open_monitor
        self.is_off = False
        self.is_own = False
        """Whether a call of the monitor is ours."""
        self.after_step: Callable[[], None] | None = None
        """Told after each step, outside of every phase."""
        self.on_fault: Callable[[BaseException], None] | None = None
        self.reset()

    def reset(self) -> None:
        """As at the start; for the child of a fork."""
        self.monitor: Monitor | None = None
        self.thread = get_ident()
        self.stack: list[str] = []
        self.has_steps = False
        self.num_steps = 0
        self.num_forwards = 0
        """Of the current step."""
        self.has_stepped = False
        self._leader: weakref.ref[Any] | None = None
        self._others = 0
        self._optimizers: list[int] = []
        self._eval_owner: int | None = None
        self._num_logging = 0
        self._rate: float | None = None
        self.world: tuple[int, int, int | None] | None = None
        self._forget()

    def _forget(self) -> None:
        """Counts of the step, `None` where not known."""
        self.samples: int | None = None
        self.tokens: int | None = None
        self.seq_len: int | None = None
        self.counted: int | None = None
        """The module whose passes are counted: one alone of those that a step runs."""

    def stay_out(self) -> None:
        """The script marks itself: what is open is closed, and nothing more is marked."""
        if self.is_off:
            return
        while self.stack:
            self.end(self.stack[-1])
        if self.has_steps:
            self._call("end_step")
        if self.monitor is not None:
            self.monitor.is_tiled = False
        self.is_off = True

    def fail(self, error: BaseException) -> None:
        """A fault of ours: nothing more is marked."""
        self.is_off = True
        if self.on_fault is not None:
            self.on_fault(error)

    # ── phases ──

    def begin(self, phase: str, sync: bool = False) -> bool:
        """A phase begins; False where it is not to be marked, and then its end is not told."""
        if self.is_off or get_ident() != self.thread:
            return False
        if phase == "checkpoint" and self.stack == ["eval"]:
            self.end_eval()  # the best model so far is written with the model still in evaluation mode
        if self.stack and phase not in INSIDE.get(self.stack[-1], ()):
            return False
        if phase == "logging":
            self._num_logging += 1
            if self._num_logging > MOST_LOGGING:
                return False
        if self.monitor is None and not self._opened(phase):
            return False
        self.stack.append(phase)
        self._call("begin_phase", phase, sync=sync)
        return True

    def end(self, phase: str, sync: bool = False) -> None:
        """The phase ends, with whatever was left open inside of it."""
        if self.is_off or phase not in self.stack:
            return
        while self.stack:
            last = self.stack.pop()
            self._call("end_phase", last, sync=sync and last == phase)
            if last == phase:
                return

    def _opened(self, phase: str) -> bool:
        if phase not in OPENS:
            return False
        self.monitor = self._open()
        if self.monitor is None or not self.monitor.is_on:
            self.is_off = True
            return False
        self.monitor.is_tiled = True
        if self.world is not None:
            self._call("world", *self.world)
        return True

    def _call(self, name: str, *args: Any, **kwargs: Any) -> None:
        method = getattr(self.monitor, name, None)
        if method is None:
            return
        self.is_own = True
        try:
            method(*args, **kwargs)
        finally:
            self.is_own = False

    # ── evaluation ──

    def begin_eval(self, owner: int | None = None) -> None:
        """Evaluation begins, inside of training alone; `owner` is the loader's iterator that it ends with."""
        if self.has_stepped and not self.stack and self.begin("eval"):
            self._eval_owner = owner

    def end_eval(self, owner: int | None = None) -> None:
        """It ends; with an owner only the evaluation that is its."""
        if "eval" in self.stack and (owner is None or owner == self._eval_owner):
            self.end("eval")
            self._eval_owner = None

    # ── passes ──

    def trains(self) -> None:
        """A training pass begins: no evaluation is open any more, and the first step has begun."""
        if self.is_off or get_ident() != self.thread:
            return
        self.end_eval()
        if not self.has_steps and (self.monitor is not None or self._opened("forward")):
            self.has_steps = True
            self._call("begin_step")

    def count(self, samples: int, tokens: int | None, seq_len: int | None) -> None:
        """What one pass took in; passes of one step add up."""
        self.samples = samples + (self.samples or 0)
        if tokens is not None:
            self.tokens = tokens + (self.tokens or 0)
        if seq_len is not None:
            self.seq_len = seq_len

    def log(self, **values: float) -> None:
        """Numbers of this step."""
        if not self.is_off and self.monitor is not None and get_ident() == self.thread:
            self._call("log", **values)

    # ── optimizers ──

    def begin_optimizer(self, optimizer: object, is_scaler: bool = False) -> None:
        """An optimizer, or what scales its gradients, begins to step; they may lie in each other."""
        if self.is_off:
            return
        if get_ident() != self.thread:
            if self.has_stepped:
                return
            self.thread = get_ident()  # training runs in a thread of its own
            self.stack.clear()
        key = -id(optimizer) if is_scaler else id(optimizer)
        if key in self._optimizers:  # it raised the last time
            del self._optimizers[self._optimizers.index(key) :]
        if not self._optimizers:
            self.end_eval()
            self.begin("optimizer")
        self._optimizers.append(key)

    def end_optimizer(self, optimizer: object, is_scaler: bool = False, rate: float | None = None) -> None:
        """It has stepped, or its scaler has left the step out; `rate` is its learning rate."""
        key = -id(optimizer) if is_scaler else id(optimizer)
        if self.is_off or get_ident() != self.thread or key not in self._optimizers:
            return
        del self._optimizers[self._optimizers.index(key) :]
        if self._optimizers:
            return
        self.end("optimizer")
        if self._leads(optimizer):
            self._next_step(rate)

    def _leads(self, optimizer: object) -> bool:
        leader = None if self._leader is None else self._leader()
        if leader is not optimizer:
            self._others += 1
            if leader is not None and self._others <= MOST_OTHERS:
                return False
            self._leader = weakref.ref(optimizer)
        self._others = 0
        return True

    def _next_step(self, rate: float | None) -> None:
        if self.monitor is None:
            return
        if rate is not None and rate != self._rate:
            self._rate = rate
            self._call("log", learning_rate=rate)
        if self.has_steps:
            self._call("end_step", tokens=self.tokens, samples=self.samples, seq_len=self.seq_len)
        self.num_steps += 1
        self.has_steps = self.has_stepped = True
        self._num_logging = 0
        self._forget()
        if self.after_step is not None:
            self.after_step()
        self.num_forwards = 0
        self._call("begin_step")
