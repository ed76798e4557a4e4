"""What the host did: shares of its own time, and the accounting of a run without device work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.account import Parts
from stepscope.analyse.idle import _FROM_HOST, CAUSE, LAUNCH, PREPROCESS, PREPROCESS_SHARE, PYTHON, IdlePieces
from stepscope.model.interval import NOTHING, Intervals, gaps, intersect, join, pairs, subtract, union
from stepscope.model.report import HostShares
from stepscope.model.trace import I32, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import RANK, NameFacts
from stepscope.trace.nesting import HostRows, HostTimeline
from stepscope.trace.step import Steps

_NOT_COMPUTE = tuple(RANK[c] for c in ("profiler", "compile", "gc", "input"))


def shares(
    rows: dict[int, HostRows],
    main: int | None,
    autograd: list[int],
    is_launch_call: npt.NDArray[np.bool_],
    when: Intervals,
) -> HostShares | None:
    """Host time by kind inside `when`, as shares of it; `None` without host rows or time."""
    total = when.total_ns
    if main is None or main not in rows or total == 0:
        return None
    threads = [t for t in (main, *autograd) if t in rows]

    def share(*sets: Intervals) -> float:
        return intersect(join(*sets), when).total_ns / total

    def launches(r: HostRows) -> Intervals:
        mask = is_launch_call[r.row]
        return union(r.start_ns[mask], r.end_ns[mask], is_sorted=True)

    return HostShares(
        loader_share=share(rows[main].of_cause(RANK["input"])),
        sync_share=share(*(rows[t].of_cause(RANK["host_sync"]) for t in threads)),
        copy_call_share=share(*(rows[t].of_cause(RANK["copy_wait"]) for t in threads)),
        launch_share=share(*(launches(rows[t]) for t in threads)),
    )


@dataclass(frozen=True, slots=True)
class CpuAccount:
    """Parts and idle pieces of a host-only run."""

    parts: Parts
    idle: IdlePieces


def cpu_parts(
    rows: dict[int, HostRows],
    timeline: HostTimeline,
    main: int,
    kinds: I32,
    facts: NameFacts,
    trace: Trace,
    steps: Steps,
) -> CpuAccount:
    """Ops compute, collectives communicate, the rest is idle by the main thread's causes."""
    compute, communication = NOTHING, NOTHING
    not_compute = join(*(timeline.everywhere.get(c, NOTHING) for c in _NOT_COMPUTE))
    for r in rows.values():
        collective = facts.is_collective[r.kind, trace.spans.name_id[r.row]]
        talking = union(r.start_ns[collective], r.end_ns[collective], is_sorted=True)
        is_op = (r.kind == Kind.OP) & ~collective
        working = union(r.start_ns[is_op], r.end_ns[is_op], is_sorted=True)
        working = subtract(subtract(working, talking), join(r.of_cause(*_NOT_COMPUTE), not_compute))
        compute, communication = join(compute, working), join(communication, talking)
    exposed = subtract(communication, compute)
    low, high = timeline.start_ns, timeline.end_ns
    idle = gaps(join(compute, exposed), low, high)
    pieces = timeline.pieces(main)
    gap, piece, start, end = pairs(idle.start, idle.end, pieces.start, pieces.end)
    cause, thread = _FROM_HOST[pieces.cause[piece]].copy(), pieces.thread[piece]
    start, end, cause, thread = _preprocess(start, end, cause, thread, idle, steps)
    order = np.argsort(start, kind="stable")
    return CpuAccount(
        Parts(compute, communication, exposed, NOTHING),
        IdlePieces(
            start[order], end[order], cause[order], thread[order], np.zeros(len(order), np.int32), np.ones(len(order), bool)
        ),
    )


def _preprocess(start, end, cause, thread, idle, steps):  # type: ignore[no-untyped-def]
    """Host work at the very start of a step, before its first op, where it exceeds the threshold."""
    for s, e in zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True):
        at = int(np.searchsorted(idle.end, s, side="right"))
        if at >= len(idle) or idle.start[at] > s:
            continue
        until = min(int(idle.end[at]), e)
        inside = ((cause == LAUNCH) | (cause == PYTHON)) & (end > s) & (start < until)
        time = int((np.minimum(end, until) - np.maximum(start, s))[inside].sum())
        if time <= PREPROCESS_SHARE * (e - s):
            continue
        head = inside & (start < s)
        tail = inside & (end > until)
        extra = [(start[head], np.full(int(head.sum()), s), cause[head], thread[head])]
        extra.append((np.full(int(tail.sum()), until), end[tail], cause[tail], thread[tail]))
        start = np.where(head, s, start)
        end = np.where(tail, until, end)
        cause = np.where(inside, PREPROCESS, cause).astype(np.int32)
        start, end, cause, thread = (
            np.concatenate([column, *(x[i] for x in extra)])
            for i, column in enumerate((start, end, cause, thread))
        )
    return start, end, cause, thread


__all__ = ["CAUSE", "CpuAccount", "cpu_parts", "shares"]
