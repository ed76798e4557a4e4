"""One device of one process as a program (`program.Program`): which steps, and which of its work."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay.contract import contracted
from stepscope.analyse.replay.program import Program
from stepscope.analyse.replay.queue import NO_WORK, Queue
from stepscope.analyse.replay.record import recorded
from stepscope.analyse.use import UsedSteps
from stepscope.analyse.window import windows
from stepscope.model import report
from stepscope.model.trace import I64, Trace
from stepscope.trace.link import COMMUNICATION, Activities
from stepscope.trace.step import owner_of
from stepscope.trace.thread import Threads

MOST_STEPS = 10
"""Steps that are replayed, those in the middle of the longest run of consecutive ones: every rank of a job
has the same."""


def program_of(
    trace: Trace,
    threads: Threads,
    used: UsedSteps,
    activities: Activities,
    kind: npt.NDArray[np.int8],
    *,
    rank: int | None = None,
    status: report.RowStatus = "ok",
) -> Program | None:
    """The program of one device; `activities` are its own, `kind` the place of each in `COMPUTE_KINDS`.

    `status` is the accounting's. `None` without steps in scope or without device work in them, and for a file
    that is cut: nobody knows what is missing.
    """
    chosen = _consecutive(used)
    if not len(chosen) or not len(activities) or any(loss.is_cut for loss in trace.losses):
        return None
    steps = used.steps
    bounds = np.append(steps.start_ns[chosen], steps.end_ns[chosen[-1]])
    has = activities.launch_row >= 0
    issued = has & (activities.called_ns >= bounds[0]) & (activities.called_ns < bounds[-1])
    if not issued.any():
        return None
    device_ns = _reached(activities, has, bounds)
    unlaunched = ~has & ~activities.is_before_trace
    unlaunched &= (activities.start_ns >= device_ns[0]) & (activities.start_ns < device_ns[-1])
    mine = np.flatnonzero(issued | unlaunched)
    mine = mine[np.lexsort((activities.start_ns[mine], activities.stream[mine]))]
    earlier = (has & (activities.called_ns < bounds[0])) | activities.is_before_trace
    earlier |= ~has & (activities.start_ns < device_ns[0])
    q = _queue(activities, mine, earlier)
    owner = owner_of(steps, activities.called_ns, has)
    record = recorded(
        trace, threads, q, activities.launch_row[mine], kind[mine], steps.number[chosen], bounds, device_ns
    )
    window = windows(steps, activities, owner).kind
    return contracted(record, _table_rows(activities, mine), rank=rank, window=window, status=status)


def _consecutive(used: UsedSteps) -> npt.NDArray[np.intp]:
    """Positions of the steps to replay: of the longest run of consecutive ones in scope those in the
    middle."""
    at = np.flatnonzero(used.in_scope)
    if not len(at):
        return at
    is_new = np.append(True, (np.diff(at) > 1) | ~used.steps.follows[at[1:]])
    run = np.cumsum(is_new) - 1
    longest = at[run == np.argmax(np.bincount(run))]
    first = max(0, (len(longest) - MOST_STEPS) // 2)
    chosen: npt.NDArray[np.intp] = longest[first : first + MOST_STEPS]
    return chosen


def _reached(activities: Activities, has: npt.NDArray[np.bool_], bounds: I64) -> I64:
    """When all work issued before each bound had ended; never before the first bound."""
    before = activities.is_before_trace
    low = int(activities.end_ns[before].max(initial=int(bounds[0])))
    order = np.flatnonzero(has)[np.argsort(activities.called_ns[has], kind="stable")]
    reach = np.append(np.int64(low), np.maximum.accumulate(activities.end_ns[order]))
    found: I64 = np.maximum(reach[np.searchsorted(activities.called_ns[order], bounds, side="left")], low)
    return found


def _queue(activities: Activities, mine: npt.NDArray[np.intp], earlier: npt.NDArray[np.bool_]) -> Queue:
    streams, stream = np.unique(activities.stream[mine], return_inverse=True)
    free = np.full(len(streams), NO_WORK, dtype=np.int64)
    of = np.searchsorted(streams, activities.stream[earlier])
    known = (of < len(streams)) & (streams[np.minimum(of, len(streams) - 1)] == activities.stream[earlier])
    np.maximum.at(free, of[known], activities.end_ns[earlier][known])
    launch_row = activities.launch_row[mine]
    is_first = np.zeros(len(mine), dtype=bool)
    by_start = np.argsort(activities.start_ns[mine], kind="stable")
    is_first[by_start[np.unique(launch_row[by_start], return_index=True)[1]]] = True
    return Queue(
        stream.astype(np.int64),
        activities.start_ns[mine],
        activities.end_ns[mine],
        activities.launch_ns[mine],
        launch_row >= 0,
        activities.part[mine],
        is_first,
        free,
        streams.astype(np.int64),
    )


def _table_rows(activities: Activities, mine: npt.NDArray[np.intp]) -> I64:
    """The row of each in the table of the device's communication, -1 for other work."""
    row = np.full(len(activities), -1, dtype=np.int64)
    talks = np.flatnonzero(activities.part == COMMUNICATION)
    row[talks[np.argsort(activities.start_ns[talks], kind="stable")]] = np.arange(len(talks))
    return row[mine]
