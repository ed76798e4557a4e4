"""Lightning: `Trainer(callbacks=[StepscopeCallback()])`.

A step is one step of the optimizer, however many batches are added up for it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from typing import Any

from stepscope_sdk.callbacks.turn import Turn

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def __getattr__(name: str) -> Any:
    if name != "StepscopeCallback":
        raise AttributeError(name)
    made = globals()[name] = _made()
    return made


def _base() -> type:
    for package in sorted(_PACKAGES, key=lambda each: each not in sys.modules):
        try:
            base: type = importlib.import_module(package).Callback
        except ImportError:
            continue
        return base
    raise ImportError("StepscopeCallback needs lightning; add it: pip install lightning")


def _made() -> type:
    base: Any = _base()

    class StepscopeCallback(base):  # type: ignore[misc]
        """Marks steps, and the phases data, forward, backward, optimizer, eval and checkpoint."""

        def __init__(self) -> None:
            self._turn: Turn | None = None
            self._step = 0
            self._samples = 0

        def __getstate__(self) -> dict[str, Any]:
            return {"_turn": None, "_step": 0, "_samples": 0}  # a spawned rank has a monitor of its own

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            self._turn = Turn()
            if trainer.world_size > 1:
                self._turn.monitor.world(trainer.world_size, trainer.global_rank, trainer.local_rank)
            self._step = trainer.global_step
            self._turn.begin(self._step)
            self._turn.to("data")
            _wrap_save(trainer, self._turn)

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            self._to("forward")
            self._samples += _size(batch)

        def on_before_backward(self, trainer: Any, pl_module: Any, loss: Any) -> None:
            adds_up = getattr(trainer.fit_loop, "_should_accumulate", lambda: False)()
            self._to("backward", trainer.world_size > 1 and not adds_up)

        def on_after_backward(self, trainer: Any, pl_module: Any) -> None:
            self._to(None)

        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any) -> None:
            self._to("optimizer")

        def on_train_batch_end(
            self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
        ) -> None:
            if self._turn is None:
                return
            self._turn.to(None)
            if isinstance(outputs, dict):
                self._turn.log(outputs)
            self._turn.log(trainer.logged_metrics)
            if trainer.optimizers:
                self._turn.log({"learning_rate": trainer.optimizers[0].param_groups[0].get("lr")})
            if trainer.global_step != self._step:
                self._step = trainer.global_step
                self._turn.next_step(self._step, samples=self._samples or None)
                self._samples = 0
            self._turn.to("data")

        def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.sanity_checking:
                self._to("eval")

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.sanity_checking:
                self._to("data")

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self._end(trainer)

        def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
            self._end(trainer)

        def _end(self, trainer: Any) -> None:
            if self._turn is not None:
                self._turn.end()
                self._turn = None
                trainer.__dict__.pop("save_checkpoint", None)

        def _to(self, phase: str | None, sync: bool = False) -> None:
            if self._turn is not None:
                self._turn.to(phase, sync)

    StepscopeCallback.__qualname__ = "StepscopeCallback"  # found again by `__getattr__`: picklable
    return StepscopeCallback


def _wrap_save(trainer: Any, turn: Turn) -> None:
    """The trainer writes checkpoints from a callback of its own and tells of the begin alone."""
    before = trainer.save_checkpoint

    @functools.wraps(before)
    def save_checkpoint(*args: Any, **kwargs: Any) -> Any:
        last = turn.phase
        turn.to("checkpoint")
        try:
            return before(*args, **kwargs)
        finally:
            turn.to(last)

    trainer.save_checkpoint = save_checkpoint


def _size(batch: Any) -> int:
    """Samples of a batch: the first length in it, 0 where there is none."""
    if isinstance(batch, dict):
        batch = next(iter(batch.values()), None)
    elif isinstance(batch, (list, tuple)):
        batch = batch[0] if batch else None
    shape = getattr(batch, "shape", None)
    return int(shape[0]) if shape else 0
