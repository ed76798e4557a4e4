"""Why the device idled: every nanosecond of every gap gets one cause.

Gaps are cut into pieces along the responsible host threads, lost run-ahead is charged, then preprocessing is
told from other host work. Definitions and order: docs/reference/accounting.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import Intervals, intersect, pairs, union
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.trace import I32, I64
from stepscope.trace.host_cause import ORDER, PHASES, RANK
from stepscope.trace.link import UNEXPLAINED, Activities
from stepscope.trace.nesting import HostTimeline
from stepscope.trace.step import Steps

CAUSE = {name: i for i, name in enumerate(IDLE_CAUSES)}
"""Idle cause -> its position in the report's order."""
_FROM_HOST = np.array([CAUSE[name] for name in ORDER], dtype=np.int32)
QUEUED, UNKNOWN, PREPROCESS = CAUSE["queued"], CAUSE["unknown"], CAUSE["preprocess"]
LAUNCH, PYTHON, COPY_WAIT, HOST_SYNC = CAUSE["launch"], CAUSE["python"], CAUSE["copy_wait"], CAUSE["host_sync"]
PREPROCESS_SHARE = 0.05
"""Host work in front of a step's first activity is preprocessing from this share of the step on."""


@dataclass(frozen=True, slots=True)
class IdlePieces:
    """Idle time of one device: sorted, disjoint pieces.

    `cause` indexes IDLE_CAUSES; `thread` is the responsible track, -1 where no host thread answers; `gap` the gap's
    position; `is_host_late` tells gaps whose next work had not been issued when they began.
    """

    start: I64
    end: I64
    cause: I32
    thread: I32
    gap: I32
    is_host_late: npt.NDArray[np.bool_]

    def within(self, start_ns: I64, end_ns: I64) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], I64]:
        """(window, piece, nanoseconds) of every overlap with any windows."""
        window, piece, low, high = pairs(start_ns, end_ns, self.start, self.end)
        return window, piece, high - low


@dataclass(frozen=True, slots=True)
class _Gaps:
    """Gaps of one device and what ended each: position of the next activity, -1 where there is none."""

    start: I64
    end: I64
    next: I64


def find_gaps(activities: Activities, busy: Intervals, start_ns: int, end_ns: int) -> _Gaps:
    """Longest intervals of [start_ns, end_ns) without any activity.

    Of several activities that end a gap together, one with a known launch, then the earliest launch, then the lowest
    index counts.
    """
    low = np.append(np.int64(start_ns), busy.end)
    high = np.append(busy.start, np.int64(end_ns))
    keep = high > low
    low, high = low[keep], high[keep]
    # Work too short for the clock still ends a gap: cut at every activity of no length.
    instant = np.unique(activities.start_ns[activities.end_ns == activities.start_ns])
    at, _, cut, _ = pairs(low, high, instant, instant + 1)
    inner = cut > low[at]
    low, high = np.sort(np.append(low, cut[inner])), np.sort(np.append(high, cut[inner]))
    first = np.searchsorted(activities.start_ns, high, side="left")
    stop = np.searchsorted(activities.start_ns, high, side="right")
    chosen = np.where(stop > first, first, -1).astype(np.int64)
    for i in np.flatnonzero(stop - first > 1).tolist():
        group = np.arange(first[i], stop[i])
        has = activities.launch_row[group] >= 0
        order = np.lexsort((activities.row[group], activities.launch_ns[group], ~has))
        chosen[i] = group[order[0]]
    return _Gaps(low, high, chosen)


