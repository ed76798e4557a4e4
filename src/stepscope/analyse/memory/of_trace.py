"""A trace's allocator events to the report's rows of memory, one a device of the process."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.analyse.memory.category import categories
from stepscope.analyse.memory.growth import growth
from stepscope.analyse.memory.series import Series, peaks_of, points, reserve, series_of
from stepscope.analyse.use import UsedSteps
from stepscope.model import report
from stepscope.model.trace import I32, Trace
from stepscope.trace.category import Kind, is_of
from stepscope.trace.host_cause import STEP
from stepscope.trace.step import owner_of

HOST_TYPE = 0
"""`Device Type` of host memory in PyTorch's enumeration; every other one is an accelerator's."""
DRIVER_CALL = re.compile(r"^(?:cuda|hip)(?P<what>Malloc|Free)(?:Async)?$")
"""Calls that allocate or free device memory; pinned host memory has calls of other names."""


def memory_rows(
    trace: Trace,
    kinds: I32,
    tracks: npt.NDArray[np.intp],
    used: UsedSteps,
    rank: int | None,
    names: Mapping[int | None, report.Device],
) -> tuple[report.Memory, ...]:
    """One row for every device of which this process's threads recorded allocations, devices first.

    `kinds` are those of rows that can be believed; `names` are the report's devices by their index.
    """
    memory = trace.memory
    pids = {trace.tracks[t].pid for t in tracks.tolist()}
    is_own = np.array([track.pid in pids for track in trace.tracks] or [False], dtype=bool)
    is_sound = is_own[memory.track_id] & (memory.ts_ns > 0)
    both = memory.device_type.astype(np.int64) << 32 | memory.device.astype(np.int64) & 0xFFFF_FFFF
    first = np.unique(both[is_sound], return_index=True)[1]
    keys = [
        (int(memory.device_type[row]), int(memory.device[row])) for row in np.flatnonzero(is_sound)[first]
    ]
    hosts, devices = [k for k in keys if k[0] == HOST_TYPE], [k for k in keys if k[0] != HOST_TYPE]
    calls = _driver_calls(trace, kinds, tracks, used) if len(devices) == 1 else None
    rows = []
    for kind, index in (*devices, *hosts[:1]):
        is_host = kind == HOST_TYPE
        chosen = is_sound & (memory.device_type == kind)
        if not is_host:
            chosen &= memory.device == index
        rows.append(
            _row(
                trace,
                kinds,
                series_of(memory, chosen, is_host=is_host),
                used,
                rank,
                report.Device(kind="cpu") if is_host else names.get(index, report.Device(index=index)),
                None if is_host else calls,
            )
        )
    return tuple(rows)


def _row(
    trace: Trace,
    kinds: I32,
    series: Series,
    used: UsedSteps,
    rank: int | None,
    device: report.Device,
    driver: report.DriverCalls | None,
) -> report.Memory:
    at = int(series.allocated.argmax())
    steps = used.steps
    per_step = [
        (report.MemoryStep(step=number, peak_bytes=peak), is_counted)
        for number, peak, is_counted, in_scope in zip(
            steps.number.tolist(),
            peaks_of(series, steps.start_ns, steps.end_ns),
            used.counted.tolist(),
            used.in_scope.tolist(),
            strict=True,
        )
        if in_scope and peak is not None
    ]
    owner = owner_of(steps, series.ts_ns[at : at + 1], np.ones(1, dtype=bool)).tolist()[0]
    inner, outer = open_at(trace, kinds, int(series.track_id[at]), int(series.ts_ns[at]))
    return report.Memory(
        source="trace",
        device=device,
        basis=series.basis,
        num_events=len(series),
        rank=rank,
        timeline=points(series),
        peak=report.MemoryPeak(
            at_ns=int(series.ts_ns[at]),
            allocated_bytes=int(series.allocated[at]),
            reserved_bytes=None if series.reserved is None else int(series.reserved[at]),
            step=int(steps.number[owner]) if owner >= 0 else None,
            op=inner,
            within=outer,
        ),
        reserve=reserve(series),
        steps=tuple(step for step, _ in per_step),
        growth=growth([step for step, is_counted in per_step if is_counted]),
        categories=() if device.kind == "cpu" else categories(trace, kinds, series, steps, at),
        driver=driver,
    )


def open_at(trace: Trace, kinds: I32, track: int, at_ns: int) -> tuple[str | None, str | None]:
    """The innermost op open on a thread at an instant, else its innermost annotation, and the outermost of
    both around it (`None` where that is it). Marks of steps are neither."""
    spans = trace.spans
    is_open = (spans.track_id == track) & (spans.ts_ns <= at_ns) & (spans.ts_ns + spans.dur_ns >= at_ns)
    row = np.flatnonzero(is_open & is_of(kinds, Kind.OP, Kind.ANNOTATION))
    # The last to start is the innermost; of two that start together the shorter one.
    row = row[np.lexsort((spans.dur_ns[row], -spans.ts_ns[row]))]
    named = [(int(kinds[each]), trace.names[spans.name_id[each]]) for each in row.tolist()]
    named = [(kind, name) for kind, name in named if not STEP.match(name)]
    if not named:
        return None, None
    inner = next((name for kind, name in named if kind == Kind.OP), named[0][1])
    outer = named[-1][1]
    return inner, None if outer == inner else outer


def _driver_calls(
    trace: Trace, kinds: I32, tracks: npt.NDArray[np.intp], used: UsedSteps
) -> report.DriverCalls | None:
    """Calls of the driver for device memory in steps that are used; `None` without calls or steps."""
    spans = trace.spans
    is_call = (kinds == Kind.CALL) & np.isin(spans.track_id, tracks)
    if used.is_empty or not is_call.any():
        return None
    found = [DRIVER_CALL.match(name) for name in trace.names]
    what = np.array([0 if m is None else 1 if m["what"] == "Malloc" else -1 for m in found] or [0])
    row = np.flatnonzero(is_call & (what[spans.name_id] != 0))
    row = row[np.argsort(spans.ts_ns[row], kind="stable")]
    owner = owner_of(used.steps, spans.ts_ns[row], np.ones(len(row), dtype=bool))
    kept = (owner >= 0) & used.in_scope[np.maximum(owner, 0)]
    owner, sign = owner[kept], what[spans.name_id[row[kept]]]
    is_retry = (np.diff(owner) == 0) & (sign[:-1] < 0) & (sign[1:] > 0)
    return report.DriverCalls(
        num_allocations=int((sign > 0).sum()),
        num_frees=int((sign < 0).sum()),
        num_retries=int(is_retry.sum()),
        steps=tuple(used.steps.number[np.unique(owner)].tolist()),
    )
