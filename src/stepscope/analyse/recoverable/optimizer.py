"""How the optimizer updates: tensor by tensor, or many at once."""

from __future__ import annotations

import re

import numpy as np

from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.trace.kernel_class import CLASSES

_STEP = re.compile(r"Optimizer\.step#(\w+)\.step")
FUSED = frozenset({"Adam", "AdamW", "SGD", "Adagrad"})
"""Optimizers of PyTorch that take `fused=True`."""
_ONE_BY_ONE = ("elementwise", "reduction", "copy", "set")
"""Classes of kernels that update one tensor: no products of an optimizer, no kernels named after one."""
_MULTI = re.compile(r"multi_tensor_apply|foreach", re.IGNORECASE)


def optimizer_numbers(seen: Seen, num_steps: int) -> tuple[dict[str, float], F64]:
    """Kernels of the optimizer that update one tensor each: how many in a step, their share of its time, and
    whether every optimizer of the run has a fused version; and their time for each activity."""
    calls = seen.calls
    mine = seen.of_kind("optimizer")
    nothing = np.zeros(len(seen.own_ns))
    if not seen.has_op.any():
        return {}, nothing
    if not mine.any():
        return {"optimizer_loop_ns": 0.0, "optimizer_kernels_per_step": 0.0}, nothing
    names = calls.trace.names
    multi = [n for n in np.unique(calls.kernel_id[mine]).tolist() if _MULTI.search(names[n])]
    single = mine & np.isin(calls.activities.cls, [CLASSES.index(cls) for cls in _ONE_BY_ONE])
    single &= ~np.isin(calls.kernel_id, multi)
    loop, whole = float(seen.own_ns[single].sum()), float(seen.own_ns[mine].sum())
    used = {found[1] for name in names if (found := _STEP.fullmatch(name))}
    numbers = {"optimizer_loop_ns": loop, "optimizer_has_fused": float(bool(used) and used <= FUSED)}
    if num_steps:
        numbers["optimizer_kernels_per_step"] = float(single.sum()) / num_steps
    if whole:
        numbers["optimizer_loop_share"] = loop / whole
    return numbers, np.where(single, seen.own_ns, 0.0)