def idle_pieces(
    activities: Activities,
    timeline: HostTimeline | None,
    thread_of_launch: I32,
    is_blocking_copy: npt.NDArray[np.bool_],
    steps: Steps,
    owner: I64,
    start_ns: int,
    end_ns: int,
) -> IdlePieces:
    """The idle time of one device in [start_ns, end_ns), cut by cause.

    `thread_of_launch`: track of each activity's launching call, -1 without; `is_blocking_copy` of that call; `owner` the
    step position of each activity, -1 for none. `timeline` is `None` where no host rows were recorded.
    """
    busy = union(activities.start_ns, activities.end_ns)
    explained = activities.part != UNEXPLAINED
    known_busy = union(activities.start_ns[explained], activities.end_ns[explained])
    gaps = find_gaps(activities, busy, start_ns, end_ns)
    out: list[tuple[I64, I64, I32, I32, I32, npt.NDArray[np.bool_]]] = []

    def emit(start: I64, end: I64, cause: int | I32, thread: int | I32, gap: I64, late: bool) -> None:
        n = len(start)
        if n:
            out.append(
                (
                    start,
                    end,
                    np.broadcast_to(np.asarray(cause, dtype=np.int32), (n,)),
                    np.broadcast_to(np.asarray(thread, dtype=np.int32), (n,)),
                    gap.astype(np.int32),
                    np.full(n, late),
                )
            )

    # Time inside a corrupt record is idle for an unknown cause.
    if not explained.all():
        from stepscope.model.interval import subtract

        dark = subtract(union(activities.start_ns[~explained], activities.end_ns[~explained]), known_busy)
        emit(dark.start, dark.end, UNKNOWN, -1, np.full(len(dark), -1), False)

    has_next = gaps.next >= 0
    at = np.maximum(gaps.next, 0)
    if len(activities):
        has_launch = has_next & (activities.launch_row[at] >= 0)
        launch = np.where(has_launch, activities.launch_ns[at], 0)
        thread = np.where(has_launch, thread_of_launch[at], -1)
    else:
        has_launch = np.zeros(len(gaps.start), dtype=bool)
        launch, thread = np.zeros(len(gaps.start), np.int64), np.full(len(gaps.start), -1)
    trailing = ~has_next
    if timeline is not None and timeline.main is not None:
        launch = np.where(trailing, gaps.end, launch)
        thread = np.where(trailing, timeline.main, thread)
        can_walk = has_launch | trailing
    else:
        can_walk = has_launch
    index = np.arange(len(gaps.start))
    is_queued = has_launch & (launch <= gaps.start)
    is_unknown = ~can_walk
    emit(gaps.start[is_queued], gaps.end[is_queued], QUEUED, -1, index[is_queued], False)
    emit(gaps.start[is_unknown], gaps.end[is_unknown], UNKNOWN, -1, index[is_unknown], False)

    late = index[can_walk & ~is_queued]
    if len(late) and timeline is not None:
        _host_late(
            gaps, late, launch, thread, at, activities, timeline, is_blocking_copy, steps, owner, trailing, emit
        )
    if not out:
        empty = np.empty(0, np.int64)
        return IdlePieces(empty, empty, *(np.empty(0, np.int32) for _ in range(3)), np.empty(0, bool))
    columns = [np.concatenate(c) for c in zip(*out, strict=True)]
    order = np.argsort(columns[0], kind="stable")
    return IdlePieces(*(c[order] for c in columns))


