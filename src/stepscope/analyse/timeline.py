"""One window of one device as lanes of pieces: streams by class, host threads by cause, idle time by cause.

A lane holds one class or cause, so that its pieces never cover those of another. Pieces nearer than the
resolution become one, which keeps how many it is of and how much of it is no hole: the union of a lane is
filled by less than the resolution anywhere, and its `busy_ns` sum to the true union exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.idle import IdlePieces
from stepscope.model import report
from stepscope.model.interval import pairs, single, union
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import ORDER
from stepscope.trace.kernel_class import CLASSES
from stepscope.trace.link import UNEXPLAINED, Activities
from stepscope.trace.nesting import PYTHON, UNKNOWN, HostRows, cause_pieces
from stepscope.trace.thread import Threads

PER_WINDOW = 1_000
"""The resolution is this part of the window: finer than the pixels of a page."""
MOST_PIECES = 900
"""The resolution is made coarser until a timeline has no more."""
MOST_STREAMS, MOST_THREADS = 8, 6
MOST_NAME_CHARACTERS = 24_000
"""Names of kernels are long: those of the longest pieces come first, and together they are no longer."""
LEFT_OUT = "…"


@dataclass(frozen=True, slots=True)
class Pieces:
    """Merged pieces: sorted, disjoint. `row` is the core row of the longest event in each, -1 for none."""

    start: I64
    end: I64
    busy: I64
    count: I64
    row: I64
    longest: I64
    """How long that event is."""

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class _Lane:
    kind: report.LaneKind
    what: str
    pieces: Pieces
    stream: int | None = None
    thread: str | None = None
    rows: HostRows | None = None
    """A thread's rows of this cause, from which its pieces get their names."""


