"""Which ops and which kernels the device time went to."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.analyse.copies import HOST_COPY
from stepscope.analyse.group import groups
from stepscope.analyse.roofline import NOT_KNOWN, Works, roofline
from stepscope.model import report
from stepscope.model.hardware import Hardware
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.health import Issue, impossible_rate
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import Activities
from stepscope.trace.nesting import HostRows

MAX_KERNELS = 50
MAX_OPERATORS = 50


BOOKKEEPING = frozenset({"record_param_comms"})
"""Ops that only write down another op's arguments."""


def innermost_op(trace: Trace, rows: HostRows, at_ns: I64) -> I32:
    """Core row of the op that is innermost on this thread at each instant, -1 where none is open.

    Rows nest, so the innermost open op is the last started one that has not ended: found by walking back
    over ops that ended already, all instants at once.
    """
    silent = np.array([name in BOOKKEEPING for name in trace.names] or [False])
    is_op = (rows.kind == Kind.OP) & ~silent[rows.name_id]
    return innermost(rows.start_ns[is_op], rows.end_ns[is_op], rows.row[is_op], at_ns)


def innermost(start: I64, end: I64, row: I32, at_ns: I64) -> I32:
    """The `row` of the interval that is innermost at each instant, -1 where none is open. They nest, and are
    sorted by (start, longest first)."""
    # An op in which no instant lies can be no answer, nor hide one.
    asked = np.sort(at_ns)
    holds = np.searchsorted(asked, end, side="left") > np.searchsorted(asked, start, side="left")
    start, end, row = start[holds], end[holds], row[holds]
    if len(start) == 0:
        return np.full(len(at_ns), -1, dtype=np.int32)
    parent = _parents(start, end)
    at = np.searchsorted(start, at_ns, side="right") - 1
    open_ = np.where(at >= 0, end[np.maximum(at, 0)] > at_ns, False)
    while True:
        lost = (at >= 0) & ~open_
        if not lost.any():
            break
        at = np.where(lost, parent[np.maximum(at, 0)], at)
        open_ = np.where(at >= 0, end[np.maximum(at, 0)] > at_ns, False)
    return np.where(at >= 0, row[np.maximum(at, 0)], -1).astype(np.int32)


def _parents(start: I64, end: I64) -> npt.NDArray[np.int64]:
    """The nearest earlier-started interval that reaches beyond each one's start, -1 for none.

    One stack walk: ops are a fraction of all rows, and nesting has no vectorised form that survives
    crossing rows.
    """
    parent = np.full(len(start), -1, dtype=np.int64)
    stack: list[int] = []
    ends = end.tolist()
    out = parent.tolist()
    for i, s in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= s:
            stack.pop()
        if stack:
            out[i] = stack[-1]
        stack.append(i)
    return np.array(out, dtype=np.int64)


def kernel_table(
    trace: Trace, activities: Activities, rank: int | None, chosen: npt.NDArray[np.bool_]
) -> tuple[report.Kernel, ...]:
    """The hottest kernels by name over the chosen activities; share of summed device time."""
    name_id = trace.spans.name_id[activities.row[chosen]]
    duration = (activities.end_ns - activities.start_ns)[chosen]
    cls = activities.cls[chosen]
    total = int(duration.sum())
    table = sorted(groups(name_id), key=lambda g: -int(duration[g[1]].sum()))
    return tuple(
        report.Kernel(
            rank=rank,
            name=trace.names[name],
            class_=CLASSES[int(cls[members[0]])],
            count=len(members),
            device_ns=int(duration[members].sum()),
            share=float(duration[members].sum() / total) if total else None,
            mean_ns=int(duration[members].mean()),
            p99_ns=int(np.percentile(duration[members], 99, method="higher")),
        )
        for name, members in table[:MAX_KERNELS]
    )


