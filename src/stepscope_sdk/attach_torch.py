"""Wraps the places of torch that a training loop cannot avoid. Everything here is called once, at import.

What is wrapped keeps its name, its signature and its exceptions; under `torch.compile` it is as if it were
not there. Nothing is stored in the user's modules or tensors: models stay as picklable as they were.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from stepscope_sdk.attach_import import watch
from stepscope_sdk.attach_mark import Marks
from stepscope_sdk.attach_model import Roots

Begin = Callable[..., Any]

COLLECTIVES = (
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "broadcast",
    "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "reduce", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "scatter_object_list",
)  # fmt: skip
"""Functions of torch.distributed in which a group meets."""
TRANSFERS = ("send", "recv", "send_object_list", "recv_object_list", "batch_isend_irecv")
"""Functions of torch.distributed in which two ranks meet."""
WRITERS = (
    ("torch", "", "save", "checkpoint"),
    ("torch.distributed.checkpoint.state_dict_saver", "", "save", "checkpoint"),
    ("torch.distributed.checkpoint.state_dict_saver", "", "async_save", "checkpoint"),
    ("torch.distributed.checkpoint", "", "save", "checkpoint"),
    ("torch.distributed.checkpoint", "", "async_save", "checkpoint"),
    ("safetensors.torch", "", "save_file", "checkpoint"),
    ("transformers.modeling_utils", "PreTrainedModel", "save_pretrained", "checkpoint"),
    ("accelerate", "Accelerator", "save_state", "checkpoint"),
    ("deepspeed.runtime.engine", "DeepSpeedEngine", "save_checkpoint", "checkpoint"),
    ("logging", "Logger", "callHandlers", "logging"),
    ("torch.utils.tensorboard.writer", "SummaryWriter", "add_scalar", "logging"),
    ("torch.utils.tensorboard.writer", "SummaryWriter", "add_scalars", "logging"),
    ("torch.utils.tensorboard.writer", "SummaryWriter", "add_histogram", "logging"),
    ("torch.utils.tensorboard.writer", "SummaryWriter", "add_image", "logging"),
    ("torch.utils.tensorboard.writer", "SummaryWriter", "flush", "logging"),
    ("wandb.sdk.wandb_run", "Run", "log", "logging"),
    ("mlflow.tracking.client", "MlflowClient", "log_metric", "logging"),
    ("mlflow.tracking.client", "MlflowClient", "log_batch", "logging"),
)
"""What writes: module, class (empty: a function of the module), name, phase."""


class Wrapper:
    """Wraps functions for one process. `is_compiling()` is torch's."""

    def __init__(self, marks: Marks, is_compiling: Callable[[], bool]) -> None:
        self._marks = marks
        self._is_compiling = is_compiling

    def guarded(self, what: Callable[..., Any]) -> Callable[..., Any]:
        """`what`, out of which nothing comes but its answer: a fault of ours ends attach mode."""
        marks = self._marks

        def call(*args: Any, **kwargs: Any) -> Any:
            if marks.is_off:
                return None
            try:
                return what(*args, **kwargs)
            except Exception as error:  # noqa: BLE001  the wall to the training script
                marks.fail(error)
                return None

        return call

    def around(self, owner: Any, name: str, begin: Begin, end: Callable[[Any, Any], object]) -> None:
        """Wrap `owner.name`: `begin(args, kwargs)` gives a token, None where nothing is to be marked;
        `end(token, result)` is called in any case, with None for the result of an exception."""
        before = getattr(owner, name, None)
        if before is None or getattr(before, "_is_stepscope", False):
            return
        is_compiling, begin, end = self._is_compiling, self.guarded(begin), self.guarded(end)

        @functools.wraps(before)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return before(*args, **kwargs)
            token = begin(args, kwargs)
            if token is None:
                return before(*args, **kwargs)
            result = None
            try:
                result = before(*args, **kwargs)
            finally:
                end(token, result)
            return result

        wrapped._is_stepscope = True  # type: ignore[attr-defined]
        setattr(owner, name, wrapped)

    def phase(self, owner: Any, name: str, phase: str, is_sync: Begin | None = None) -> None:
        """Wrap `owner.name` as a phase; `is_sync(args, kwargs)` says whether all ranks meet in it."""
        marks = self._marks

        def begin(args: Any, kwargs: Any) -> bool | None:
            sync = bool(is_sync is not None and is_sync(args, kwargs))
            return sync if marks.begin(phase, sync) else None

        self.around(owner, name, begin, lambda sync, _: marks.end(phase, sync))


def wrap(torch: ModuleType, marks: Marks) -> None:
    """Wrap all of it."""
    compiler: Any = getattr(torch, "compiler", None)
    wrapper = Wrapper(marks, getattr(compiler, "is_compiling", lambda: False))
    roots = Roots(torch, marks, wrapper)
    roots.look()
    _wrap_optimizers(torch, marks, wrapper)
    _wrap_loaders(torch, marks, wrapper, roots)
    _wrap_backward(torch, marks, wrapper, roots)
    _wrap_distributed(torch, marks, wrapper)
    for module, owner, name, phase in WRITERS:
        then = functools.partial(_wrap_writer, wrapper, owner, name, phase)
        if module == "torch":
            then(torch)  # which is still being imported as the import system sees it
        else:
            watch(module, then)
    watch("torch._dynamo.callback", lambda dynamo: _wrap_compile(dynamo, marks, wrapper))