def _host_late(gaps, late, launch, thread, at, activities, timeline, is_blocking_copy, steps, owner, trailing, emit):  # type: ignore[no-untyped-def]
    """Gaps whose next work had not been issued when they began."""
    g0, g1, called, who = gaps.start[late], gaps.end[late], launch[late], thread[late]
    next_ = at[late]
    # Where each gap's lost run-ahead begins: the start of the last activity issued before.
    ahead_from = _last_issued_start(activities, called, g0)
    first_of_step = _first_of_step(activities, owner, len(steps))
    for t in np.unique(who).tolist():
        mine = np.flatnonzero(who == t)
        pieces = timeline.pieces(int(t))
        gap, piece, low, high = pairs(g0[mine], called[mine], pieces.start, pieces.end)
        host_cause = pieces.cause[piece]
        cause = _FROM_HOST[host_cause].copy()
        holder = pieces.thread[piece]
        which = mine[gap]

        # Lost run-ahead: blocked time before the gap takes the latest pieces that have no better reason.
        blocked_kind = (pieces.cause == RANK["host_sync"]) | (pieces.cause == RANK["copy_wait"])
        blocked_at = np.flatnonzero(blocked_kind)
        b_gap, b_piece, b_low, b_high = pairs(
            ahead_from[mine], g0[mine], pieces.start[blocked_at], pieces.end[blocked_at]
        )
        low, high, cause, holder, which = _charge_run_ahead(
            low, high, cause, holder, which, mine[b_gap], b_low, b_high, _FROM_HOST[pieces.cause[blocked_at][b_piece]]
        )

        # Preprocessing in front of a step's first activity.
        if len(steps):
            low, high, cause, holder, which = _preprocess(
                low, high, cause, holder, which, next_, trailing[late], first_of_step, owner, steps
            )
        emit(low, high, cause, holder, late[which], True)

        # From the call to the work's start.
        tail_cause = np.where(trailing[late][mine], UNKNOWN, np.where(is_blocking_copy[next_[mine]], COPY_WAIT, LAUNCH))
        rest = Intervals(called[mine], g1[mine])
        keep = rest.end > rest.start
        tail = Intervals(rest.start[keep], rest.end[keep])
        tail_gap, tail_cause = late[mine][keep], tail_cause[keep].astype(np.int32)
        for phase in PHASES:
            rows = timeline.rows[int(t)]
            when = rows.of_cause(RANK[phase])
            if not len(when) or not len(tail):
                continue
            covered, _, p_low, p_high = pairs(tail.start, tail.end, when.start, when.end)
            emit(p_low, p_high, CAUSE[phase], int(t), tail_gap[covered], True)
            tail, tail_gap, tail_cause = _cut(tail, tail_gap, tail_cause, when)
        emit(tail.start, tail.end, tail_cause, int(t), tail_gap, True)


def _cut(tail: Intervals, gap: I64, cause: I32, when: Intervals) -> tuple[Intervals, I64, I32]:
    """What of the labelled, disjoint tail is not in `when`."""
    low, high = int(min(tail.start.min(), when.start[0])), int(max(tail.end.max(), when.end[-1]))
    holes = Intervals(np.append(np.int64(low), when.end), np.append(when.start, np.int64(high)))
    keep = holes.end > holes.start
    at, _, start, end = pairs(tail.start, tail.end, holes.start[keep], holes.end[keep])
    return Intervals(start, end), gap[at], cause[at]


def _last_issued_start(activities: Activities, called: I64, g0: I64) -> I64:
    """Device start of the activity issued last before each call, never after g0; g0 where there is none."""
    has = np.flatnonzero(activities.launch_row >= 0)
    if not len(has):
        return g0
    order = has[np.lexsort((activities.row[has], activities.launch_ns[has]))]
    before = np.searchsorted(activities.launch_ns[order], called, side="left") - 1
    start = activities.start_ns[order][np.maximum(before, 0)]
    return np.where(before >= 0, np.minimum(start, g0), g0)


def _first_of_step(activities: Activities, owner: I64, num_steps: int) -> I64:
    """Position of the first activity (by start, then event index) that each step owns, -1 where it owns none."""
    first = np.full(num_steps, -1, dtype=np.int64)
    owned = np.flatnonzero(owner >= 0)
    # Activities are sorted by start, then index: writing backwards leaves the first.
    first[owner[owned][::-1]] = owned[::-1]
    return first


