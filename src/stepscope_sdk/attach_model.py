"""Finds the outermost modules of a training loop, and marks their calls alone.

For a few steps every call of a module is looked at; then only the classes of the modules that were outermost
are, so that a model of a thousand layers pays for one call. A step in which no forward was seen is reason to
look again.
"""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING, Any

from stepscope_sdk.attach_mark import Marks

if TYPE_CHECKING:
    from stepscope_sdk.attach_torch import Wrapper

NUM_LOOKS = 3
"""Steps in which every call of a module is looked at: the first may hold only a part of the models."""
OPEN = ("optimizer", "eval")
"""Phases in which a call may be a pass: of a closure, or the one that shows that evaluation is over."""
MOST_LOOKS_AGAIN = 20
"""How often a step without a forward is reason to look again."""
SHARED = {"DistributedDataParallel": False, "FullyShardedDataParallel": True, "FSDPModule": True,
          "DeepSpeedEngine": False}  # fmt: skip
"""Classes whose backward is a meeting of all ranks; True where the forward is one too."""


class Roots:
    """The outermost modules of this process."""

    def __init__(self, torch: Any, marks: Marks, wrapper: Wrapper) -> None:
        self._torch, self._marks, self._wrapper = torch, marks, wrapper
        self._module = torch.nn.Module
        self._before: Any = None
        self._num_looks = self._num_again = 0
        self._classes: set[type] = set()
        self._wrapped: set[type] = set()
        self._has_parameters: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._trained: weakref.WeakSet[Any] = weakref.WeakSet()
        self._shared: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._last: weakref.ref[Any] | None = None
        marks.after_step = self._after_step
        wrapper.around(torch.nn.Module, "train", self._begin_train, self._end_train)

    # ── which modules are looked at ──

    def look(self) -> None:
        """Look at every module from now on, until `NUM_LOOKS` steps have ended."""
        if self._before is not None:
            return
        self._num_looks = 0
        self._before = self._module.__call__
        self._module.__call__ = self._called(self._before)

    def _called(self, before: Any) -> Any:
        begin, end = self._wrapper.guarded(self._begin), self._wrapper.guarded(self._end)
        is_compiling, marks = self._wrapper._is_compiling, self._marks

        @functools.wraps(before)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or marks.is_off or (marks.stack and marks.stack[-1] not in OPEN):
                return before(self, *args, **kwargs)
            token = begin(self, args, kwargs)
            if token is None:
                return before(self, *args, **kwargs)
            try:
                return before(self, *args, **kwargs)
            finally:
                end(token)

        return __call__

    def _after_step(self) -> None:
        marks = self._marks
        if self._before is None:
            if marks.num_forwards == 0 and self._num_again < MOST_LOOKS_AGAIN:
                self._num_again += 1
                self.look()
            return
        self._num_looks += 1
        if self._num_looks < NUM_LOOKS:
            return
        self._module.__call__, self._before = self._before, None
        for each in self._classes - self._wrapped:
            self._wrap_class(each)

    def _wrap_class(self, kind: Any) -> None:
        self._wrapped.add(kind)
        own = kind.__dict__.get("__call__")

        def up(self: Any, *args: Any, **kwargs: Any) -> Any:
            above: Any = super(kind, self)
            return above.__call__(*args, **kwargs)

        if own is None:
            functools.update_wrapper(up, self._module.__call__)
        try:
            kind.__call__ = self._called(own if own is not None else up)
        except TypeError:  # a class that is not to be changed: its calls stay unmarked
            return

    # ── a call ──

    def _begin(self, module: Any, args: Any, kwargs: Any) -> tuple[str, bool] | None:
        has_parameters = self._has_parameters.get(module)
        if has_parameters is None:
            has_parameters = next(iter(module.parameters()), None) is not None
            self._has_parameters[module] = has_parameters
        is_grad = self._torch.is_grad_enabled()
        if not has_parameters and not (is_grad and any(getattr(a, "requires_grad", False) for a in args)):
            return None  # it prepares data
        marks = self._marks
        if not is_grad and not module.training and module in self._trained and marks.has_stepped:
            return ("eval", False) if marks.begin("eval") else None
        sync = False
        if has_parameters and is_grad and module.training:
            marks.trains()
            sync = self._learn(module)
        if not marks.begin("forward", sync):
            return None
        self._classes.add(type(module))
        if has_parameters and is_grad:
            marks.num_forwards += 1
            self._last = weakref.ref(module)
            if marks.counted in (None, id(module)):
                marks.counted = id(module)
                self._count(args, kwargs)
        return "forward", sync

    def _end(self, token: tuple[str, bool]) -> None:
        phase, sync = token
        self._marks.end(phase, sync)

    def _learn(self, module: Any) -> bool:
        """Whether all ranks meet in its forward."""
        if module not in self._trained:
            each = module
            while each is not None:
                self._trained.add(each)
                parts = getattr(each, "_modules", {})
                each = parts.get("_orig_mod") or parts.get("module") or parts.get("_fsdp_wrapped_module")
            shared = next((m for m in module.modules() if _kind_of(m) is not None), None)
            if shared is not None:
                self._shared[module] = weakref.ref(shared)
        shared = self._shared.get(module)
        return shared is not None and bool(_kind_of(shared()))

    def is_sync_backward(self) -> bool:
        """Whether all ranks meet in the backward of what ran forward last: not while gradients are added up
        on each rank alone (`no_sync`)."""
        last = None if self._last is None else self._last()
        shared = None if last is None else self._shared.get(last)
        found = None if shared is None else shared()
        return found is not None and bool(getattr(found, "require_backward_grad_sync", True))

    def _count(self, args: Any, kwargs: Any) -> None:
        given = kwargs.get("input_ids")
        if given is None:
            given = args[0] if args else next(iter(kwargs.values()), None)
        if type(given) is dict:
            given = given.get("input_ids", next(iter(given.values()), None))
        elif type(given) in (list, tuple):
            given = given[0] if given else None
        if not isinstance(given, self._torch.Tensor) or given.dim() == 0:
            return
        is_tokens = given.dim() == 2 and not (given.is_floating_point() or given.is_complex())
        self._marks.count(
            int(given.shape[0]),
            int(given.numel()) if is_tokens else None,
            int(given.shape[1]) if is_tokens else None,
        )

    # ── evaluation ──

    def look_at_mode(self) -> None:
        """Ends an evaluation whose model trains again: a framework may set that without a call."""
        last = None if self._last is None else self._last()
        if last is not None and last.training and self._torch.is_grad_enabled():
            self._marks.end_eval()

    def _begin_train(self, args: Any, kwargs: Any) -> bool | None:
        module = args[0]
        if module not in self._trained:
            return None
        mode = bool(args[1] if len(args) > 1 else kwargs.get("mode", True))
        if mode:
            self._marks.end_eval()
        elif module.training:
            self._marks.begin_eval()
        return None

    def _end_train(self, token: Any, result: Any) -> None:
        return None


def _kind_of(module: Any) -> bool | None:
    for kind in type(module).__mro__:
        if kind.__name__ in SHARED:
            return SHARED[kind.__name__]
    return None
