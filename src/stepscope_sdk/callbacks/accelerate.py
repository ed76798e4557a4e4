"""Accelerate: `mark(accelerator)` after `accelerator.prepare(…)`.

A step is one step of the first prepared optimizer that is really taken: with gradients added up over several
batches most calls of `optimizer.step()` are none. Waits for data: `for batch in monitor().data(loader)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stepscope_sdk import Monitor, monitor
from stepscope_sdk.callbacks.turn import Turn


def mark(accelerator: Any, made: Monitor | None = None) -> Monitor:
    """Mark what this accelerator does; the monitor, for marks of one's own."""
    marks = monitor() if made is None else made
    turn = Turn(marks)
    if accelerator.num_processes > 1:
        marks.world(accelerator.num_processes, accelerator.process_index, accelerator.local_process_index)
    _wrap(accelerator, "backward", marks, "backward",
          lambda: accelerator.sync_gradients and accelerator.num_processes > 1)  # fmt: skip
    for name, phase in (("save_state", "checkpoint"), ("save_model", "checkpoint"), ("log", "logging")):
        _wrap(accelerator, name, marks, phase)
    state = {"step": 0}

    def after(_: Any) -> None:
        if accelerator.sync_gradients:
            state["step"] += 1
            turn.next_step(state["step"])

    for place, optimizer in enumerate(accelerator._optimizers):
        _wrap(optimizer, "step", marks, "optimizer", after=after if place == 0 else None)
    _wrap(accelerator, "clip_grad_norm_", marks, None, after=lambda norm: marks.log(grad_norm=norm))
    turn.begin(0)
    return marks


def _wrap(
    owner: Any,
    name: str,
    marks: Monitor,
    phase: str | None,
    is_sync: Callable[[], bool] = lambda: False,
    after: Callable[[Any], object] | None = None,
) -> None:
    before = getattr(owner, name, None)
    if before is None:
        return

    @functools.wraps(before)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        sync = bool(is_sync())
        if phase is not None:
            marks.begin_phase(phase, sync=sync)
        try:
            result = before(*args, **kwargs)
        finally:
            if phase is not None:
                marks.end_phase(phase, sync=sync)
        if after is not None:
            after(result)
        return result

    setattr(owner, name, wrapped)
