"""One device as its peers see it: the small tables that the join of ranks works on.

Everything here is measured on the rank's own clock. What a collective's segment consists of is the same
partition as the accounting's, so that the reason of a lateness is in the words of the accounting.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepscope.analyse.account import Parts, WindowSums, window_sums, without_causes
from stepscope.analyse.collective import Collectives, collective_kind, element_bytes
from stepscope.analyse.idle import IdlePieces
from stepscope.analyse.use import UsedSteps
from stepscope.analyse.window import Windows
from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.peer import MAP_PARTS, SEGMENT_PARTS, CollectiveTable, KernelTable, StepTable, Strip
from stepscope.model.trace import ABSENT_I64, I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import NameFacts
from stepscope.trace.link import COMMUNICATION, COMPUTE, Activities
from stepscope.trace.nesting import HostRows

MOST_KERNELS = 256
"""Kernels by shape that are held against those of the peers: the longest in sum."""
STRIP_CELLS = 1_200
"""Cells of a trace's strip: enough for the page's map after the clocks have moved it."""


class Texts:
    """Texts in the order in which they were first asked for."""

    def __init__(self) -> None:
        self._place: dict[str, int] = {}

    def id(self, text: str | None) -> int:
        """The place of a text, -1 for none."""
        return -1 if text is None else self._place.setdefault(text, len(self._place))

    def all(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(self._place)


def step_table(used: UsedSteps, windows: Windows) -> StepTable:
    """The steps in scope, with the windows that the accounting gives them."""
    mask, steps = used.in_scope, used.steps
    return StepTable(
        number=steps.number[mask],
        start_ns=steps.start_ns[mask],
        end_ns=steps.end_ns[mask],
        window_start_ns=windows.start_ns[mask],
        window_end_ns=windows.end_ns[mask],
        is_counted=used.counted[mask],
    )


def no_steps() -> StepTable:
    """Of a trace without steps in scope."""
    none = np.empty(0, dtype=np.int64)
    return StepTable(none, none, none, none, none, np.empty(0, dtype=bool))


def collective_table(
    trace: Trace,
    activities: Activities,
    found: Collectives,
    parts: Parts,
    idle: IdlePieces,
    steps: I64,
    first_ns: int,
    texts: Texts,
    *,
    is_withheld: bool,
) -> CollectiveTable:
    """Communication of one device, by start.

    `steps` is the number of the step that issued each activity, -1 for none; `first_ns` when the time before
    the first collective begins.
    """
    order = np.argsort(found.start_ns, kind="stable")
    at, record = found.at[order], found.record[order]
    start, end = found.start_ns[order], found.end_ns[order]
    comms = trace.comms

    def recorded(column: npt.NDArray[np.integer], absent: int) -> I64:
        if not len(comms.row):
            return np.full(len(record), absent, dtype=np.int64)
        return np.where(record >= 0, column[np.maximum(record, 0)].astype(np.int64), absent)

    def text_ids(column: I32) -> I32:
        ids = recorded(column, -1).tolist()
        return np.array([texts.id(trace.texts[i]) if i >= 0 else -1 for i in ids], dtype=np.int32)

    low, high = segments(start, end, first_ns)
    return CollectiveTable(
        kind_id=np.array([texts.id(found.kind[i]) for i in order.tolist()], dtype=np.int32),
        group_id=text_ids(comms.group_id),
        ranks_id=text_ids(comms.ranks_id),
        sequence=recorded(comms.sequence, ABSENT_I64),
        bytes=found.bytes[order],
        dtype_id=text_ids(comms.dtype_id),
        group_size=np.maximum(recorded(comms.group_size, 0), 0),
        src=recorded(comms.src_rank, ABSENT_I64),
        dst=recorded(comms.dst_rank, ABSENT_I64),
        device=activities.device[at],
        stream=activities.stream[at],
        start_ns=start,
        end_ns=end,
        step=steps[at],
        exposed_ns=overlap_ns(start, end, parts.communication_exposed),
        segment=_split(low, high, parts, idle, is_withheld=is_withheld),
        num_kernels=_begun(low, high, activities.start_ns[activities.part == COMPUTE]),
    )


def host_collective_table(
    trace: Trace,
    rows: Sequence[HostRows],
    facts: NameFacts,
    parts: Parts,
    idle: IdlePieces,
    step_of: tuple[I64, I64, I64],
    first_ns: int,
    texts: Texts,
) -> CollectiveTable:
    """Communication of a run without a device: its host rows that carry a collective out, by start.

    Rows inside another are that one's own steps. `step_of` are number, start and end of the steps.
    """
    starts, ends, names, tracks, ops = [], [], [], [], []
    backend = np.array([_is_backend(name) for name in trace.names] or [False])
    talking = [facts.is_collective[each.kind, trace.spans.name_id[each.row]] for each in rows]
    # The row of the op only hands it on, on another thread: the backend's own row spans it to its end.
    carried = [
        talk & backend[trace.spans.name_id[each.row]] for each, talk in zip(rows, talking, strict=True)
    ]
    if any(each.any() for each in carried):
        talking = carried
    for each, is_talk in zip(rows, talking, strict=True):
        starts.append(each.start_ns[is_talk])
        ends.append(each.end_ns[is_talk])
        names.append(trace.spans.name_id[each.row[is_talk]])
        tracks.append(trace.spans.track_id[each.row[is_talk]])
        ops.append(each.row[is_talk])
    start, end = np.concatenate(starts), np.concatenate(ends)
    name, track = np.concatenate(names), np.concatenate(tracks)
    order = np.lexsort((-end, start))
    start, end, name, track = start[order], end[order], name[order], track[order]
    number, step_start, step_end = step_of
    at = np.searchsorted(step_start, start, side="right") - 1
    is_inside = (at >= 0) & (start < step_end[np.maximum(at, 0)]) if len(step_start) else at >= 0
    low, high = segments(start, end, first_ns)
    num = len(start)
    none = np.full(num, -1, dtype=np.int32)
    absent = np.full(num, ABSENT_I64, dtype=np.int64)
    nothing = np.zeros(num, dtype=np.int64)
    row = np.concatenate(ops)[order] if num else np.empty(0, dtype=np.int32)
    return CollectiveTable(
        kind_id=np.array([texts.id(collective_kind(trace.names[n])) for n in name.tolist()], dtype=np.int32),
        group_id=none,
        ranks_id=none,
        sequence=absent,
        bytes=_op_bytes(trace, row),
        dtype_id=none,
        group_size=nothing,
        src=absent,
        dst=absent,
        device=none,
        stream=track.astype(np.int64),
        start_ns=start,
        end_ns=end,
        step=np.where(is_inside, number[np.maximum(at, 0)], -1) if len(number) else absent * 0 - 1,
        exposed_ns=overlap_ns(start, end, parts.communication_exposed),
        segment=_split(low, high, parts, idle, is_withheld=False),
        num_kernels=nothing,
    )


def _is_backend(name: str) -> bool:
    return name.startswith(("gloo:", "mpi:", "ucc:"))


def _op_bytes(trace: Trace, row: npt.NDArray[np.integer]) -> I64:
    """Message size by the recorded shapes and types of a host row, 0 where they do not tell."""
    import json

    ops = trace.ops
    found = np.zeros(len(row), dtype=np.int64)
    for place, (each, at) in enumerate(
        zip(row.tolist(), np.searchsorted(ops.row, row).tolist(), strict=True)
    ):
        if at >= len(ops.row) or ops.row[at] != each or ops.dims_id[at] < 0 or ops.types_id[at] < 0:
            continue
        try:
            dims = json.loads(trace.texts[ops.dims_id[at]])
            types = json.loads(trace.texts[ops.types_id[at]])
            width = element_bytes(str(types[0][0] if isinstance(types[0], list) else types[0]))
            shape = dims[0]
            while shape and isinstance(shape[0], list):
                shape = shape[0]
            found[place] = int(np.prod(shape)) * width if width and shape else 0
        except (ValueError, TypeError, IndexError, KeyError, RecursionError):
            continue
    return found


def segments(start_ns: I64, end_ns: I64, first_ns: int) -> tuple[I64, I64]:
    """(from, to) of the time before each collective: since the end of every one that began before it.

    Empty (from = to) where one that began before is still running.
    """
    if not len(start_ns):
        return start_ns, start_ns
    reach = np.append(np.int64(first_ns), np.maximum.accumulate(end_ns)[:-1])
    return np.minimum(reach, start_ns), start_ns


def _split(low: I64, high: I64, parts: Parts, idle: IdlePieces, *, is_withheld: bool) -> I64:
    """(rows, SEGMENT_PARTS) of these disjoint stretches of time."""
    if not len(low):
        return np.zeros((0, len(SEGMENT_PARTS)), dtype=np.int64)
    sums: WindowSums = window_sums(low, high, parts, idle)
    if is_withheld:
        sums = without_causes(sums)
    return np.column_stack([sums.compute, sums.communication_exposed, sums.copy_exposed, sums.idle])


def _begun(low: I64, high: I64, start_ns: I64) -> I64:
    """How many of these began in each stretch."""
    begun = np.sort(start_ns)
    return (np.searchsorted(begun, high) - np.searchsorted(begun, low)).astype(np.int64)


LEAST_RUNS = 3
"""A kernel must run so often both ways before its durations are held against each other."""
BESIDE = 0.9
"""Beside communication for so much of its time, or for none of it."""


def beside_communication_ns(
    trace: Trace, kinds: I32, activities: Activities, communication: Intervals, inside: Intervals
) -> int | None:
    """By how much kernels run longer beside communication than the same kernels (name, grid, block) run
    alone, summed inside a set: their durations against the median of those that ran alone. `None` where no
    kernel ran both ways often enough; kernels that run faster count against it.
    """
    is_mine = (kinds[activities.row] == Kind.KERNEL) & (activities.part == COMPUTE)
    at = np.flatnonzero(is_mine)
    start, end = activities.start_ns[at], activities.end_ns[at]
    duration = end - start
    beside = overlap_ns(start, end, communication)
    is_beside = beside >= BESIDE * np.maximum(duration, 1)
    is_alone = beside == 0
    if is_beside.sum() < LEAST_RUNS or is_alone.sum() < LEAST_RUNS:
        return None
    _, which = np.unique(_mixed(trace, activities.row[at]), return_inverse=True)
    counts = np.bincount(which[is_beside], minlength=int(which.max()) + 1)
    alone = np.bincount(which[is_alone], minlength=len(counts))
    usable = (counts >= LEAST_RUNS) & (alone >= LEAST_RUNS)
    if not usable.any():
        return None
    mine = np.flatnonzero(is_alone & usable[which])
    order = mine[np.lexsort((duration[mine], which[mine]))]
    keys, first, number = np.unique(which[order], return_index=True, return_counts=True)
    median = np.zeros(len(counts), dtype=np.int64)
    median[keys] = duration[order][first + (number - 1) // 2]
    is_inside = overlap_ns(start, end, inside) > 0
    chosen = is_beside & usable[which] & is_inside
    return max(0, int((duration[chosen] - median[which[chosen]]).sum()))


def _mixed(trace: Trace, row: I32) -> npt.NDArray[np.uint64]:
    """A number for each kernel, equal for equal name, grid and block: collisions are as likely as 2^-64."""
    gpu = trace.gpu
    mixed = trace.spans.name_id[row].astype(np.uint64)
    if not len(gpu.row):
        return mixed
    at = np.minimum(np.searchsorted(gpu.row, row), len(gpu.row) - 1)
    for column in (*gpu.grid[at].T, *gpu.block[at].T):
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _shape(trace: Trace, row: int) -> list[int]:
    """Grid and block of a kernel; empty where they were not recorded."""
    gpu = trace.gpu
    at = int(np.searchsorted(gpu.row, row))
    if at >= len(gpu.row) or gpu.row[at] != row:
        return []
    return [*gpu.grid[at].tolist(), *gpu.block[at].tolist()]


def kernel_table(
    trace: Trace, kinds: I32, activities: Activities, chosen: npt.NDArray[np.bool_], texts: Texts
) -> KernelTable:
    """Compute kernels of the chosen activities by name, grid and block."""
    is_mine = chosen & (kinds[activities.row] == Kind.KERNEL) & (activities.part != COMMUNICATION)
    row = activities.row[is_mine]
    if not len(row):
        return no_kernels()
    mixed = _mixed(trace, row)
    _, first, which, count = np.unique(mixed, return_index=True, return_inverse=True, return_counts=True)
    total = np.bincount(which, weights=(activities.end_ns - activities.start_ns)[is_mine])
    most = np.argsort(-total, kind="stable")[:MOST_KERNELS]
    names = [trace.names[trace.spans.name_id[row[first[i]]]] for i in most.tolist()]
    told = [f"{n}|{_shape(trace, int(row[first[i]]))}" for n, i in zip(names, most.tolist(), strict=True)]
    return KernelTable(
        key=np.array([_key(text) for text in told], dtype=np.int64),
        name_id=np.array([texts.id(n) for n in names], dtype=np.int32),
        count=count[most].astype(np.int64),
        total_ns=total[most].astype(np.int64),
    )


def no_kernels() -> KernelTable:
    """Of a run without a device."""
    none = np.empty(0, dtype=np.int64)
    return KernelTable(none, np.empty(0, dtype=np.int32), none, none)


def _key(text: str) -> int:
    """A number that is the same in every process."""
    return (
        int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest(), "big") >> 1
    )


def strip(start_ns: int, end_ns: int, parts: Parts, idle: IdlePieces, *, is_withheld: bool) -> Strip | None:
    """What took most of each cell of [start, end), `None` where there is no time."""
    if end_ns <= start_ns:
        return None
    cell = max(1, -(-(end_ns - start_ns) // STRIP_CELLS))
    edges = np.arange(start_ns, end_ns + cell, cell, dtype=np.int64)
    edges[-1] = min(int(edges[-1]), end_ns)
    low, high = edges[:-1], edges[1:]
    keep = high > low
    split = _split(low[keep], high[keep], parts, idle, is_withheld=is_withheld)
    # In the order of the segment's parts; `wait` is known only beside the peers.
    place = np.array([MAP_PARTS.index(part) for part in SEGMENT_PARTS], dtype=np.int8)
    return Strip(start_ns, cell, place[np.argmax(split, axis=1)])
