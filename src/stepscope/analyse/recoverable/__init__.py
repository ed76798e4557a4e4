"""Compute time that a known change takes away, at most: what better kernels would save.

Every activity has one label at most, so that the amounts of different changes never count the same kernel
twice: recomputation and the optimizer keep theirs whole, then materialised attention, matrix work off the
tensor cores, misaligned matrix work, and chains of elementwise ops. All are bounds from what was recorded
(shapes, types, kernel names); where that does not tell, the number is absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from stepscope.analyse.group import groups
from stepscope.analyse.operator import Calls
from stepscope.analyse.recoverable.alignment import misaligned_ns
from stepscope.analyse.recoverable.attention import attention_ns
from stepscope.analyse.recoverable.fusion import fusion
from stepscope.analyse.recoverable.optimizer import optimizer_numbers
from stepscope.analyse.recoverable.precision import off_cores_ns
from stepscope.analyse.recoverable.seen import F64, Seen
from stepscope.analyse.roofline import Works
from stepscope.model.analysis import Culprit
from stepscope.model.hardware import Hardware
from stepscope.model.trace import I64
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import COMPUTE

__all__ = ["Recoverable", "recoverable"]

MAX_CULPRITS = 8
MATH_ATTENTION = "aten::_scaled_dot_product_attention_math"
"""What PyTorch's attention calls where no fused kernel takes its operands."""


@dataclass(frozen=True, slots=True)
class Recoverable:
    """`numbers` in nanoseconds (keys end in `_ns`) or as their names say, `culprits` by the same labels."""

    numbers: Mapping[str, float]
    culprits: Mapping[str, tuple[Culprit, ...]]


def recoverable(
    calls: Calls, own_ns: I64, step: I64, hardware: Hardware | None, num_steps: int
) -> Recoverable:
    """The amounts of one device: `calls` of its activities in scope, `own_ns` the compute time of each and
    `step` the one that launched it."""
    has_op = calls.who.op_row >= 0
    known, which = Works(calls.trace).known(np.where(has_op, calls.who.op_row, 0))
    seen = Seen(
        calls, own_ns.astype(np.float64), known, which, has_op, step, np.zeros(len(own_ns), dtype=bool)
    )
    numbers: dict[str, float] = {}
    spent: dict[str, F64] = {
        kind: np.where(seen.of_kind(kind), seen.own_ns, 0.0) for kind in ("recompute", "optimizer", "layout")
    }
    # These are told by their kind, whatever else could be said of them.
    seen.taken |= seen.of_kind("recompute", "optimizer", "layout")
    scores = attention_ns(seen)
    if scores is not None:
        spent["attention_scores"] = scores
    slow = off_cores_ns(seen, hardware)
    if slow is not None:
        ours = "tf32_off" if hardware is not None and "tf32" in hardware.peak_flops else "off_tensor_cores"
        other = {"tf32_off": "off_tensor_cores", "off_tensor_cores": "tf32_off"}[ours]
        spent[ours], numbers[f"{ours}_saving_ns"] = slow
        spent[other], numbers[f"{other}_saving_ns"] = np.zeros(len(own_ns)), 0.0
    misaligned = misaligned_ns(seen, hardware)
    if misaligned is not None:
        spent["misaligned"], saving = misaligned
        if saving is not None:
            numbers["misaligned_saving_ns"] = saving
    if seen.has_shapes():
        fused = fusion(seen)
        spent["fusion_handed"], spent["fusion_bound"] = fused.handed_ns, fused.bound_ns
    numbers |= {f"{label}_ns": float(ns.sum()) for label, ns in spent.items() if label != "layout"}
    loop, spent["optimizer_loop"] = optimizer_numbers(seen, num_steps)
    numbers |= loop | _by_class(calls)
    numbers["num_ops"] = float(has_op.sum())
    numbers["math_attention"] = float(MATH_ATTENTION in calls.trace.names)
    return Recoverable(numbers, {label: _culprits(calls, ns) for label, ns in spent.items() if ns.any()})


def _by_class(calls: Calls) -> dict[str, float]:
    """Shares of the summed time of all compute kernels."""
    is_kernel = calls.activities.part == COMPUTE
    whole = int(calls.duration_ns[is_kernel].sum())
    if not whole:
        return {}
    return {
        f"{label}_kernel_share": int(
            calls.duration_ns[
                is_kernel & np.isin(calls.activities.cls, [CLASSES.index(c) for c in classes])
            ].sum()
        )
        / whole
        for label, classes in _SHARES.items()
    }


_SHARES = {
    "elementwise": ("elementwise",),
    "normalization": ("normalization",),
    "convolution": ("convolution",),
}


def _culprits(calls: Calls, ns: F64) -> tuple[Culprit, ...]:
    """Ops by the time that a label takes of theirs, largest first; the place of the longest activity."""
    result_ = []
    for name_id, members in groups(calls.name_id):
        time = int(ns[members].sum())
        if time <= 0:
            continue
        longest = int(members[int(np.argmax(ns[members]))])
        row = int(calls.activities.row[longest])
        result_.append(
            Culprit(
                name=calls.trace.names[name_id],
                time_ns=time,
                span=int(calls.trace.spans.index[row]),
                start_ns=int(calls.activities.start_ns[longest]),
                end_ns=int(calls.activities.end_ns[longest]),
            )
        )
    result_.sort(key=lambda each: (-each.time_ns, each.name))
    return tuple(result_[:MAX_CULPRITS])