def timeline(
    trace: Trace,
    threads: Threads,
    activities: Activities,
    idle: IdlePieces,
    window: tuple[int, int],
    step: int | None,
    *,
    is_idle_told: bool,
) -> report.Timeline:
    """The lanes of one window of one device. `activities` and `idle` are of that device, over any time.

    Without `is_idle_told` idle time has no cause but `unknown`.
    """
    start_ns, end_ns = window
    streams = list(_streams(activities, start_ns, end_ns))
    hosts = list(_threads(trace, threads, start_ns, end_ns))
    chosen, num_streams = _most(streams, MOST_STREAMS, lambda lane: lane.stream)
    driving, num_threads = _most(hosts, MOST_THREADS, lambda lane: lane.thread)
    lanes = [*chosen, *driving, *_idle(idle, start_ns, end_ns, is_idle_told)]
    resolution = max(1, (end_ns - start_ns) // PER_WINDOW)
    lanes = [replace(lane, pieces=merged(lane.pieces, resolution)) for lane in lanes]
    while sum(len(lane.pieces) for lane in lanes) > MOST_PIECES and resolution < end_ns - start_ns:
        resolution *= 2
        lanes = [replace(lane, pieces=merged(lane.pieces, resolution)) for lane in lanes]
    lanes = [_named(lane) for lane in lanes]
    names, place = _names(trace, lanes)
    return report.Timeline(
        start_ns=start_ns,
        dur_ns=end_ns - start_ns,
        resolution_ns=resolution,
        step=step,
        lanes=tuple(_told(lane, trace, start_ns, place) for lane in lanes),
        names=names,
        num_left_out=num_streams + num_threads or None,
    )


def merged(pieces: Pieces, resolution_ns: int) -> Pieces:
    """The pieces, those that overlap or lie nearer than the resolution being one.

    `busy` of overlapping pieces is counted once; merging again at a coarser resolution gives what merging
    once would have.
    """
    if len(pieces) < 2:
        return pieces
    reach = np.maximum.accumulate(pieces.end)
    is_first = np.ones(len(pieces), dtype=bool)
    is_first[1:] = pieces.start[1:] - reach[:-1] >= resolution_ns
    heads = np.flatnonzero(is_first)
    tails = np.append(heads[1:], len(pieces)) - 1
    # What an earlier piece covers already is no more of it: of disjoint pieces nothing is.
    before = np.append(pieces.start[:1], reach[:-1])
    own = np.minimum(np.maximum(pieces.end - np.maximum(pieces.start, before), 0), pieces.busy)
    longest = np.maximum.reduceat(pieces.longest, heads)
    is_longest = pieces.longest == np.repeat(longest, tails - heads + 1)
    at = np.flatnonzero(is_longest)
    group = np.cumsum(is_first)[at] - 1
    at = at[np.diff(group, prepend=-1) > 0]
    return Pieces(
        pieces.start[heads],
        reach[tails],
        np.add.reduceat(own, heads),
        np.add.reduceat(pieces.count, heads),
        pieces.row[at],
        longest,
    )


def single_pieces(start: I64, end: I64, row: I32 | I64 | int) -> Pieces:
    """Every interval as a piece of its own, by start."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    rows = np.broadcast_to(np.asarray(row, dtype=np.int64), (len(order),))[order]
    return Pieces(start, end, end - start, np.ones(len(order), np.int64), rows, end - start)


def _streams(activities: Activities, start_ns: int, end_ns: int) -> Iterable[_Lane]:
    inside = (activities.start_ns < end_ns) & (activities.end_ns > start_ns)
    # A corrupt record is neither work nor idle: the accounting calls its time unknown.
    mine = activities.take(inside & (activities.end_ns > activities.start_ns))
    for stream, at in groups(mine.stream):
        for cls, among in groups(mine.cls[at]):
            which = at[among]
            start = np.maximum(mine.start_ns[which], start_ns)
            end = np.minimum(mine.end_ns[which], end_ns)
            sound = mine.part[which] != UNEXPLAINED
            if sound.any():
                yield _Lane(
                    "stream",
                    CLASSES[cls],
                    single_pieces(start[sound], end[sound], mine.row[which][sound]),
                    stream=stream,
                )


def _threads(trace: Trace, threads: Threads, start_ns: int, end_ns: int) -> Iterable[_Lane]:
    driving = threads.driving
    for track in (*driving, *(t for t in threads.rows if t not in driving)):
        rows = _inside(threads.rows[track], start_ns, end_ns)
        if not len(rows):
            continue
        where = trace.tracks[track]
        name = f"{where.tid}" if where.thread_name is None else where.thread_name
        start, end, cause = cause_pieces(rows, {}, start_ns, end_ns)
        open_ = union(rows.start_ns, rows.end_ns, is_sorted=True)
        for which in np.unique(cause).tolist():
            mine = cause == which
            low, high = start[mine], end[mine]
            if which in (PYTHON, UNKNOWN):
                # Where no row is open nothing was recorded: that is no work of the thread.
                _, _, low, high = pairs(low, high, open_.start, open_.end)
            if len(low):
                yield _Lane(
                    "thread",
                    ORDER[which],
                    single_pieces(low, high, -1),
                    thread=name,
                    rows=_chosen(rows, rows.cause == which),
                )


def _inside(rows: HostRows, start_ns: int, end_ns: int) -> HostRows:
    """What of a thread's rows lies in the window, without those that say nothing of its work."""
    says = ~rows.is_transparent | (rows.kind == Kind.OVERHEAD)
    cut = _chosen(rows, says & (rows.start_ns < end_ns) & (rows.end_ns > start_ns))
    return replace(cut, start_ns=np.maximum(cut.start_ns, start_ns), end_ns=np.minimum(cut.end_ns, end_ns))


def _chosen(rows: HostRows, mask: npt.NDArray[np.bool_]) -> HostRows:
    cause = rows.cause[mask]
    return HostRows(
        row=rows.row[mask],
        name_id=rows.name_id[mask],
        start_ns=rows.start_ns[mask],
        end_ns=rows.end_ns[mask],
        cause=cause,
        kind=rows.kind[mask],
        is_waiting=rows.is_waiting[mask],
        is_plain_annotation=rows.is_plain_annotation[mask],
        is_transparent=rows.is_transparent[mask],
        present=frozenset(np.unique(cause).tolist()),
        is_recorded=rows.is_recorded,
    )


def _idle(idle: IdlePieces, start_ns: int, end_ns: int, is_told: bool) -> Iterable[_Lane]:
    window = single(start_ns, end_ns)
    _, at, low, high = pairs(window.start, window.end, idle.start, idle.end)
    cause = idle.cause[at] if is_told else np.full(len(at), IDLE_CAUSES.index("unknown"))
    for which in range(len(IDLE_CAUSES)):
        mine = cause == which
        if mine.any():
            yield _Lane("idle", IDLE_CAUSES[which], single_pieces(low[mine], high[mine], -1))


def _most(lanes: Sequence[_Lane], most: int, owner: Any) -> tuple[list[_Lane], int]:
    """The lanes of the owners with most in them, in their order, and how many owners are left out."""
    busy: Counter[Any] = Counter()
    for lane in lanes:
        busy[owner(lane)] += int(lane.pieces.busy.sum())
    # Threads that drive the step come first: they stay, however much others wait.
    first = list(dict.fromkeys(owner(lane) for lane in lanes))[:1]
    kept = set([*first, *(who for who, _ in busy.most_common() if who not in first)][:most])
    return [lane for lane in lanes if owner(lane) in kept], len(busy) - len(kept)


def _named(lane: _Lane) -> _Lane:
    """A thread's lane with, for each piece, the innermost of the rows that cover most of it.

    A row that covers at least half as much as any other counts: the outermost ones say least.
    """
    rows, pieces = lane.rows, lane.pieces
    if rows is None:
        return lane
    row, piece, low, high = pairs(rows.start_ns, rows.end_ns, pieces.start, pieces.end)
    covers = high - low
    most = np.zeros(len(pieces), dtype=np.int64)
    np.maximum.at(most, piece, covers)
    enough = 2 * covers >= most[piece]
    deepest = np.zeros(len(pieces), dtype=np.int64)
    np.maximum.at(deepest, piece[enough], row[enough])
    return replace(lane, pieces=replace(pieces, row=rows.row[deepest].astype(np.int64)))


def _names(trace: Trace, lanes: Sequence[_Lane]) -> tuple[tuple[str, ...], dict[int, int]]:
    """The names to show, and where in them each name of the trace stands."""
    busy: Counter[int] = Counter()
    for lane in lanes:
        if lane.kind != "idle":
            ids = trace.spans.name_id[lane.pieces.row]
            for name, at in groups(ids):
                busy[name] += int(lane.pieces.busy[at].sum())
    names: list[str] = []
    place: dict[int, int] = {}
    left, is_out = MOST_NAME_CHARACTERS, False
    for name, _ in busy.most_common():
        text = trace.names[name]
        if len(text) <= left:
            left -= len(text)
            place[name] = len(names)
            names.append(text)
        else:
            is_out = True
    if is_out:
        place |= dict.fromkeys((name for name in busy if name not in place), len(names))
        names.append(LEFT_OUT)
    return tuple(names), place


def _told(lane: _Lane, trace: Trace, start_ns: int, place: dict[int, int]) -> report.Lane:
    pieces = lane.pieces
    has_events = lane.kind != "idle"
    ids = trace.spans.name_id[pieces.row].tolist() if has_events else []
    return report.Lane(
        kind=lane.kind,
        what=lane.what,
        stream=lane.stream,
        thread=lane.thread,
        start_ns=tuple((pieces.start - start_ns).tolist()),
        dur_ns=tuple((pieces.end - pieces.start).tolist()),
        busy_ns=tuple(pieces.busy.tolist()),
        count=tuple(pieces.count.tolist()),
        name=tuple(place[name] for name in ids),
        span=tuple(trace.spans.index[pieces.row].tolist()) if has_events else (),
    )


def coarser(timeline: report.Timeline, most: int) -> report.Timeline:
    """The same timeline in about `most` pieces; a lane keeps at least one.

    A piece made of several bears the name of the longest of them.
    """
    resolution, lanes = timeline.resolution_ns, timeline.lanes
    while sum(len(lane.start_ns) for lane in lanes) > most and resolution < timeline.dur_ns:
        resolution *= 2
        lanes = tuple(_coarser(lane, resolution) for lane in lanes)
    return msgspec.structs.replace(timeline, resolution_ns=resolution, lanes=lanes)


def _coarser(lane: report.Lane, resolution_ns: int) -> report.Lane:
    start, dur, busy, count = (
        np.array(column, dtype=np.int64) for column in (lane.start_ns, lane.dur_ns, lane.busy_ns, lane.count)
    )
    # Here a row is a place in the lane, from which its event is taken.
    pieces = merged(Pieces(start, start + dur, busy, count, np.arange(len(start)), dur), resolution_ns)
    kept = pieces.row.tolist()
    return msgspec.structs.replace(
        lane,
        start_ns=tuple(pieces.start.tolist()),
        dur_ns=tuple((pieces.end - pieces.start).tolist()),
        busy_ns=tuple(pieces.busy.tolist()),
        count=tuple(pieces.count.tolist()),
        name=tuple(lane.name[at] for at in kept) if lane.name else (),
        span=tuple(lane.span[at] for at in kept) if lane.span else (),
    )
