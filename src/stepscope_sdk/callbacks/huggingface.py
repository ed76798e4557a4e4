"""Hugging Face Trainer: `Trainer(callbacks=[StepscopeCallback()])`.

The trainer tells where steps begin and end and what comes next; the forward pass is seen by two hooks of the
model, which are taken off when training ends.
"""

from __future__ import annotations

import importlib
from typing import Any

from stepscope_sdk.callbacks.turn import Turn, world


def __getattr__(name: str) -> Any:
    if name != "StepscopeCallback":
        raise AttributeError(name)
    made = globals()[name] = _made()
    return made


def _made() -> type:
    try:
        base: Any = importlib.import_module("transformers").TrainerCallback
    except ImportError as error:
        raise ImportError("StepscopeCallback needs transformers; add it: pip install transformers") from error

    class StepscopeCallback(base):  # type: ignore[misc]
        """Marks steps, and the phases data, forward, backward, optimizer, eval and checkpoint."""

        def __init__(self) -> None:
            self._turn: Turn | None = None
            self._hooks: list[Any] = []
            self._tokens = 0
            self._micro = 0

        def on_train_begin(
            self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
        ) -> None:
            self._turn = Turn()
            self._tokens, self._micro = int(state.num_input_tokens_seen or 0), 0
            if world() > 1:
                self._turn.monitor.world(world(), args.process_index, args.local_process_index)
            self._turn.begin(state.global_step)
            self._turn.to("data")
            if model is not None:
                self._hooks = [
                    model.register_forward_pre_hook(lambda module, given: self._forward(args, module)),
                    model.register_forward_hook(lambda module, given, out: self._backward(args, module)),
                ]

        def _forward(self, args: Any, model: Any) -> None:
            if self._turn is not None and model.training:
                self._turn.to("forward")

        def _backward(self, args: Any, model: Any) -> None:
            if self._turn is not None and model.training:
                self._micro += 1
                is_last = self._micro >= args.gradient_accumulation_steps
                self._turn.to("backward", world() > 1 and is_last)

        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._to(None)

        def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._to(None)

        def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._to("optimizer")

        def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._to(None)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if self._turn is None:
                return
            tokens = int(state.num_input_tokens_seen or 0)
            self._turn.next_step(
                state.global_step,
                samples=args.per_device_train_batch_size * max(self._micro, 1),
                tokens=tokens - self._tokens if tokens > self._tokens else None,
            )
            self._tokens, self._micro = tokens, 0
            self._what_is_next(control)

        def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._what_is_next(control)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
            if self._turn is not None and logs:
                self._turn.log(logs)

        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._to("checkpoint" if control.should_save else "data")

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            self._to("data")

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
            if self._turn is not None:
                self._turn.end()
                self._turn = None

        def _what_is_next(self, control: Any) -> None:
            """The trainer evaluates, then saves, then fetches."""
            is_eval, is_save = control.should_evaluate, control.should_save
            self._to("eval" if is_eval else "checkpoint" if is_save else "data")

        def _to(self, phase: str | None) -> None:
            if self._turn is not None:
                self._turn.to(phase)

    StepscopeCallback.__qualname__ = "StepscopeCallback"
    return StepscopeCallback
