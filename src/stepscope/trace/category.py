"""What an event's category says it is. Categories changed over the profiler's years and vendors."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, Trace


class Kind(IntEnum):
    """What a span is, whatever its writer calls it."""

    OTHER = 0
    OP = 1
    ANNOTATION = 2
    PYTHON = 3
    CALL = 4
    OVERHEAD = 5
    KERNEL = 6
    COPY = 7
    SET = 8
    SYNC = 9
    UNSEEN = 10
    """Work of a device whose kernels this version cannot tell apart."""


# Lower-case category -> kind. 2021 writers say Operator/Runtime/Kernel; each back end brings its own
# runtime rows.
KINDS: dict[str, Kind] = {
    "cpu_op": Kind.OP,
    "operator": Kind.OP,
    "user_annotation": Kind.ANNOTATION,
    "python_function": Kind.PYTHON,
    "python gc": Kind.ANNOTATION,
    "cuda_runtime": Kind.CALL,
    "cuda_driver": Kind.CALL,
    "runtime": Kind.CALL,
    "hip_runtime": Kind.CALL,
    "hip_driver": Kind.CALL,
    "xpu_runtime": Kind.CALL,
    "xpu_driver": Kind.CALL,
    "mtia_runtime": Kind.CALL,
    "glow_runtime": Kind.CALL,
    "privateuse1_runtime": Kind.CALL,
    "privateuse1_driver": Kind.CALL,
    "overhead": Kind.OVERHEAD,
    "kernel": Kind.KERNEL,
    "gpu_memcpy": Kind.COPY,
    "memcpy": Kind.COPY,
    "gpu_memset": Kind.SET,
    "memset": Kind.SET,
    "cuda_sync": Kind.SYNC,
    "xpu_sync": Kind.SYNC,
    "mtia_ccp_events": Kind.UNSEEN,
    "mtia_workloadd": Kind.UNSEEN,
    "mtia_insight": Kind.UNSEEN,
    "hpu_op": Kind.UNSEEN,
}

DEVICE_KINDS = (Kind.KERNEL, Kind.COPY, Kind.SET)
HOST_KINDS = (Kind.OP, Kind.ANNOTATION, Kind.PYTHON, Kind.CALL)

# The record_function names that 2021 writers filed under "Operator".
ANNOTATION_PREFIXES = (
    "ProfilerStep#",
    "enumerate(DataLoader)#",
    "Optimizer.",
    "nccl:",
    "gloo:",
    "hccl:",
    "## ",
)


def is_of(kinds: I32, *wanted: Kind) -> npt.NDArray[np.bool_]:
    """Which of `kinds` are one of these: a table look-up, many times faster than a search."""
    table = np.zeros(len(Kind), dtype=bool)
    table[list(wanted)] = True
    return table[kinds]


def span_kinds(trace: Trace) -> I32:
    """The `Kind` of each span, int32 like the core.

    An op whose name only annotations have is an annotation.
    """
    by_cat = np.array([int(KINDS.get(cat.lower(), Kind.OTHER)) for cat in trace.cats] or [0], dtype=np.int32)
    is_annotation = np.array(
        [name.startswith(ANNOTATION_PREFIXES) for name in trace.names] or [False], dtype=bool
    )
    kinds = by_cat[trace.spans.cat_id]
    kinds[(kinds == Kind.OP) & is_annotation[trace.spans.name_id]] = Kind.ANNOTATION
    return kinds
