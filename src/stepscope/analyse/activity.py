"""A device's work in equal cells of time: what telemetry is compared with."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.account import Parts
from stepscope.analyse.idle import IdlePieces
from stepscope.analyse.process import Process, Scope
from stepscope.model.activity import Activity
from stepscope.model.interval import Intervals, join, overlap_ns, union
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.sample import F64
from stepscope.model.trace import I32
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import COPY, Activities

CELL_NS = 10_000_000
"""A tenth of the floor of hardware counters (100 ms): a lag is told finer than one of their windows."""
MOST_CELLS = 1 << 17
_MATRIX = frozenset({"gemm", "convolution", "attention"})
"""Kernel classes that the clock of the multiprocessors bounds."""


def activity(
    p: Process, activities: Activities, parts: Parts, idle: IdlePieces, scope: Scope
) -> Activity | None:
    """What one device did over its trace; `None` of a trace without wall time, or without any time."""
    if p.trace.anchor == "none" or not len(activities):
        return None
    start, end = int(activities.start_ns.min()), int(activities.end_ns.max())
    if end <= start:
        return None
    cell = CELL_NS * max(1, -(-(end - start) // (CELL_NS * MOST_CELLS)))
    edges = start + cell * np.arange(-(-(end - start) // cell) + 1, dtype=np.int64)

    def cells(when: Intervals) -> F64:
        return overlap_ns(edges[:-1], edges[1:], when).astype(np.float64)

    is_copy, is_matrix = activities.part == COPY, _is_matrix(activities)
    columns = {
        "busy": cells(join(parts.compute, parts.communication)),
        "compute": cells(parts.compute),
        "communication": cells(parts.communication),
        "copy": cells(union(activities.start_ns[is_copy], activities.end_ns[is_copy])),
        "matrix": cells(union(activities.start_ns[is_matrix], activities.end_ns[is_matrix])),
    }
    if p.is_clock_known and p.threads.timeline is not None:
        is_input = idle.cause == IDLE_CAUSES.index("input")
        columns["idle_input"] = cells(union(idle.start[is_input], idle.end[is_input]))
    steps = scope.name == "steps"
    chosen = scope.chosen
    return Activity(
        start_ns=start,
        cell_ns=cell,
        parts=columns,
        estimated_occupancy=_occupancy(p, activities),
        step_start_ns=scope.windows.start_ns[chosen] if steps else None,
        step_end_ns=scope.windows.end_ns[chosen] if steps else None,
        step_number=p.used.steps.number[chosen].astype(np.int64) if steps else None,
    )


def _is_matrix(activities: Activities) -> npt.NDArray[np.bool_]:
    wanted = np.array([cls in _MATRIX for cls in CLASSES], dtype=bool)
    return np.asarray(wanted[activities.cls], dtype=bool)


def _occupancy(p: Process, activities: Activities) -> float | None:
    """The profiler's estimates weighted by time, 0..1, over all kernels; `None` where it gave none."""
    gpu = p.trace.gpu
    if not len(gpu.row):
        return None
    position = np.full(len(p.trace.spans.ts_ns), -1, dtype=np.int64)
    position[gpu.row] = np.arange(len(gpu.row))
    at: I32 = position[activities.row].astype(np.int32)
    known = at >= 0
    value = np.where(known, gpu.occupancy[np.maximum(at, 0)], np.nan)
    known &= ~np.isnan(value)
    time = (activities.end_ns - activities.start_ns)[known].astype(np.float64)
    return float((value[known] * time).sum() / time.sum()) if time.sum() > 0 else None
