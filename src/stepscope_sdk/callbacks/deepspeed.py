"""DeepSpeed: `mark(engine)` after `deepspeed.initialize(…)`.

`engine(batch)`, `engine.backward(loss)` and `engine.step()` are marked; a step ends with the `engine.step()`
at a boundary of gradient accumulation. A pipeline engine runs all of a step in `train_batch`, which is one.
Waits for data: `for batch in monitor().data(loader)`.
"""

from __future__ import annotations

import functools
from typing import Any

from stepscope_sdk import Monitor, monitor
from stepscope_sdk.callbacks.accelerate import _wrap
from stepscope_sdk.callbacks.turn import Turn, world


def mark(engine: Any, made: Monitor | None = None) -> Monitor:
    """Mark what this engine does; the monitor, for marks of one's own."""
    marks = monitor() if made is None else made
    turn = Turn(marks)
    size = getattr(engine, "world_size", None) or world()
    if size > 1:
        marks.world(size, getattr(engine, "global_rank", None), getattr(engine, "local_rank", None))

    def is_boundary() -> bool:
        return bool(engine.is_gradient_accumulation_boundary())

    _wrap(engine, "forward", marks, "forward")
    _wrap(engine, "backward", marks, "backward", lambda: size > 1 and is_boundary())
    _wrap(engine, "save_checkpoint", marks, "checkpoint")
    _wrap(engine, "eval_batch", marks, "eval")
    _wrap_step(engine, "step", turn, is_boundary)
    if hasattr(engine, "train_batch"):
        _wrap_step(engine, "train_batch", turn, lambda: True)
    turn.begin(int(getattr(engine, "global_steps", 0) or 0))
    return marks


def _wrap_step(engine: Any, name: str, turn: Turn, is_boundary: Any) -> None:
    before = getattr(engine, name)
    phase = "optimizer" if name == "step" else None

    @functools.wraps(before)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        ends = is_boundary()  # counters move on inside
        marks = turn.monitor
        if phase is not None:
            marks.begin_phase(phase)
        try:
            result = before(*args, **kwargs)
        finally:
            if phase is not None:
                marks.end_phase(phase)
        if ends:
            norm = getattr(engine, "get_global_grad_norm", lambda: None)()
            rates: Any = getattr(engine, "get_lr", list)()
            told = {"grad_norm": norm, "learning_rate": rates[0] if rates else None}
            marks.log(**{name: value for name, value in told.items() if value is not None})
            turn.next_step(int(getattr(engine, "global_steps", 0) or 0))
        return result

    setattr(engine, name, wrapped)
