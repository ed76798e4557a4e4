"""A trace summed by op, shapes and step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepscope.analyse.launched import BOOKKEEPING
from stepscope.analyse.linked import Linked
from stepscope.analyse.nest import innermost_of
from stepscope.model import report
from stepscope.model.summary import Kernels, KernelSteps, Ops, OpSteps, SummaryStep, TraceSummary
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import DEVICE_KINDS, Kind, is_of, span_kinds

_Rows = npt.NDArray[np.intp]


OTHERS = "(others)"
"""The name under which the ops, or the kernels, of least time stand together."""


def summary_of(
    trace: Trace,
    linked: Linked,
    steps: Sequence[report.Step],
    name: str,
    rank: int | None,
    most: int | None = None,
) -> TraceSummary:
    """Every op and every device activity of a trace, by step. `name` and `rank` say whose it is.

    `most` distinct ops and as many kernels are told apart, those of the most time; the others stand together,
    so that every sum stays. Ops belong to the step in which they begin, device work to that in which it was
    launched (in which it begins, where no launch is known). An op that only writes down another's arguments
    is an op of its own, and what is launched within it is the other's. Pure: the trace is not changed.
    """
    spans, activities = trace.spans, linked.activities
    ordered = sorted(steps, key=lambda step: step.start_ns)
    silent = np.array([each in BOOKKEEPING for each in trace.names] or [False])
    op_rows = np.flatnonzero(linked.kinds == Kind.OP)
    is_summed = is_of(span_kinds(trace), Kind.OP, *DEVICE_KINDS)
    texts = _Texts(trace)

    dims, types = _shapes(trace)
    distinct, op_of = _distinct(np.stack([spans.name_id[op_rows], dims[op_rows], types[op_rows]], axis=1))
    launcher = _launching_ops(trace, linked, op_rows[~silent[spans.name_id[op_rows]]])
    of_launcher = launcher >= 0
    duration = activities.end_ns - activities.start_ns
    device_ns = np.zeros(len(spans.ts_ns), dtype=np.int64)
    np.add.at(device_ns, launcher[of_launcher], duration[of_launcher])
    host_ns = np.maximum(spans.dur_ns[op_rows], 0)
    distinct, op_of, merged_ops = _merged(distinct, op_of, device_ns[op_rows] + host_ns, most)

    op_of_row = np.full(len(spans.ts_ns), -1, dtype=np.int64)
    op_of_row[op_rows] = op_of
    op_pairs, op_at = _distinct(np.stack([_step_of(ordered, spans.ts_ns[op_rows]), op_of], axis=1))

    own_op = np.where(of_launcher, op_of_row[launcher], -1)
    kernels, kernel_of = _distinct(np.stack([spans.name_id[activities.row], own_op], axis=1))
    kernels, kernel_of, merged_kernels = _merged(kernels, kernel_of, duration, most)
    begun = np.where(activities.launch_row >= 0, activities.called_ns, activities.start_ns)
    kernel_pairs, kernel_at = _distinct(np.stack([_step_of(ordered, begun), kernel_of], axis=1))
    longest = np.zeros(len(kernel_pairs), dtype=np.int64)
    np.maximum.at(longest, kernel_at, duration)

    return TraceSummary(
        input=name,
        rank=rank,
        steps=tuple(
            SummaryStep(step=each.step, start_ns=each.start_ns, dur_ns=each.dur_ns, use=each.use)
            for each in ordered
        ),
        ops=Ops(
            name=texts.names(distinct[:, 0]),
            dims=texts.texts(distinct[:, 1]),
            types=texts.texts(distinct[:, 2]),
        ),
        op_steps=OpSteps(
            step=_ints(op_pairs[:, 0]),
            op=_ints(op_pairs[:, 1]),
            count=_ints(np.bincount(op_at, minlength=len(op_pairs))),
            host_ns=_sums(op_at, host_ns, len(op_pairs)),
            device_ns=_sums(op_at, device_ns[op_rows], len(op_pairs)),
        ),
        kernels=Kernels(name=texts.names(kernels[:, 0]), op=_ints(kernels[:, 1])),
        kernel_steps=KernelSteps(
            step=_ints(kernel_pairs[:, 0]),
            kernel=_ints(kernel_pairs[:, 1]),
            count=_ints(np.bincount(kernel_at, minlength=len(kernel_pairs))),
            device_ns=_sums(kernel_at, duration, len(kernel_pairs)),
            max_ns=_ints(longest),
        ),
        texts=texts.used,
        merged_ops=merged_ops,
        merged_kernels=merged_kernels,
        left_out=int((is_summed & ~linked.is_good).sum()),
    )


class _Texts:
    """The trace's strings that are used, renumbered in order of use."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._ids: dict[str, int] = {}

    @property
    def used(self) -> tuple[str, ...]:
        return tuple(self._ids)

    def names(self, ids: npt.NDArray[np.int64]) -> tuple[int, ...]:
        return tuple(self._id(self._trace.names[i] if i >= 0 else OTHERS) for i in ids.tolist())

    def texts(self, ids: npt.NDArray[np.int64]) -> tuple[int, ...]:
        return tuple(self._id(self._trace.texts[i]) if i >= 0 else -1 for i in ids.tolist())

    def _id(self, text: str) -> int:
        return self._ids.setdefault(text, len(self._ids))


