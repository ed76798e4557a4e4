"""What each host thread was doing at every instant: its cause, and whether it worked, waited or did nothing.

The definitions (leaf, busy, weak, the order of causes) are in docs/reference/accounting.md. All of it is set
algebra over intervals, so that a million rows cost a few sorts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import NOTHING, Intervals, gaps, intersect, join, pairs, subtract, union
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import HOST_KINDS, Kind, is_of
from stepscope.trace.host_cause import NUM_CAUSES, RANK, NameFacts

LAUNCH, PYTHON, UNKNOWN = RANK["launch"], RANK["python"], RANK["unknown"]


def _ranks(causes: tuple[int, ...]) -> npt.NDArray[np.bool_]:
    """A table over causes: is it one of these?"""
    table = np.zeros(NUM_CAUSES, dtype=bool)
    table[list(causes)] = True
    return table


@dataclass(frozen=True, slots=True)
class HostRows:
    """The host rows of one thread, sorted by (start, longest first, index): a later row lies deeper.

    `cause` is the rank of the row's own cause: never -1, ops and calls default to launch, frames and
    annotations to python.
    """

    row: I32
    name_id: I32
    start_ns: I64
    end_ns: I64
    cause: I32
    kind: I32
    is_waiting: npt.NDArray[np.bool_]
    is_plain_annotation: npt.NDArray[np.bool_]
    is_transparent: npt.NDArray[np.bool_]
    present: frozenset[int]
    """The causes that occur."""
    is_recorded: bool
    """An op, an annotation or a Python frame was recorded on this thread."""

    def __len__(self) -> int:
        return len(self.row)

    def of_cause(self, *causes: int) -> Intervals:
        """When any row of these causes is open."""
        if self.present.isdisjoint(causes):
            return NOTHING
        mask = _ranks(causes)[self.cause]
        return union(self.start_ns[mask], self.end_ns[mask], is_sorted=True)


@dataclass(frozen=True, slots=True)
class Pieces:
    """A thread's timeline: sorted, disjoint intervals that cover the asked span, each with a cause and a
    thread."""

    start: I64
    end: I64
    cause: I32
    thread: I32

    def __len__(self) -> int:
        return len(self.start)


def _nesting_order(start: I64, end: I64, index: I32) -> npt.NDArray[np.intp]:
    """By start, then longest first, then index. Few rows start together: only those are compared further."""
    order = np.argsort(start, kind="stable")
    same = np.zeros(len(order) + 1, dtype=bool)
    same[1:-1] = np.diff(start[order]) == 0
    tied = np.flatnonzero(same[1:] | same[:-1])
    among = order[tied]
    order[tied] = among[np.lexsort((index[among], -end[among], start[among]))]
    return order


def rows_of_track(
    trace: Trace,
    track: int,
    kinds: I32,
    facts: NameFacts,
    is_copy_wait: npt.NDArray[np.bool_],
    is_good: npt.NDArray[np.bool_],
) -> HostRows:
    """Host rows of one track. `is_copy_wait` marks calls that block although their name does not say so."""
    spans = trace.spans
    row = np.flatnonzero((spans.track_id == track) & is_of(kinds, *HOST_KINDS) & is_good)
    # Overhead rows of a process belong to their own thread.
    extra = np.flatnonzero((spans.track_id == track) & (kinds == Kind.OVERHEAD) & is_good)
    if len(extra):
        row = np.concatenate([row, extra])
    start = spans.ts_ns[row]
    end = start + spans.dur_ns[row]
    order = _nesting_order(start, end, spans.index[row])
    row, start, end = row[order], start[order], end[order]
    kind, name = kinds[row], spans.name_id[row]
    at = kind.astype(np.int64) * facts.cause.shape[1] + name
    own, is_waiting, is_step = (table.take(at) for table in (facts.cause, facts.is_waiting, facts.is_step))
    default = np.where((kind == Kind.OP) | (kind == Kind.CALL), LAUNCH, PYTHON)
    cause = np.where(is_copy_wait[row], RANK["copy_wait"], np.where(own >= 0, own, default)).astype(np.int32)
    return HostRows(
        row=row.astype(np.int32),
        name_id=name,
        start_ns=start,
        end_ns=end,
        cause=cause,
        kind=kind,
        is_waiting=is_waiting,
        is_plain_annotation=(kind == Kind.ANNOTATION) & (own < 0) & ~is_step & ~is_waiting,
        # The profiler's own rows have a cause, but the thread's work is what stands around them.
        is_transparent=is_step | facts.is_thread_start.take(at) | (kind == Kind.OVERHEAD),
        present=frozenset(np.flatnonzero(np.bincount(cause, minlength=1)).tolist()),
        is_recorded=bool(is_of(kind, Kind.OP, Kind.ANNOTATION, Kind.PYTHON).any()),
    )


BATCH_ROWS = 500_000
"""Rows looked at together: bounds the memory of annotations that span everything."""


def leaf_time(rows: HostRows, chosen: npt.NDArray[np.bool_]) -> Intervals:
    """When the row that started last among the open ones (transparent rows aside) is one of the chosen.

    Rows are sorted, so those that start inside a chosen row are the slice behind it: what of the row
    they leave uncovered is its own. Every chosen row gets an axis of its own, and all axes are laid end
    to end, so that one union and one subtraction serve a whole batch.
    """
    visible = ~rows.is_transparent
    start, end = rows.start_ns[visible], rows.end_ns[visible]
    at = np.flatnonzero(chosen[visible] & (end > start))
    inside = np.maximum(np.searchsorted(start, end[at], side="left") - at - 1, 0)
    batch = np.cumsum(inside + 1) // BATCH_ROWS
    found = [_own_time(start, end, at[batch == i], inside[batch == i]) for i in np.unique(batch).tolist()]
    return join(*found)


def _own_time(start: I64, end: I64, at: npt.NDArray[np.intp], inside: npt.NDArray[np.intp]) -> Intervals:
    """What of each row `at` none of the `inside` rows that follow it covers."""
    length = end[at] - start[at]
    # A gap of one nanosecond keeps neighbouring axes from touching.
    base = np.cumsum(length + 1) - length - 1
    owner = np.repeat(np.arange(len(at)), inside)
    child = np.arange(len(owner)) - np.repeat(np.cumsum(inside) - inside - at - 1, inside)
    shift = base - start[at]
    low = start[child] + shift[owner]
    high = np.minimum(end[child], end[at][owner]) + shift[owner]
    own = subtract(Intervals(base, base + length), union(low, high, is_sorted=True))
    back = shift[np.searchsorted(base, own.start, side="right") - 1]
    return union(own.start - back, own.end - back)


def busy_and_weak(rows: HostRows) -> tuple[Intervals, Intervals]:
    """When the thread works, and when it only waits or stands in an annotation that says nothing."""
    visible = ~rows.is_transparent
    open_ = union(rows.start_ns[visible], rows.end_ns[visible], is_sorted=True)
    weak = leaf_time(rows, rows.is_waiting | rows.is_plain_annotation)
    return subtract(open_, weak), weak


def cause_pieces(
    rows: HostRows, everywhere: dict[int, Intervals], start_ns: int, end_ns: int
) -> tuple[I64, I64, I32]:
    """The thread's cause at every instant of [start_ns, end_ns): arrays (start, end, cause), sorted.

    `everywhere` holds rows that count as open on every thread (the profiler's own), by cause.
    """
    rest = gaps(NOTHING, start_ns, end_ns)
    found: list[tuple[Intervals, int]] = []
    present = rows.present | set(everywhere)
    for cause in range(NUM_CAUSES - 1):
        if cause not in present or not len(rest):
            continue
        here = join(rows.of_cause(cause), everywhere.get(cause, NOTHING))
        taken = intersect(rest, here)
        if len(taken):
            found.append((taken, cause))
            rest = subtract(rest, here)
    if len(rest):
        found.append((rest, PYTHON if rows.is_recorded else UNKNOWN))
    start = np.concatenate([s.start for s, _ in found]) if found else np.empty(0, np.int64)
    end = np.concatenate([s.end for s, _ in found]) if found else np.empty(0, np.int64)
    cause_of = (
        np.concatenate([np.full(len(s), c, dtype=np.int32) for s, c in found])
        if found
        else np.empty(0, np.int32)
    )
    order = np.argsort(start, kind="stable")
    return start[order], end[order], cause_of[order]


class HostTimeline:
    """Timelines of one process: for a launching thread, who was responsible at each instant and for what.

    `threads` are track ids in order of appearance; `main` and `autograd` (by launches, most first) may
    answer for a thread that waits or is empty. Results are computed once per thread.
    """

    def __init__(
        self,
        rows: dict[int, HostRows],
        main: int | None,
        autograd: Sequence[int],
        everywhere: dict[int, Intervals],
        start_ns: int,
        end_ns: int,
    ) -> None:
        self.rows = rows
        self.main = main
        self.autograd = tuple(autograd)
        self.everywhere = everywhere
        self.start_ns = start_ns
        self.end_ns = end_ns
        self._state: dict[int, tuple[Intervals, Intervals]] = {}
        self._cause: dict[int, tuple[I64, I64, I32]] = {}
        self._pieces: dict[int, Pieces] = {}

    def state(self, thread: int) -> tuple[Intervals, Intervals]:
        """(busy, weak) of a thread."""
        if thread not in self._state:
            self._state[thread] = busy_and_weak(self.rows[thread])
        return self._state[thread]

    def causes(self, thread: int) -> tuple[I64, I64, I32]:
        """The thread's own causes over the whole span."""
        if thread not in self._cause:
            self._cause[thread] = cause_pieces(self.rows[thread], self.everywhere, self.start_ns, self.end_ns)
        return self._cause[thread]

    def responsible(self, thread: int) -> dict[int, Intervals]:
        """Who answers for `thread` at each instant: disjoint sets that cover the span."""
        candidates = [
            t for t in (self.main, *self.autograd) if t is not None and t != thread and t in self.rows
        ]
        rest = gaps(NOTHING, self.start_ns, self.end_ns)
        share: dict[int, list[Intervals]] = {}
        for level in (0, 1):
            for who in (thread, *candidates):
                if not len(rest):
                    break
                mine = self.state(who)[level]
                taken = intersect(rest, mine)
                if len(taken):
                    share.setdefault(who, []).append(taken)
                    rest = subtract(rest, mine)
        if len(rest):
            share.setdefault(thread, []).append(rest)
        return {who: join(*sets) for who, sets in share.items()}

    def pieces(self, thread: int) -> Pieces:
        """The timeline a gap before a launch by `thread` is cut from."""
        if thread not in self._pieces:
            starts, ends, causes, threads = [], [], [], []
            for who, when in self.responsible(thread).items():
                start, end, cause = self.causes(who)
                inside = intersect_labelled(when, start, end, cause)
                starts.append(inside[0])
                ends.append(inside[1])
                causes.append(inside[2])
                threads.append(np.full(len(inside[0]), who, dtype=np.int32))
            start = np.concatenate(starts)
            order = np.argsort(start, kind="stable")
            self._pieces[thread] = Pieces(
                start[order],
                np.concatenate(ends)[order],
                np.concatenate(causes)[order],
                np.concatenate(threads)[order],
            )
        return self._pieces[thread]


def intersect_labelled(when: Intervals, start: I64, end: I64, label: I32) -> tuple[I64, I64, I32]:
    """Labelled pieces cut to a set."""
    _, at, low, high = pairs(when.start, when.end, start, end)
    return low, high, label[at]
