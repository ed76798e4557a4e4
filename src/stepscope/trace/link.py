"""Device activities and the calls that launched them.

Keys are (process, correlation) and (device, stream): a file may hold several ranks and several devices, and
both reuse small numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import ABSENT_I32, ABSENT_I64, I32, I64, Trace
from stepscope.trace.category import DEVICE_KINDS, Kind, is_of
from stepscope.trace.kernel_class import CLASSES, classify

COMPUTE, COMMUNICATION, COPY, UNEXPLAINED = 0, 1, 2, 3
"""What an activity is in the partition; UNEXPLAINED is a corrupt record: neither busy nor idle for a
known cause."""

NO_LAUNCH = -1


@dataclass(frozen=True, slots=True)
class Activities:
    """Device activities, sorted by (device, start, index). All arrays are equally long.

    `end_ns` is cut where the health check found a corrupt duration. `launch_row` is the core row of the
    launching call or -1; `called_ns` its start as recorded, `launch_ns` the same but never after the
    activity's own start; `process` the position of the launching process among the host processes, -1
    where unknown; `is_before_trace` marks work launched before recording began.
    """

    row: I32
    device: I32
    stream: I64
    start_ns: I64
    end_ns: I64
    part: I32
    cls: I32
    tensor_core: npt.NDArray[np.int8]
    launch_row: I32
    launch_ns: I64
    called_ns: I64
    process: I32
    is_before_trace: npt.NDArray[np.bool_]
    is_pageable: npt.NDArray[np.bool_]
    correlation: I64

    def __len__(self) -> int:
        return len(self.row)

    def take(self, mask: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Activities:
        """The chosen activities, in the same order."""
        columns = {name: getattr(self, name)[mask] for name in self.__slots__}
        return replace(self, **columns)


def link(
    trace: Trace,
    kinds: I32,
    process_of_track: I32,
    is_launch_call: npt.NDArray[np.bool_],
) -> Activities:
    """Find device activities and link each with its launch.

    `kinds` per span; `process_of_track` the position of each track's host process, -1 for
    others; `is_launch_call` spans whose name says that they launch.
    """
    spans = trace.spans
    row = np.flatnonzero(is_of(kinds, *DEVICE_KINDS)).astype(np.int32)
    correlation_of = np.full(len(spans.ts_ns), ABSENT_I64, dtype=np.int64)
    # Numbers begin at 1; a writer that has none to give writes 0 for all.
    known = trace.correlations.correlation != 0
    correlation_of[trace.correlations.row[known]] = trace.correlations.correlation[known]

    device, stream = _device_and_stream(trace, row)
    start = spans.ts_ns[row]
    end = start + spans.dur_ns[row]
    order = np.lexsort((spans.index[row], start, device))
    row, device, stream, start, end = row[order], device[order], stream[order], start[order], end[order]
    correlation = correlation_of[row]

    call = np.flatnonzero((kinds == Kind.CALL) & (correlation_of != ABSENT_I64))
    launch_row = _match(
        call=call,
        call_process=process_of_track[spans.track_id[call]],
        call_correlation=correlation_of[call],
        call_start=spans.ts_ns[call],
        correlation=correlation,
        owner=_numbered(t.pid for t in trace.tracks)[spans.track_id[row]],
        start=start,
    )
    has_launch = launch_row >= 0
    called_ns = np.where(has_launch, spans.ts_ns[launch_row], ABSENT_I64)
    launch_ns = np.where(has_launch, np.minimum(called_ns, start), ABSENT_I64)
    process = np.where(has_launch, process_of_track[spans.track_id[launch_row]], -1).astype(np.int32)

    is_launch = is_launch_call.copy()
    is_launch[launch_row[has_launch]] = True
    launches = call[is_launch[call]]
    first_recorded = int(correlation_of[launches].min()) if len(launches) else None
    before = np.zeros(len(row), dtype=bool)
    if first_recorded is not None:
        before = ~has_launch & (correlation != ABSENT_I64) & (correlation < first_recorded)

    part, cls, tensor_core, pageable = _classes(trace, kinds, row)
    return Activities(
        row=row,
        device=device,
        stream=stream,
        start_ns=start,
        end_ns=end,
        part=part,
        cls=cls,
        tensor_core=tensor_core,
        launch_row=launch_row,
        launch_ns=launch_ns,
        called_ns=called_ns,
        process=process,
        is_before_trace=before,
        is_pageable=pageable,
        correlation=correlation,
    )


def _numbered(labels: Iterable[int | str]) -> I64:
    """A number for each label, equal for equal ones only: to group rows by who wrote them."""
    number: dict[int | str, int] = {}
    return np.array([number.setdefault(label, len(number)) for label in labels] or [0], dtype=np.int64)


def _device_and_stream(trace: Trace, row: I32) -> tuple[I32, I64]:
    """Device and stream of device rows: their own arguments, else the track's (pid, tid)."""
    position = np.full(len(trace.spans.ts_ns), -1, dtype=np.int64)
    position[trace.gpu.row] = np.arange(len(trace.gpu.row))
    at = position[row]
    known = at >= 0
    device = np.where(known, trace.gpu.device[at] if len(trace.gpu.row) else ABSENT_I32, ABSENT_I32).astype(
        np.int32
    )
    stream = np.where(known, trace.gpu.stream[at] if len(trace.gpu.row) else ABSENT_I64, ABSENT_I64)
    track_device = _labelled(t.pid for t in trace.tracks)
    track_stream = _labelled(t.tid for t in trace.tracks)
    track = trace.spans.track_id[row]
    device = np.where(device == ABSENT_I32, track_device[track], device).astype(np.int32)
    stream = np.where(stream == ABSENT_I64, track_stream[track], stream)
    return device, stream


