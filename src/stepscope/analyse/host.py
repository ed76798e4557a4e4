"""What the host did: shares of its own time, and the accounting of a run without device work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.account import Parts
from stepscope.analyse.idle import (
    FROM_HOST,
    LAUNCH,
    PREPROCESS_SHARE,
    PYTHON,
    IdlePieces,
    pieces,
    preprocess,
)
from stepscope.model.interval import NOTHING, Intervals, gaps, intersect, join, pairs, subtract, union
from stepscope.model.report import HostShares
from stepscope.model.trace import Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import RANK, NameFacts
from stepscope.trace.nesting import HostRows, HostTimeline
from stepscope.trace.step import Steps
from stepscope.trace.thread import Threads

NOT_COMPUTE = tuple(RANK[cause] for cause in ("profiler", "compile", "gc", "input"))
"""Ops inside such rows are not the model's work: a loader that runs transforms is still loading."""


def shares(threads: Threads, is_launch_call: npt.NDArray[np.bool_], when: Intervals) -> HostShares | None:
    """Host time by kind inside `when`, as shares of it; `None` without host rows or time."""
    total = when.total_ns
    if threads.main is None or threads.main not in threads.rows or total == 0:
        return None

    def share(time: Intervals) -> float:
        return intersect(time, when).total_ns / total

    def launches(r: HostRows) -> Intervals:
        mask = is_launch_call[r.row] & (r.cause != RANK["copy_wait"])
        return union(r.start_ns[mask], r.end_ns[mask], is_sorted=True)

    main = threads.rows[threads.main]
    return HostShares(
        # Where only calls were recorded, a loader would not have shown.
        loader_share=share(main.of_cause(RANK["input"])) if main.is_recorded else None,
        sync_share=share(threads.driving_time("host_sync")),
        copy_call_share=share(threads.driving_time("copy_wait")),
        launch_share=share(join(*(launches(threads.rows[t]) for t in threads.driving))),
    )


@dataclass(frozen=True, slots=True)
class CpuAccount:
    """Parts and idle pieces of a host-only run."""

    parts: Parts
    idle: IdlePieces


def cpu_account(
    trace: Trace, threads: Threads, timeline: HostTimeline, facts: NameFacts, steps: Steps
) -> CpuAccount:
    """Ops compute, collectives communicate, the rest is idle by the main thread's causes."""
    compute, communication = NOTHING, NOTHING
    nowhere = join(*(timeline.everywhere.get(cause, NOTHING) for cause in NOT_COMPUTE))
    for r in threads.rows.values():
        is_collective = facts.is_collective[r.kind, trace.spans.name_id[r.row]]
        talking = union(r.start_ns[is_collective], r.end_ns[is_collective], is_sorted=True)
        is_op = (r.kind == Kind.OP) & ~is_collective
        working = union(r.start_ns[is_op], r.end_ns[is_op], is_sorted=True)
        working = subtract(subtract(working, talking), join(r.of_cause(*NOT_COMPUTE), nowhere))
        compute, communication = join(compute, working), join(communication, talking)
    exposed = subtract(communication, compute)
    empty = gaps(join(compute, exposed), timeline.start_ns, timeline.end_ns)
    assert threads.main is not None
    when = timeline.pieces(threads.main)
    gap, at, start, end = pairs(empty.start, empty.end, when.start, when.end)
    walked = pieces(start, end, FROM_HOST[when.cause[at]], when.thread[at], gap, True)
    walked = _told_preprocess(walked, empty, steps)
    return CpuAccount(
        Parts(compute, communication, exposed, NOTHING),
        walked.take(np.argsort(walked.start, kind="stable")),
    )


def _told_preprocess(idle: IdlePieces, empty: Intervals, steps: Steps) -> IdlePieces:
    """Host work at the very start of a step, before its first op, is preprocessing where it is long."""
    for begin, end in zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True):
        at = int(np.searchsorted(empty.end, begin, side="right"))
        if at >= len(empty) or empty.start[at] > begin:
            continue
        until = min(int(empty.end[at]), end)
        inside = np.isin(idle.cause, (LAUNCH, PYTHON)) & (idle.end > begin) & (idle.start < until)
        mine = idle.take(inside)
        low, high = np.maximum(mine.start, begin), np.minimum(mine.end, until)
        if int((high - low).sum()) <= PREPROCESS_SHARE * (end - begin):
            continue
        idle = preprocess(idle, inside, low, high)
    return idle