def _charge_run_ahead(low, high, cause, holder, gap, b_gap, b_low, b_high, b_cause):  # type: ignore[no-untyped-def]
    """Pair blocked instants before a gap with unexplained ones in it, latest first, until either ends."""
    if not len(b_gap):
        return low, high, cause, holder, gap
    eligible = (cause == LAUNCH) | (cause == PYTHON) | (cause == UNKNOWN)
    budget_gaps = np.unique(b_gap)
    touched = eligible & np.isin(gap, budget_gaps)
    if not touched.any():
        return low, high, cause, holder, gap
    keep = ~touched
    parts = [(low[keep], high[keep], cause[keep], holder[keep], gap[keep])]
    t_low, t_high, t_cause, t_holder, t_gap = low[touched], high[touched], cause[touched], holder[touched], gap[touched]
    # On an axis of eligible (and of blocked) time that runs backwards from the gap's call, both are dense from 0.
    e_from, e_to = _backward_axis(t_gap, t_high - t_low)
    b_from, b_to = _backward_axis(b_gap, b_high - b_low)
    span = np.int64(max(int(e_to.max(initial=0)), int(b_to.max(initial=0))) + 1)
    rank_of = np.searchsorted(budget_gaps, t_gap)
    b_rank = np.searchsorted(budget_gaps, b_gap)
    order = np.lexsort((b_from, b_rank))
    g_from, g_to, g_cause = (b_rank * span + b_from)[order], (b_rank * span + b_to)[order], b_cause[order]
    e_start, e_end = rank_of * span + e_from, rank_of * span + e_to
    e, b, s, t = pairs(e_start, e_end, g_from, g_to)
    # Backward position p of piece e is the instant high - (p - from).
    charged_high = t_high[e] - (s - e_start[e])
    charged_low = t_high[e] - (t - e_start[e])
    parts.append((charged_low, charged_high, g_cause[b], t_holder[e], t_gap[e]))
    # Eligible time beyond the budget keeps its cause: the earliest part of it.
    budget = np.zeros(len(budget_gaps), dtype=np.int64)
    np.maximum.at(budget, b_rank, b_to)
    over = np.clip(budget[rank_of] - e_from, 0, t_high - t_low)
    left_high = t_high - over
    rest = left_high > t_low
    parts.append((t_low[rest], left_high[rest], t_cause[rest], t_holder[rest], t_gap[rest]))
    return tuple(np.concatenate(c) for c in zip(*parts, strict=True))


def _backward_axis(gap: I64, length: I64) -> tuple[I64, I64]:
    """Per gap, pieces in ascending time laid end to end from the last backwards: (from, to) of each."""
    boundary = np.flatnonzero(np.append(True, gap[1:] != gap[:-1]))
    total = np.cumsum(length)
    group = np.cumsum(np.append(True, gap[1:] != gap[:-1])) - 1
    last = np.append(boundary[1:], len(gap)) - 1
    group_end = total[last][group]
    to = group_end - (total - length)
    return group_end - total, to


def _preprocess(low, high, cause, holder, gap, next_, trailing, first_of_step, owner, steps):  # type: ignore[no-untyped-def]
    """Turn launch and python pieces after S(n) into preprocessing where they exceed the threshold."""
    step = np.where(trailing[gap], -1, owner[next_[gap]])
    is_first = (step >= 0) & (first_of_step[np.maximum(step, 0)] == next_[gap])
    begin = np.where(is_first, steps.start_ns[np.maximum(step, 0)], np.iinfo(np.int64).max)
    eligible = is_first & ((cause == LAUNCH) | (cause == PYTHON)) & (high > begin)
    if not eligible.any():
        return low, high, cause, holder, gap
    after = np.where(eligible, high - np.maximum(low, begin), 0)
    per_step = np.bincount(step[eligible], weights=after[eligible], minlength=len(steps)).astype(np.int64)
    tile = steps.end_ns - steps.start_ns
    enough = per_step > PREPROCESS_SHARE * tile
    chosen = eligible & enough[np.maximum(step, 0)]
    if not chosen.any():
        return low, high, cause, holder, gap
    split = chosen & (low < begin)
    head = (low[split], begin[split], cause[split], holder[split], gap[split])
    low = np.where(split, begin, low)
    cause = np.where(chosen, PREPROCESS, cause).astype(np.int32)
    return tuple(np.concatenate(c) for c in zip((low, high, cause, holder, gap), head, strict=True))


__all__ = ["CAUSE", "IdlePieces", "find_gaps", "idle_pieces", "intersect"]