def _labelled(labels: Iterable[int | str]) -> I64:
    """7 for 7 and for "stream 7"; another label gets a negative number of its own."""
    labels = list(labels)
    own = _numbered(labels)
    stated = [_stated(label) for label in labels]
    return np.array(
        [-2 - int(own[i]) if n is None else n for i, n in enumerate(stated)] or [0], dtype=np.int64
    )


def _stated(label: int | str) -> int | None:
    """The number that a label is, or ends in; `None` where it has none that fits a column."""
    if isinstance(label, int):
        return label if abs(label) < 2**31 else None
    digits = label.rsplit(" ", 1)[-1]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None


def _match(
    *,
    call: npt.NDArray[np.intp],
    call_process: I32,
    call_correlation: I64,
    call_start: I64,
    correlation: I64,
    owner: I64,
    start: I64,
) -> I32:
    """The launching call of each activity, -1 where none was recorded.

    In a file of one process the correlation decides. Where several processes use the same number, all
    rows of one `owner` (the pid of the device track) go to the process whose calls precede them most
    often and most closely: merged files keep one rank's device rows under one pid.
    """
    result = np.full(len(correlation), NO_LAUNCH, dtype=np.int32)
    if not len(call) or not len(correlation):
        return result
    order = np.argsort(call_correlation, kind="stable")
    call, call_process = call[order], call_process[order]
    call_correlation, call_start = call_correlation[order], call_start[order]
    low = np.searchsorted(call_correlation, correlation, side="left")
    high = np.searchsorted(call_correlation, correlation, side="right")
    count = np.where(correlation == ABSENT_I64, 0, high - low)
    one = count == 1
    result[one] = call[low[one]]
    several = np.flatnonzero(count > 1)
    if len(several) == 0:
        return result
    many_processes = len(np.unique(call_process)) > 1
    if not many_processes:
        # One process wrote a correlation twice: the first call is the launch, later rows are its wrappers.
        result[several] = call[low[several]]
        return result
    # Delay of each candidate; a call after the activity's start is a bad one.
    a = np.repeat(several, count[several])
    offset = np.cumsum(count[several]) - count[several]
    c = np.arange(len(a)) - np.repeat(offset - low[several], count[several])
    delay = start[a] - call_start[c]
    badness = np.where(delay >= 0, np.minimum(delay, 10**9), 10**9 - np.maximum(delay, -(10**12)) // 1000)
    # Mean badness of every (owner, process) that meet; the best process of each owner.
    _, owner_at = np.unique(owner[a], return_inverse=True)
    processes, process_at = np.unique(call_process[c], return_inverse=True)
    cell = owner_at * len(processes) + process_at
    met, cell_at = np.unique(cell, return_inverse=True)
    cost = np.bincount(cell_at, weights=badness) / np.bincount(cell_at)
    order = np.lexsort((cost, met // len(processes)))
    _, head = np.unique(met[order] // len(processes), return_index=True)
    wanted = processes[met[order][head] % len(processes)][owner_at]
    fits = call_process[c] == wanted
    result[a[fits][::-1]] = call[c[fits][::-1]]
    return result


def _classes(
    trace: Trace, kinds: I32, row: I32
) -> tuple[I32, I32, npt.NDArray[np.int8], npt.NDArray[np.bool_]]:
    """Partition part, class, tensor core and pageability of device rows, each distinct name judged once.

    What the framework recorded of a collective on the kernel wins over its name, and so does an enclosing
    collective op for names that say nothing (an all-to-all may run as plain kernels).
    """
    name_id = trace.spans.name_id[row]
    part = np.zeros(len(row), dtype=np.int32)
    cls = np.full(len(row), CLASSES.index("other"), dtype=np.int32)
    tensor = np.full(len(row), -1, dtype=np.int8)
    pageable = np.zeros(len(row), dtype=bool)
    names, inverse = np.unique(name_id, return_inverse=True)
    per_name = [classify(trace.names[n]) for n in names.tolist()]
    cls_of = np.array([CLASSES.index(c) for c, _ in per_name] or [0], dtype=np.int32)
    tensor_of = np.array([-1 if t is None else int(t) for _, t in per_name] or [-1], dtype=np.int8)
    pageable_of = np.array(["pageable" in trace.names[n].lower() for n in names.tolist()] or [False])
    if len(row):
        cls, tensor, pageable = cls_of[inverse], tensor_of[inverse], pageable_of[inverse]
    kind = kinds[row]
    is_kernel = kind == Kind.KERNEL
    recorded = np.zeros(len(trace.spans.ts_ns), dtype=bool)
    named = trace.comms.collective_id >= 0
    recorded[trace.comms.row[named]] = True
    cls = np.where(is_kernel & recorded[row], CLASSES.index("communication"), cls).astype(np.int32)
    cls = np.where(kind == Kind.SET, CLASSES.index("set"), cls)
    is_peer_copy = (kind == Kind.COPY) & (cls == CLASSES.index("communication"))
    cls = np.where((kind == Kind.COPY) & ~is_peer_copy, CLASSES.index("copy"), cls).astype(np.int32)
    part[cls == CLASSES.index("communication")] = COMMUNICATION
    part[~is_kernel & ~is_peer_copy] = COPY
    return part, cls, tensor, pageable & (kind == Kind.COPY)
