"""Why the device idled: every nanosecond of every gap gets one cause.

Gaps are cut into pieces along the responsible host threads, lost run-ahead is charged, then preprocessing is
told from other host work. Definitions and order: docs/reference/accounting.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.model.interval import Intervals, pairs, subtract, union
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.trace import I32, I64
from stepscope.trace.host_cause import ORDER, PHASES, RANK
from stepscope.trace.link import UNEXPLAINED, Activities
from stepscope.trace.nesting import HostTimeline
from stepscope.trace.step import Steps

CAUSE = {name: i for i, name in enumerate(IDLE_CAUSES)}
"""Idle cause -> its position in the report's order."""
FROM_HOST = np.array([CAUSE[name] for name in ORDER], dtype=np.int32)
"""Rank of a host cause -> position in the report's order."""
QUEUED, UNKNOWN, PREPROCESS = CAUSE["queued"], CAUSE["unknown"], CAUSE["preprocess"]
LAUNCH, PYTHON, COPY_WAIT = CAUSE["launch"], CAUSE["python"], CAUSE["copy_wait"]
BLOCKED = (RANK["host_sync"], RANK["copy_wait"])
PREPROCESS_SHARE = 0.05
"""Host work in front of a step's first activity is preprocessing from this share of the step on."""
NOWHERE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class IdlePieces:
    """Idle time of one device: disjoint pieces, sorted where a function says so.

    `cause` indexes IDLE_CAUSES; `thread` is the responsible track, -1 where no host thread answers; `gap`
    the gap's position, -1 inside a corrupt record; `is_host_late` tells gaps whose next work had not been
    issued when they began.
    """

    start: I64
    end: I64
    cause: I32
    thread: I32
    gap: I64
    is_host_late: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.start)

    def within(self, start_ns: I64, end_ns: I64) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], I64]:
        """(window, piece, nanoseconds) of every overlap with any windows."""
        window, piece, low, high = pairs(start_ns, end_ns, self.start, self.end)
        return window, piece, high - low

    def take(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> IdlePieces:
        """The chosen pieces."""
        return IdlePieces(
            self.start[chosen],
            self.end[chosen],
            self.cause[chosen],
            self.thread[chosen],
            self.gap[chosen],
            self.is_host_late[chosen],
        )

    def named(self, cause: int | I32, start: I64 | None = None, end: I64 | None = None) -> IdlePieces:
        """The same pieces under another cause, and with other ends where given."""
        return pieces(
            self.start if start is None else start,
            self.end if end is None else end,
            cause,
            self.thread,
            self.gap,
            self.is_host_late,
        )


def pieces(
    start: I64,
    end: I64,
    cause: int | I32,
    thread: int | I32,
    gap: int | I64,
    is_host_late: bool | npt.NDArray[np.bool_],
) -> IdlePieces:
    """Pieces with scalars spread over all of them."""
    n = len(start)
    return IdlePieces(
        start,
        end,
        np.broadcast_to(np.asarray(cause, dtype=np.int32), (n,)),
        np.broadcast_to(np.asarray(thread, dtype=np.int32), (n,)),
        np.broadcast_to(np.asarray(gap, dtype=np.int64), (n,)),
        np.broadcast_to(np.asarray(is_host_late, dtype=np.bool_), (n,)),
    )


def joined(*parts: IdlePieces) -> IdlePieces:
    """All pieces of all parts, in the order given; empty ones left out."""
    columns = [
        np.concatenate([getattr(p, name) for p in parts])
        for name in ("start", "end", "cause", "thread", "gap", "is_host_late")
    ]
    whole = IdlePieces(columns[0], columns[1], columns[2], columns[3], columns[4], columns[5])
    return whole.take(whole.end > whole.start)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps of one device. `next` is the position of the activity that ends each, -1 where none does.

    `launch_ns` is when that activity was issued and `thread` by which track; `can_walk` marks gaps for
    which both are known (a gap after the last activity is judged as if the main thread issued work at its
    end).
    """

    start: I64
    end: I64
    next: I64
    launch_ns: I64
    thread: I32
    can_walk: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.start)


def find_gaps(
    activities: Activities, launch_thread: I32, main: int | None, start_ns: int, end_ns: int
) -> Gaps:
    """Longest intervals of [start_ns, end_ns) without any activity.

    Of several activities that end a gap together, one with a known launch, then the earliest launch, then
    the lowest event index counts.
    """
    busy = union(activities.start_ns, activities.end_ns)
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

    is_last = chosen < 0
    has_launch = np.zeros(len(low), dtype=bool)
    launch, thread = np.zeros(len(low), dtype=np.int64), np.full(len(low), -1, dtype=np.int32)
    has_launch[~is_last] = activities.launch_row[chosen[~is_last]] >= 0
    launch[has_launch] = activities.launch_ns[chosen[has_launch]]
    thread[has_launch] = launch_thread[chosen[has_launch]]
    if main is not None:
        launch[is_last], thread[is_last] = high[is_last], main
        has_launch |= is_last
    return Gaps(low, high, chosen, launch, thread, has_launch)


def idle_pieces(
    activities: Activities,
    timeline: HostTimeline | None,
    launch_thread: I32,
    is_blocking_copy: npt.NDArray[np.bool_],
    steps: Steps,
    owner: I64,
    prepared: I64,
    start_ns: int,
    end_ns: int,
) -> IdlePieces:
    """The idle time of one device in [start_ns, end_ns), cut by cause, sorted.

    `launch_thread`: track of each activity's launching call, -1 without; `is_blocking_copy` of that call;
    `owner` the step position of each activity, -1 for none; `prepared` from `prepared_ns`. `timeline` is
    `None` where no host rows were recorded.
    """
    main = timeline.main if timeline is not None else None
    gaps = find_gaps(activities, launch_thread, main, start_ns, end_ns)
    index = np.arange(len(gaps))
    is_queued = gaps.can_walk & (gaps.next >= 0) & (gaps.launch_ns <= gaps.start)
    is_late = gaps.can_walk & ~is_queued
    if timeline is None:
        is_late = np.zeros(len(gaps), dtype=bool)
    rest = ~is_queued & ~is_late
    parts = [
        _dark(activities),
        pieces(gaps.start[is_queued], gaps.end[is_queued], QUEUED, -1, index[is_queued], False),
        pieces(gaps.start[rest], gaps.end[rest], UNKNOWN, -1, index[rest], False),
    ]
    if timeline is not None:
        parts += _late(gaps, index[is_late], activities, timeline, is_blocking_copy, steps, owner, prepared)
    whole = joined(*parts)
    return whole.take(np.argsort(whole.start, kind="stable"))


def _dark(activities: Activities) -> IdlePieces:
    """Time inside corrupt records that no other activity explains: idle, cause unknown."""
    bad = activities.part == UNEXPLAINED
    known = union(activities.start_ns[~bad], activities.end_ns[~bad])
    dark = subtract(union(activities.start_ns[bad], activities.end_ns[bad]), known)
    return pieces(dark.start, dark.end, UNKNOWN, -1, -1, False)


def _late(
    gaps: Gaps,
    late: npt.NDArray[np.intp],
    activities: Activities,
    timeline: HostTimeline,
    is_blocking_copy: npt.NDArray[np.bool_],
    steps: Steps,
    owner: I64,
    prepared: I64,
) -> list[IdlePieces]:
    """Gaps whose next work had not been issued when they began, by launching thread."""
    ahead_from = _last_issued(activities, gaps)
    busy = union(activities.start_ns, activities.end_ns)
    parts = []
    for thread in np.unique(gaps.thread[late]).tolist():
        mine = late[gaps.thread[late] == thread]
        when = timeline.pieces(thread)
        gap, at, low, high = pairs(gaps.start[mine], gaps.launch_ns[mine], when.start, when.end)
        walked = pieces(low, high, FROM_HOST[when.cause[at]], when.thread[at], mine[gap], True)

        # Blocked while the device was idle is charged to the gap it lies in, not to a later one.
        is_blocked = np.isin(when.cause, BLOCKED)
        of, _, low, high = pairs(when.start[is_blocked], when.end[is_blocked], busy.start, busy.end)
        cause = FROM_HOST[when.cause[is_blocked][of]]
        b_gap, b_at, b_low, b_high = pairs(ahead_from[mine], gaps.start[mine], low, high)
        blocked = pieces(b_low, b_high, cause[b_at], thread, mine[b_gap], True)
        walked = charge_run_ahead(walked, blocked)
        parts.append(_told_preprocess(walked, gaps, activities, owner, steps, prepared))
        parts += _tail(gaps, mine, timeline, thread, is_blocking_copy)
    return parts


def _tail(
    gaps: Gaps,
    mine: npt.NDArray[np.intp],
    timeline: HostTimeline,
    thread: int,
    is_blocking_copy: npt.NDArray[np.bool_],
) -> list[IdlePieces]:
    """From the launching call to the start of its work: a marked phase where one is open, else the call's
    own cause."""
    blocking = is_blocking_copy[gaps.next[mine]] if len(is_blocking_copy) else np.zeros(len(mine), dtype=bool)
    rest = pieces(
        gaps.launch_ns[mine], gaps.end[mine], np.where(blocking, COPY_WAIT, LAUNCH), thread, mine, True
    )
    rest = rest.take(rest.end > rest.start)
    parts = []
    for phase in PHASES:
        marked = timeline.rows[thread].of_cause(RANK[phase])
        inside, outside = _split(rest, marked)
        parts.append(inside.named(CAUSE[phase]))
        rest = outside
    return [*parts, rest]


def _split(p: IdlePieces, when: Intervals) -> tuple[IdlePieces, IdlePieces]:
    """The pieces inside and outside a set."""
    if not len(when) or not len(p):
        return p.take(np.zeros(len(p), dtype=bool)), p
    low, high = int(min(p.start.min(), when.start[0])), int(max(p.end.max(), when.end[-1]))
    holes = subtract(Intervals(np.array([low]), np.array([high])), when)

    def cut(by: Intervals) -> IdlePieces:
        at, _, start, end = pairs(p.start, p.end, by.start, by.end)
        part = p.take(at)
        return part.named(part.cause, start, end)

    return cut(when), cut(holes)


def _last_issued(activities: Activities, gaps: Gaps) -> I64:
    """When the last activity before each gap's call was issued, never after the gap's start."""
    has = np.flatnonzero(activities.launch_row >= 0)
    if not len(has):
        return gaps.start
    issued = np.sort(activities.launch_ns[has])
    before = np.searchsorted(issued, gaps.launch_ns, side="left") - 1
    return np.where(before >= 0, np.minimum(issued[np.maximum(before, 0)], gaps.start), gaps.start)


def charge_run_ahead(walked: IdlePieces, blocked: IdlePieces) -> IdlePieces:
    """Pair blocked instants before a gap with instants in it that have no better reason, latest first.

    Both come ordered by gap, then by time. On an axis of such time that runs backwards from each gap's
    launch, both kinds are dense from 0: where they overlap, the gap's instant takes the blocked one's
    cause.
    """
    eligible = np.isin(walked.cause, (LAUNCH, PYTHON, UNKNOWN)) & np.isin(walked.gap, blocked.gap)
    if not eligible.any():
        return walked
    free = walked.take(eligible)
    gap_ids = np.unique(blocked.gap)
    e_from, e_to = _backwards(free)
    b_from, b_to = _backwards(blocked)
    stride = np.int64(max(int(e_to.max()), int(b_to.max())) + 1)
    e_base = np.searchsorted(gap_ids, free.gap) * stride
    b_base = np.searchsorted(gap_ids, blocked.gap) * stride
    order = np.argsort(b_base + b_from, kind="stable")
    e, b, low, high = pairs(e_base + e_from, e_base + e_to, (b_base + b_from)[order], (b_base + b_to)[order])
    # Backward position x of piece e is the instant end - (x - from).
    origin = free.end[e] + (e_base + e_from)[e]
    charged = free.take(e).named(blocked.cause[order][b], origin - high, origin - low)
    # What the budget does not reach keeps its cause: the earliest part of the gap.
    budget = np.zeros(len(gap_ids), dtype=np.int64)
    np.maximum.at(budget, np.searchsorted(gap_ids, blocked.gap), b_to)
    reach = np.clip(budget[np.searchsorted(gap_ids, free.gap)] - e_from, 0, free.end - free.start)
    kept = free.named(free.cause, free.start, free.end - reach)
    return joined(walked.take(~eligible), charged, kept)


def _backwards(p: IdlePieces) -> tuple[I64, I64]:
    """Per gap, the pieces laid end to end from the last backwards: (from, to) of each."""
    length = p.end - p.start
    is_head = np.append(True, p.gap[1:] != p.gap[:-1]) if len(p) else np.empty(0, dtype=bool)
    heads = np.flatnonzero(is_head)
    total = np.cumsum(length)
    last = np.append(heads[1:], len(p)) - 1
    group_end = total[last][np.cumsum(is_head) - 1]
    return group_end - total, group_end - total + length


def preprocess(idle: IdlePieces, chosen: npt.NDArray[np.bool_], low: I64, high: I64) -> IdlePieces:
    """The pieces, with [low, high) of the chosen ones (a bound for each) as preprocessing."""
    mine = idle.take(chosen)
    return joined(
        idle.take(~chosen),
        mine.named(mine.cause, mine.start, low),
        mine.named(PREPROCESS, low, high),
        mine.named(mine.cause, high, mine.end),
    )


def _told_preprocess(
    walked: IdlePieces, gaps: Gaps, activities: Activities, owner: I64, steps: Steps, prepared_ns: I64
) -> IdlePieces:
    """Turn launch and python in front of a step's first activity into preprocessing where it is long.

    `prepared_ns` is when the process first issued work of each step, on any device: what the host does
    for another device is no preparation.
    """
    if not len(steps) or not len(walked) or not len(activities):
        return walked
    first = np.full(len(steps), -1, dtype=np.int64)
    owned = np.flatnonzero(owner >= 0)
    # Activities are sorted by start, then index: written backwards, the first of each step stays.
    first[owner[owned][::-1]] = owned[::-1]
    next_ = gaps.next[walked.gap]
    step = np.where(next_ >= 0, owner[next_], -1)
    is_first = (step >= 0) & (first[step] == next_)
    begin = np.where(is_first, steps.start_ns[step], NOWHERE)
    until = np.where(is_first, prepared_ns[step], NOWHERE)
    low, high = np.maximum(walked.start, begin), np.minimum(walked.end, until)
    eligible = np.isin(walked.cause, (LAUNCH, PYTHON)) & (high > low)
    time = np.zeros(len(steps), dtype=np.int64)
    np.add.at(time, step[eligible], (high - low)[eligible])
    is_long = time > PREPROCESS_SHARE * (steps.end_ns - steps.start_ns)
    chosen = eligible & is_long[step]
    return preprocess(walked, chosen, low[chosen], high[chosen])


LATE_START_NS = 1_000_000
"""Work that starts so long after its launch call began is no matter of issuing it: a launch takes some
10 microseconds (median of the launch calls' gaps in traces of A100, H100, B200, MI210 and MI300: 5 to 23)."""


def late_starts(idle: IdlePieces, activities: Activities) -> npt.NDArray[np.bool_]:
    """Pieces between a launch call and the start of its work that are long beyond any launch."""
    has = activities.launch_row >= 0
    by_start = np.lexsort((activities.launch_ns[has], activities.start_ns[has]))
    start, issued = activities.start_ns[has][by_start], activities.launch_ns[has][by_start]
    late: npt.NDArray[np.bool_] = (idle.cause == LAUNCH) & (idle.end - idle.start > LATE_START_NS)
    if not len(start) or not late.any():
        return np.zeros(len(idle), dtype=bool)
    at = np.minimum(np.searchsorted(start, idle.end, side="left"), len(start) - 1)
    found: npt.NDArray[np.bool_] = late & (start[at] == idle.end) & (issued[at] <= idle.start)
    return found


def largest_gaps_ns(idle: IdlePieces, inside: Intervals) -> dict[int, int]:
    """Cause -> its time in the one gap that holds most of it."""
    _, at, length = idle.within(inside.start, inside.end)
    cause, gap = idle.cause[at].astype(np.int64), idle.gap[at]
    most: dict[int, int] = {}
    for each, mine in groups(cause):
        order = mine[np.argsort(gap[mine], kind="stable")]
        begins = np.flatnonzero(np.diff(gap[order], prepend=gap[order[:1]] - 1))
        most[each] = int(np.add.reduceat(length[order], begins).max())
    return most


def prepared_ns(activities: Activities, owner: I64, num_steps: int) -> I64:
    """When the first activity (by start, then event index, over all devices) that each step owns was issued.

    NOWHERE for a step that owns none.
    """
    found = np.full(num_steps, NOWHERE, dtype=np.int64)
    owned = np.flatnonzero(owner >= 0)
    order = owned[np.lexsort((activities.row[owned], activities.start_ns[owned]))]
    found[owner[order][::-1]] = activities.launch_ns[order][::-1]
    return found
