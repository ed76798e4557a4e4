"""Kernels by name: how often, how long, how late after their launch, and whether idle times slow them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import alike, groups, percentile_99
from stepscope.model import report
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import COMPUTE, Activities

MAX_KERNELS = 50
IDLE_NS = 1_000_000
"""An idle time from which on clocks may have fallen: drivers lower them within milliseconds."""
LEAST_AFTER_IDLE = 3


def kernel_table(
    trace: Trace, activities: Activities, rank: int | None, chosen: npt.NDArray[np.bool_]
) -> tuple[report.Kernel, ...]:
    """The hottest kernels by name over the chosen activities; share of summed device time."""
    row = activities.row[chosen]
    name_id = trace.spans.name_id[row]
    duration = (activities.end_ns - activities.start_ns)[chosen]
    cls = activities.cls[chosen]
    total = int(duration.sum())
    is_after_idle = after_idle(activities)[chosen] & (activities.part[chosen] == COMPUTE)
    latency = latencies(activities)[chosen]
    table = sorted(groups(name_id), key=lambda g: -int(duration[g[1]].sum()))[:MAX_KERNELS]
    result = []
    for name, members in table:
        is_late = is_after_idle[members]
        ratio = _after_idle_ratio(trace, row[members], duration[members], is_late)
        result.append(
            report.Kernel(
                rank=rank,
                name=trace.names[name],
                class_=CLASSES[int(cls[members[0]])],
                count=len(members),
                device_ns=int(duration[members].sum()),
                share=float(duration[members].sum() / total) if total else None,
                mean_ns=int(duration[members].mean()),
                p99_ns=percentile_99(duration[members]),
                launch_latency_ns=median_known(latency[members]),
                after_idle_count=int(is_late.sum()) if ratio is not None else None,
                after_idle_ratio=ratio,
            )
        )
    return tuple(result)


def _after_idle_ratio(trace: Trace, row: I32, duration: I64, is_late: npt.NDArray[np.bool_]) -> float | None:
    """The median of the durations after idle times, each over the median of the runs with the same grid: one
    name does many sizes. `None` where too few of either are known."""
    if not LEAST_AFTER_IDLE <= int(is_late.sum()) <= len(row) - LEAST_AFTER_IDLE:
        return None
    ratio = np.ones(len(row))
    grid = np.full((len(row), 3), -1, dtype=np.int64)
    at = np.searchsorted(trace.gpu.row, row)
    known = np.flatnonzero(at < len(trace.gpu.row))
    known = known[trace.gpu.row[at[known]] == row[known]]
    grid[known] = trace.gpu.grid[at[known]]
    for _, members in groups(alike(*grid.T)[1].astype(np.int64)):
        median = np.median(duration[members]) if is_late[members].any() else 0
        if median > 0:
            ratio[members] = duration[members] / median
    return float(np.median(ratio[is_late]))


def latencies(activities: Activities) -> I64:
    """From the start of the launching call to the start of each activity; negative where no launch is known
    (or the clocks contradict each other)."""
    return np.where(activities.launch_row >= 0, activities.start_ns - activities.called_ns, -1)


def median_known(latency: I64) -> int | None:
    """The median of those that are known, `None` without any."""
    known = latency[latency >= 0]
    return int(np.median(known)) if len(known) else None


def after_idle(activities: Activities) -> npt.NDArray[np.bool_]:
    """Whether each activity begins on its device within `IDLE_NS` of the end of an idle time that long.

    Activities are sorted by (device, start). The first one of a device follows nothing that is known.
    """
    result = np.zeros(len(activities), dtype=bool)
    for device in np.unique(activities.device).tolist():
        mine = np.flatnonzero(activities.device == device)
        start, end = activities.start_ns[mine], activities.end_ns[mine]
        reach = np.maximum.accumulate(end)
        resumed = np.zeros(len(mine), dtype=bool)
        resumed[1:] = start[1:] - reach[:-1] >= IDLE_NS
        since = np.maximum.accumulate(np.where(resumed, start, np.iinfo(np.int64).min))
        result[mine] = (since > np.iinfo(np.int64).min) & (start - np.maximum(since, start[0]) < IDLE_NS)
    return result