# An op whose name says what it computes: its helpers (transposes, casts) may run longer than its main kernel.
_BY_NAME = (
    (
        "convolution",
        re.compile(r"(^|[:_])(conv\d?d|convolution|cudnn_convolution|miopen_convolution)", re.IGNORECASE),
    ),
    ("gemm", re.compile(r"^aten::(mm|addmm|bmm|baddbmm|matmul|linear|addmv|mv|dot)$")),
    ("attention", re.compile(r"scaled_dot_product|_attention_(forward|backward)", re.IGNORECASE)),
    ("normalization", re.compile(r"(batch|layer|group|instance|rms)_?norm", re.IGNORECASE)),
)


def _class_of(op: str) -> str | None:
    return next((cls for cls, pattern in _BY_NAME if pattern.search(op)), None)


_TRANSFORM = re.compile(r"winograd|[^a-z]fft|cufft", re.IGNORECASE)
"""Kernels that convolve with less arithmetic than the definition."""


def _one(models: list[Hardware | None]) -> Hardware | None:
    """The model that all these devices are, `None` where they differ or one is not known."""
    return models[0] if all(model == models[0] for model in models) else None


def operator_table(
    trace: Trace,
    activities: Activities,
    rows: dict[int, HostRows],
    thread: I32,
    rank: int | None,
    chosen: npt.NDArray[np.bool_],
    hardware: Mapping[int, Hardware | None],
) -> tuple[tuple[report.Operator, ...], list[Issue]]:
    """The hottest ops by the device time they launched; work without an op stands under its kernel's name.

    `hardware` of each device. The issues name ops that would be faster than the device can be.
    """
    duration = activities.end_ns - activities.start_ns
    op = np.full(len(activities), -1, dtype=np.int32)
    for track in np.unique(thread[chosen]).tolist():
        if track in rows:
            mine = chosen & (thread == track)
            op[mine] = innermost_op(trace, rows[track], activities.launch_ns[mine])
    at = np.flatnonzero(chosen)
    total = int(duration[at].sum())
    own_row = np.where(op[at] >= 0, op[at], activities.row[at])
    name_id = trace.spans.name_id[own_row]
    works, activity_name = Works(trace), trace.spans.name_id[activities.row]
    result: list[report.Operator] = []
    issues: list[Issue] = []
    for name, members in groups(name_id):
        which = at[members]
        by_class = np.bincount(activities.cls[which], weights=duration[which], minlength=len(CLASSES))
        calls, of_call = np.unique(own_row[members], return_inverse=True)
        device_ns, cores = int(duration[which].sum()), activities.tensor_core[which]
        on_cores = np.bincount(of_call, weights=cores == 1) > 0
        off_cores = np.bincount(of_call, weights=cores != 0) == 0
        by_call = np.where(on_cores, 1, np.where(off_cores, 0, -1))
        tensor_core = True if (cores == 1).any() else False if (cores == 0).all() else None
        model = _one([hardware.get(device) for device in np.unique(activities.device[which]).tolist()])
        # A copy between host and device waits for the bus between them, not for the device's memory.
        kernels = [trace.names[n] for n in np.unique(activity_name[which]).tolist()]
        is_direct = not any(_TRANSFORM.search(kernel) for kernel in kernels)
        place = (
            NOT_KNOWN
            if any(HOST_COPY.search(kernel) for kernel in kernels)
            else roofline(works.of(calls, by_call), device_ns, model, is_direct=is_direct)
        )
        if place.excess is not None and model is not None:
            issues.append(impossible_rate(trace.names[name], place.excess, model.key, len(calls)))
        result.append(
            report.Operator(
                rank=rank,
                name=trace.names[name],
                class_=_class_of(trace.names[name]) or CLASSES[int(np.argmax(by_class))],
                count=len(calls),
                device_ns=device_ns,
                share=device_ns / total if total else None,
                tensor_core=tensor_core,
                flops=place.flops,
                bytes=place.num_bytes,
                achieved_flops_per_second=place.achieved_flops_per_second,
                achieved_bytes_per_second=place.achieved_bytes_per_second,
                peak_share=place.peak_share,
                memory_peak_share=place.memory_peak_share,
                bound=place.bound,
            )
        )
    result.sort(key=lambda o: (-o.device_ns, o.name))
    return tuple(result[:MAX_OPERATORS]), issues
