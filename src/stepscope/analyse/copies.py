"""Which way the copies go that hold up the device: the cure differs."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.trace import I32, Trace
from stepscope.trace.link import COPY, Activities

# As CUPTI (`Memcpy HtoD (Pageable -> Device)`) and rocprof (`CopyHostToDevice`) write them. What goes neither
# way stays on the device, or goes from one device to another.
_WAYS = (
    ("to_device_copy_share", re.compile(r"Hto[DA]\b|HostTo(Device|Array)")),
    ("from_device_copy_share", re.compile(r"[DA]toH\b|(Device|Array)ToHost")),
)
HOST_COPY = re.compile("|".join(pattern.pattern for _, pattern in _WAYS))
"""A copy over the bus between host and device."""


_MEMORY = re.compile("pageable|pinned", re.IGNORECASE)


def pageable(trace: Trace, activities: Activities) -> dict[str, float]:
    """`pageable_copy_share`: copies from or to pageable memory, 0..1 of copy time; empty without copies, and
    where no name says what memory a copy is from (ROCm's do not)."""
    which = activities.part == COPY
    time = (activities.end_ns - activities.start_ns)[which]
    names = np.unique(trace.spans.name_id[activities.row[which]]).tolist()
    if not time.sum() or not any(_MEMORY.search(trace.names[name]) for name in names):
        return {}
    return {"pageable_copy_share": float(time[activities.is_pageable[which]].sum() / time.sum())}


def ways(
    trace: Trace,
    activities: Activities,
    exposed: Intervals,
    inside: Intervals,
    is_blocking: npt.NDArray[np.bool_],
    copy_wait_ns: int,
) -> dict[str, float]:
    """What copies cost in the windows `inside`, as shares, 0..1. `pageable_upload_share`: of all, copies to
    the device from pageable memory, absent where no name tells the memory. Of what is left without those,
    `to_device_copy_share`, `from_device_copy_share`, `within_device_copy_share`, absent where nothing is
    left. Empty where copies cost nothing. `pageable_upload_bytes` is the mean size of those uploads, each
    weighted by what it costs; absent where there is none or no size was recorded.

    Their cost is the time that nothing hides (`exposed`) and the idle time lost in blocking copy calls
    (`copy_wait_ns`), which is shared out by how long each call blocked. `is_blocking` is per activity, of its
    launching call.
    """
    which = np.flatnonzero(activities.part == COPY)
    start, end, launch = activities.start_ns[which], activities.end_ns[which], activities.launch_row[which]
    time = overlap_ns(start, end, exposed).astype(np.float64)
    calls = np.flatnonzero(is_blocking[which] & (launch >= 0))
    begun = trace.spans.ts_ns[launch[calls]]
    blocked = overlap_ns(begun, begun + trace.spans.dur_ns[launch[calls]], inside)
    if blocked.sum() > 0:
        time[calls] += blocked * (copy_wait_ns / int(blocked.sum()))
    total = float(time.sum())
    if total <= 0:
        return {}
    names, inverse = np.unique(trace.spans.name_id[activities.row[which]], return_inverse=True)
    told = [trace.names[n] for n in names.tolist()]
    numbers: dict[str, float] = {}
    is_upload = np.zeros(len(which), dtype=bool)
    if any(_MEMORY.search(name) for name in told):
        is_upload = pageable_uploads(trace, activities)[which]
        numbers["pageable_upload_share"] = float(time[is_upload].sum() / total)
        numbers |= _upload_bytes(trace, activities.row[which][is_upload], time[is_upload])
    rest = float(time[~is_upload].sum())
    if rest > 0:
        by_name = np.bincount(inverse[~is_upload], weights=time[~is_upload], minlength=len(told))
        shares = {
            way: float(sum(ns for name, ns in zip(told, by_name, strict=True) if pattern.search(name)) / rest)
            for way, pattern in _WAYS
        }
        numbers |= {**shares, "within_device_copy_share": max(0.0, 1.0 - sum(shares.values()))}
    return numbers


def pageable_uploads(trace: Trace, activities: Activities) -> npt.NDArray[np.bool_]:
    """Which activities are copies to the device from pageable memory, as their names say."""
    names, inverse = np.unique(trace.spans.name_id[activities.row], return_inverse=True)
    is_up = np.array([_WAYS[0][1].search(trace.names[n]) is not None for n in names.tolist()], dtype=bool)
    found: npt.NDArray[np.bool_] = is_up[inverse] & activities.is_pageable & (activities.part == COPY)
    return found


def _upload_bytes(trace: Trace, row: I32, cost: npt.NDArray[np.float64]) -> dict[str, float]:
    """Mean recorded size of copies, weighted by their cost; empty where there is none."""
    at = np.searchsorted(trace.gpu.row, row)
    known = (at < len(trace.gpu.row)) & (cost > 0)
    known[known] = trace.gpu.row[at[known]] == row[known]
    known[known] = trace.gpu.bytes[at[known]] >= 0
    if not known.any():
        return {}
    return {"pageable_upload_bytes": float(np.average(trace.gpu.bytes[at[known]], weights=cost[known]))}


LARGE_COPY_BYTES = 1_000_000
"""Below a megabyte the call, and not the bus, sets the time of a copy."""
_PINNED = re.compile(r"pinned", re.IGNORECASE)


def pinned_rate(trace: Trace, activities: Activities, bus_bytes_per_second: float | None) -> dict[str, float]:
    """`pinned_copy_bus_share`: the fastest tenth of large copies over the bus from or to pinned memory,
    against one direction of it, 0..1; `pinned_copy_bytes_per_second` the same rate. Empty without such
    copies or an unknown bus.

    The fastest ones: copies that share the bus with others are slower, and say nothing of it.
    """
    which = np.flatnonzero(activities.part == COPY)
    if not len(which) or bus_bytes_per_second is None or not len(trace.gpu.row):
        return {}
    named = np.array([bool(_PINNED.search(n)) and bool(HOST_COPY.search(n)) for n in trace.names])
    row = activities.row[which]
    at = np.minimum(np.searchsorted(trace.gpu.row, row), len(trace.gpu.row) - 1)
    size = np.where(trace.gpu.row[at] == row, trace.gpu.bytes[at], 0)
    time = (activities.end_ns - activities.start_ns)[which]
    chosen = named[trace.spans.name_id[row]] & (size >= LARGE_COPY_BYTES) & (time > 0)
    if chosen.sum() < 3:
        return {}
    rate = float(np.quantile(size[chosen] / (time[chosen] / 1e9), 0.9))
    return {"pinned_copy_bus_share": rate / bus_bytes_per_second, "pinned_copy_bytes_per_second": rate}
