"""How the optimizer updates: tensor by tensor, or many at once."""

from __future__ import annotations

import re

import numpy as np

from stepscope.analyse.operator import Calls
from stepscope.analyse.recoverable.seen import F64, PLACE


def optimizer_numbers(calls: Calls, own_ns: F64, num_steps: int) -> dict[str, float]:
    """Kernels of the optimizer in a step, and how much of its time multi-tensor or fused kernels are."""
    mine = calls.who.kind == PLACE["optimizer"]
    if not (calls.who.op_row >= 0).any():
        return {}
    if not mine.any():
        return {"optimizer_kernels_per_step": 0.0}
    if not num_steps:
        return {}
    names = calls.trace.names
    ids = [n for n in np.unique(calls.kernel_id[mine]).tolist() if _MULTI.search(names[n])]
    whole = float(own_ns[mine].sum())
    multi = float(own_ns[mine & np.isin(calls.kernel_id, ids)].sum())
    return {
        "optimizer_kernels_per_step": float(mine.sum()) / num_steps,
        **({"optimizer_multi_tensor_share": multi / whole} if whole else {}),
    }


_MULTI = re.compile(
    r"multi_tensor_apply|FusedOptimizer|fused_adam|fused_sgd|fused_lamb|fused_adagrad|split_embedding", re.I
)