def _wrap_writer(wrapper: Wrapper, owner: str, name: str, phase: str, module: ModuleType) -> None:
    target = getattr(module, owner, None) if owner else module
    if target is not None:
        wrapper.phase(target, name, phase)


def _wrap_optimizers(torch: Any, marks: Marks, wrapper: Wrapper) -> None:
    optimizer: Any = sys.modules[torch.optim.Optimizer.__module__]
    is_compiling = wrapper._is_compiling
    begin, end = wrapper.guarded(marks.begin_optimizer), wrapper.guarded(marks.end_optimizer)

    def before(each: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            begin(each)

    def after(each: Any, args: Any, kwargs: Any) -> None:
        if not is_compiling():
            end(each, rate=_rate(each))

    optimizer.register_optimizer_step_pre_hook(before)
    optimizer.register_optimizer_step_post_hook(after)

    def begin_scaler(args: Any, kwargs: Any) -> Any:
        each = args[1] if len(args) > 1 else kwargs.get("optimizer")
        if each is not None:
            marks.begin_optimizer(each, is_scaler=True)
        return each

    scaler = getattr(getattr(torch, "amp", None), "GradScaler", None)
    if scaler is not None:
        end_scaler = functools.partial(marks.end_optimizer, is_scaler=True)
        wrapper.around(scaler, "step", begin_scaler, lambda each, _: end_scaler(each, rate=_rate(each)))


def _rate(optimizer: Any) -> float | None:
    """The learning rate of the first group; None for one that is a tensor, which may lie on a device."""
    groups = getattr(optimizer, "param_groups", None)
    rate = groups[0].get("lr") if groups else None
    return float(rate) if isinstance(rate, (int, float)) else None


def _wrap_loaders(torch: Any, marks: Marks, wrapper: Wrapper, roots: Roots) -> None:
    loader = torch.utils.data.dataloader

    def begin_wait(args: Any, kwargs: Any) -> Any:
        if marks.stack == ["eval"]:
            roots.look_at_mode()
        return args[0] if marks.begin("data") or marks.stack == ["eval"] else None

    wrapper.around(
        loader._BaseDataLoaderIter,
        "__next__",
        begin_wait,
        lambda iterator, batch: _end_wait(marks, iterator, batch is None),
    )

    def end_iter(token: str, iterator: Any) -> None:
        if token == "data":
            marks.end("data")
        if iterator is not None and not torch.is_grad_enabled():
            marks.begin_eval(id(iterator))  # what is read without gradients is read to evaluate

    wrapper.around(
        loader.DataLoader, "__iter__", lambda args, kwargs: "data" if marks.begin("data") else "", end_iter
    )


def _end_wait(marks: Marks, iterator: object, is_last: bool) -> None:
    marks.end("data")
    if is_last:
        marks.end_eval(id(iterator))


def _wrap_backward(torch: Any, marks: Marks, wrapper: Wrapper, roots: Roots) -> None:
    def begin(args: Any, kwargs: Any) -> Any:
        marks.trains()
        sync = roots.is_sync_backward()
        return (sync, args[0] if args else kwargs.get("tensors")) if marks.begin("backward", sync) else None

    def end(token: Any, result: Any) -> None:
        sync, loss = token
        marks.end("backward", sync)
        # A number on a device is left where it is: reading it would wait for the device.
        if type(loss) is torch.Tensor and loss.device.type == "cpu" and loss.numel() == 1:
            marks.log(loss=float(loss.detach()))

    wrapper.around(torch.autograd, "backward", begin, end)
    wrapper.phase(torch.autograd, "grad", "backward")


def _wrap_distributed(torch: Any, marks: Marks, wrapper: Wrapper) -> None:
    distributed = torch.distributed
    if not distributed.is_available():
        return
    home = distributed.distributed_c10d

    def meets(args: Any, kwargs: Any) -> bool:
        group = kwargs.get("group")
        return not kwargs.get("async_op") and (group is None or group is home.group.WORLD)

    def know(token: Any, result: Any) -> None:
        if distributed.is_initialized():
            local = getattr(distributed, "get_node_local_rank", lambda fallback_rank: -1)(fallback_rank=-1)
            marks.world = (
                distributed.get_world_size(),
                distributed.get_rank(),
                local if local >= 0 else None,
            )
            if marks.monitor is not None:
                marks._call("world", *marks.world)

    for name in (*COLLECTIVES, *TRANSFERS):
        wrapper.phase(home, name, "communication", meets if name in COLLECTIVES else None)
    wrapper.around(home, "init_process_group", lambda args, kwargs: True, know)
    for name in (*COLLECTIVES, *TRANSFERS, "init_process_group"):
        if hasattr(distributed, name) and hasattr(home, name):
            setattr(distributed, name, getattr(home, name))


def _wrap_compile(dynamo: Any, marks: Marks, wrapper: Wrapper) -> None:
    handler = dynamo.callback_handler
    begin, end = wrapper.guarded(marks.begin), wrapper.guarded(marks.end)
    handler.register_start_callback(lambda _: begin("compile"))
    handler.register_end_callback(lambda _: end("compile"))