def _shapes(trace: Trace) -> tuple[I32, I32]:
    """Ids of shapes and types of each core row, -1 where none was recorded."""
    dims = np.full(len(trace.spans.ts_ns), -1, dtype=np.int32)
    types = dims.copy()
    dims[trace.ops.row] = trace.ops.dims_id
    types[trace.ops.row] = trace.ops.types_id
    return dims, types


def _launching_ops(trace: Trace, linked: Linked, op_rows: _Rows) -> I32:
    """For each activity the core row of the innermost op around its launch, -1 where there is none."""
    spans, activities = trace.spans, linked.activities
    found = np.full(len(activities), -1, dtype=np.int32)
    launched = np.flatnonzero(activities.launch_row >= 0)
    thread = spans.track_id[activities.launch_row[launched]]
    track = spans.track_id[op_rows]
    for each in np.unique(thread).tolist():
        mine = op_rows[track == each]
        start = spans.ts_ns[mine]
        end = start + np.maximum(spans.dur_ns[mine], 0)
        order = np.lexsort((-end, start))
        asked = launched[thread == each]
        found[asked] = innermost_of(
            start[order], end[order], mine[order].astype(np.int32), activities.launch_ns[asked]
        )
    return found


def _step_of(steps: Sequence[report.Step], at_ns: I64) -> I64:
    """The place of the step in which each instant lies, -1 for none. Steps of one trace do not overlap."""
    if not steps:
        return np.full(len(at_ns), -1, dtype=np.int64)
    start = np.array([step.start_ns for step in steps], dtype=np.int64)
    end = np.array([step.end_ns for step in steps], dtype=np.int64)
    at = np.searchsorted(start, at_ns, side="right") - 1
    return np.where((at >= 0) & (at_ns < end[np.maximum(at, 0)]), at, -1)


def _distinct(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The distinct rows of a table of numbers, sorted, and which of them each row is."""
    found, at = np.unique(keys, axis=0, return_inverse=True)
    return found.astype(np.int64), at.reshape(-1).astype(np.int64)


def _merged(
    keys: npt.NDArray[np.int64], of: npt.NDArray[np.int64], time_ns: I64, most: int | None
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """The same with at most `most` distinct keys, of the most time, and one of -1 for all others; and how
    many those are."""
    if most is None or len(keys) <= most:
        return keys, of, 0
    total = np.zeros(len(keys), dtype=np.int64)
    np.add.at(total, of, time_ns)
    kept = np.sort(np.argsort(-total, kind="stable")[:most])
    place = np.full(len(keys), len(kept), dtype=np.int64)
    place[kept] = np.arange(len(kept))
    others = np.full((1, keys.shape[1]), -1, dtype=np.int64)
    return np.concatenate([keys[kept], others]), place[of], len(keys) - len(kept)


def _sums(of: npt.NDArray[np.int64], values: I64, count: int) -> tuple[int, ...]:
    total = np.zeros(count, dtype=np.int64)
    np.add.at(total, of, values)
    return _ints(total)


def _ints(column: npt.NDArray[np.int64]) -> tuple[int, ...]:
    return tuple(column.tolist())
