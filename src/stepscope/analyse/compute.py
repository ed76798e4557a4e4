"""What computed: compute time of one device split into disjoint kinds that sum to it exactly.

Where kernels of parallel streams run at once, the instant belongs to the one that began first (of those that
begin together, the one earlier in the file), so that nothing counts twice and claims on compute time can be
added up.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from stepscope.analyse.phase import I8, Phase
from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.report import COMPUTE_KINDS, Compute
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import COMPUTE, Activities

OF_CLASS = {cls: cls for cls in COMPUTE_KINDS if cls in CLASSES}
OF_CLASS["set"] = "copy"
"""Kernel class -> kind; any other class is `other`."""
OTHER = COMPUTE_KINDS.index("other")
LAYOUT = COMPUTE_KINDS.index("layout")
_OF_PHASE = {Phase.RECOMPUTE: "recompute", Phase.OPTIMIZER: "optimizer"}

_LAYOUT = re.compile(
    r"nchwTo|nhwcTo|nchw_to_?nhwc|nhwc_to_?nchw|batched_transpose|transpose_?(read|write|kernel|smem|NCHW|CNHW)|"
    r"convertTensor|SubTensorOpWithTransform|tensorTransform|im2col",
    re.IGNORECASE,
)
"""Kernels that only lay data out anew: of cuDNN, MIOpen and ATen. (`col2im` adds up.)"""
_MORE = frozenset({"gemm", "attention", "normalization", "softmax", "triton", "embedding", "optimizer"})
"""Classes whose kernels do more, whatever else their name tells: a product of transposed operands."""
_UNFOLDS = re.compile(r"im2col", re.IGNORECASE)


@lru_cache(maxsize=4096)
def is_layout_kernel(name: str, cls: str) -> bool:
    """Whether a kernel of this name and class moves elements to another layout and does nothing else."""
    pattern = _UNFOLDS if cls == "convolution" else _LAYOUT
    return cls not in _MORE and pattern.search(name) is not None


def kinds_of(trace: Trace, activities: Activities, phase: I8 | None, transposes: npt.NDArray[np.bool_]) -> I8:
    """The place in `COMPUTE_KINDS` of each activity.

    What is recomputed, and what the optimizer does, is that whatever it computes; then what lays data out
    anew (by its kernel's name, or `transposes`: a copy between operands of one shape and other strides); then
    the kernel's class.
    """
    of_class = np.array([COMPUTE_KINDS.index(OF_CLASS.get(cls, "other")) for cls in CLASSES], dtype=np.int8)
    kinds = of_class[activities.cls]
    name_id = trace.spans.name_id[activities.row]
    found, first = np.unique(name_id, return_index=True)
    ids = [
        name
        for name, cls in zip(found.tolist(), activities.cls[first].tolist(), strict=True)
        if is_layout_kernel(trace.names[name], CLASSES[cls])
    ]
    kinds = np.where(np.isin(name_id, ids) | transposes, np.int8(LAYOUT), kinds)
    for which, kind in _OF_PHASE.items() if phase is not None else ():
        kinds = np.where(phase == which, np.int8(COMPUTE_KINDS.index(kind)), kinds)
    return kinds.astype(np.int8)


def own_ns(activities: Activities, inside: Intervals) -> I64:
    """Of each activity of one device, the nanoseconds inside that are its own: 0 for what does not compute.

    They sum to the compute time inside, exactly.
    """
    result = np.zeros(len(activities), dtype=np.int64)
    mine = np.flatnonzero(activities.part == COMPUTE)
    if not len(mine):
        return result
    start, end = activities.start_ns[mine], activities.end_ns[mine]
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    begin = start.copy()
    begin[1:] = np.maximum(start[1:], reach[:-1])
    result[mine[order]] = overlap_ns(begin, np.maximum(end, begin), inside)
    return result


def compute_of(kinds: I8 | I32, own: I64) -> Compute:
    """The report's struct: own nanoseconds by kind."""
    sums = np.zeros(len(COMPUTE_KINDS), dtype=np.int64)
    np.add.at(sums, kinds, own)
    return Compute(**{f"{kind}_ns": int(ns) for kind, ns in zip(COMPUTE_KINDS, sums.tolist(), strict=True)})
