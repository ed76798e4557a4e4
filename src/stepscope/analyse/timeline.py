"""One window of one device as lanes of pieces: streams by class, host threads by cause, idle time by cause.

A lane holds one class or cause, so that its pieces never cover those of another. Pieces nearer than the
resolution become one, which keeps how many it is of and how much of it is no hole: the union of a lane is
filled by less than the resolution anywhere, and its `busy_ns` sum to the true union exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import groups
from stepscope.analyse.idle import IdlePieces
from stepscope.model import report
from stepscope.model.interval import pairs, union
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

    @property
    def has_events(self) -> bool:
        """Each piece has an event: idle time has none."""
        return bool((self.row >= 0).all())

    def part(self, low: int, high: int, shift: int) -> Pieces:
        """The pieces from `low` to `high`, earlier by `shift`."""
        return Pieces(
            self.start[low:high] - shift,
            self.end[low:high] - shift,
            self.busy[low:high],
            self.count[low:high],
            self.row[low:high],
            self.longest[low:high],
        )


@dataclass(frozen=True, slots=True)
class _Lane:
    """One lane before its pieces are merged: `start` and `end` of its intervals, in any order."""

    kind: report.LaneKind
    what: str
    start: I64
    end: I64
    row: I32 | None = None
    """The core row of each interval, `None` for a thread and for idle time."""
    stream: int | None = None
    thread: str | None = None
    rows: HostRows | None = None
    cause: int = -1
    """A thread's rows, and the cause of those from which its pieces get their names."""


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
    chosen, num_streams = _most(list(_streams(activities, start_ns, end_ns)), MOST_STREAMS)
    hosts, num_threads = _most(list(_threads(trace, threads, start_ns, end_ns)), MOST_THREADS)
    lanes = [*chosen, *hosts, *_idle(idle, start_ns, end_ns, is_idle_told)]
    # All lanes are laid end to end, too far apart to touch: merging them is merging one.
    stride = 3 * (end_ns - start_ns)
    resolution = max(1, (end_ns - start_ns) // PER_WINDOW)
    pieces = merged(_laid(lanes, start_ns, stride), resolution)
    while len(pieces) > MOST_PIECES and resolution < end_ns - start_ns:
        resolution *= 2
        pieces = merged(pieces, resolution)
    bounds = np.searchsorted(pieces.start, np.arange(len(lanes) + 1) * stride)
    split = [
        _named(lane, pieces.part(low, high, n * stride), start_ns, resolution)
        for n, (lane, low, high) in enumerate(
            zip(lanes, bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        )
    ]
    names, place = _names(trace, [each for each in split if each.has_events])
    return report.Timeline(
        start_ns=start_ns,
        dur_ns=end_ns - start_ns,
        resolution_ns=resolution,
        step=step,
        lanes=tuple(_told(lane, each, trace, place) for lane, each in zip(lanes, split, strict=True)),
        names=names,
        num_left_out=num_streams + num_threads or None,
    )


def _laid(lanes: Sequence[_Lane], start_ns: int, stride: int) -> Pieces:
    """Every interval of every lane as a piece, from the window's start on, each lane a stride further."""
    if not lanes:
        return single_pieces(_NONE, _NONE, _NONE)
    shift = np.repeat(np.arange(len(lanes)) * stride - start_ns, [len(lane.start) for lane in lanes])
    rows = [np.full(len(lane.start), -1) if lane.row is None else lane.row for lane in lanes]
    return single_pieces(
        np.concatenate([lane.start for lane in lanes]) + shift,
        np.concatenate([lane.end for lane in lanes]) + shift,
        np.concatenate(rows),
    )


_NONE = np.empty(0, dtype=np.int64)


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
    group = np.cumsum(is_first)[at]
    at = at[np.append(True, group[1:] > group[:-1])]
    return Pieces(
        pieces.start[heads],
        reach[tails],
        np.add.reduceat(own, heads),
        np.add.reduceat(pieces.count, heads),
        pieces.row[at],
        longest,
    )


def single_pieces(start: I64, end: I64, row: I32 | I64) -> Pieces:
    """Every interval as a piece of its own, by start."""
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    length = end - start
    return Pieces(start, end, length, np.ones(len(order), np.int64), row[order].astype(np.int64), length)


def _streams(activities: Activities, start_ns: int, end_ns: int) -> Iterable[_Lane]:
    # A corrupt record is neither work nor idle: the accounting calls its time unknown.
    inside = np.flatnonzero(
        (activities.start_ns < end_ns)
        & (activities.end_ns > np.maximum(activities.start_ns, start_ns))
        & (activities.part != UNEXPLAINED)
    )
    start = np.maximum(activities.start_ns[inside], start_ns)
    end = np.minimum(activities.end_ns[inside], end_ns)
    row, cls = activities.row[inside], activities.cls[inside]
    for stream, at in groups(activities.stream[inside]):
        for which, among in groups(cls[at]):
            mine = at[among]
            yield _Lane("stream", CLASSES[which], start[mine], end[mine], row[mine], stream=stream)


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
        for which, at in groups(cause):
            low, high = start[at], end[at]
            if which in (PYTHON, UNKNOWN):
                # Where no row is open nothing was recorded: that is no work of the thread.
                _, _, low, high = pairs(low, high, open_.start, open_.end)
            if len(low):
                yield _Lane("thread", ORDER[which], low, high, thread=name, rows=rows, cause=which)


def _inside(rows: HostRows, start_ns: int, end_ns: int) -> HostRows:
    """A thread's rows cut to the window; those outside it or that say nothing of its work are empty."""
    until = int(np.searchsorted(rows.start_ns, end_ns))
    reach = np.maximum.accumulate(rows.end_ns[:until])
    here = slice(int(np.searchsorted(reach, start_ns, side="right")), until)
    is_silent = rows.is_transparent[here] & (rows.kind[here] != Kind.OVERHEAD)
    start = np.maximum(rows.start_ns[here], start_ns)
    end = np.where(is_silent, start, np.minimum(rows.end_ns[here], end_ns))
    cause = rows.cause[here]
    return HostRows(
        row=rows.row[here],
        name_id=rows.name_id[here],
        start_ns=start,
        end_ns=end,
        cause=cause,
        kind=rows.kind[here],
        is_waiting=rows.is_waiting[here],
        is_plain_annotation=rows.is_plain_annotation[here],
        is_transparent=rows.is_transparent[here],
        present=frozenset(np.flatnonzero(np.bincount(cause, minlength=1)).tolist()),
        is_recorded=rows.is_recorded,
    )


def _idle(idle: IdlePieces, start_ns: int, end_ns: int, is_told: bool) -> Iterable[_Lane]:
    inside = np.flatnonzero((idle.start < end_ns) & (idle.end > start_ns))
    start, end = np.maximum(idle.start[inside], start_ns), np.minimum(idle.end[inside], end_ns)
    cause = idle.cause[inside] if is_told else np.full(len(inside), IDLE_CAUSES.index("unknown"), np.int32)
    for which, at in groups(cause):
        yield _Lane("idle", IDLE_CAUSES[which], start[at], end[at])


def _most(lanes: Sequence[_Lane], most: int) -> tuple[list[_Lane], int]:
    """The lanes of the streams or threads with most in them, in their order, and how many are left out."""
    busy: Counter[int | str | None] = Counter()
    for lane in lanes:
        busy[_owner(lane)] += int((lane.end - lane.start).sum())
    # The thread of the steps comes first: it stays, however much others wait.
    first = list(busy)[:1]
    kept = set([*first, *(who for who, _ in busy.most_common() if who not in first)][:most])
    return [lane for lane in lanes if _owner(lane) in kept], len(busy) - len(kept)


def _owner(lane: _Lane) -> int | str | None:
    return lane.stream if lane.thread is None else lane.thread


def _named(lane: _Lane, pieces: Pieces, start_ns: int, resolution_ns: int) -> Pieces:
    """A thread's pieces, each with the innermost of its rows that cover most of it.

    A row that covers at least half as much as any other counts: the outermost ones say least. Rows of less
    than half the resolution, which are nearly all, are looked at only where there is no longer one.
    """
    rows = lane.rows
    if rows is None:
        return pieces
    is_mine = rows.cause == lane.cause
    long = np.flatnonzero(is_mine & (2 * (rows.end_ns - rows.start_ns) >= resolution_ns))
    deepest = _deepest(rows, long, pieces.start + start_ns, pieces.end + start_ns)
    open_ = np.flatnonzero(deepest < 0)
    if len(open_):
        start, end = pieces.start[open_] + start_ns, pieces.end[open_] + start_ns
        deepest[open_] = _deepest(rows, np.flatnonzero(is_mine), start, end)
    return replace(pieces, row=rows.row[deepest].astype(np.int64))


def _deepest(rows: HostRows, at: npt.NDArray[np.intp], start: I64, end: I64) -> npt.NDArray[np.intp]:
    """For each piece the place of the innermost row that covers most of it, -1 where no row does."""
    row, piece, low, high = pairs(rows.start_ns[at], rows.end_ns[at], start, end)
    covers = high - low
    most = np.zeros(len(start), dtype=np.int64)
    np.maximum.at(most, piece, covers)
    enough = 2 * covers >= most[piece]
    deepest = np.full(len(start), -1, dtype=np.intp)
    np.maximum.at(deepest, piece[enough], at[row[enough]])
    return deepest


def _names(trace: Trace, pieces: Sequence[Pieces]) -> tuple[tuple[str, ...], dict[int, int]]:
    """The names to show, and where in them each name of the trace stands."""
    if not pieces:
        return (), {}
    ids = trace.spans.name_id[np.concatenate([each.row for each in pieces])]
    busy = np.bincount(ids, weights=np.concatenate([each.busy for each in pieces]))
    used = np.flatnonzero(np.bincount(ids))
    names: list[str] = []
    place: dict[int, int] = {}
    out: list[int] = []
    left = MOST_NAME_CHARACTERS
    for name in used[np.argsort(-busy[used], kind="stable")].tolist():
        text = trace.names[name]
        if len(text) <= left:
            left -= len(text)
            place[name] = len(names)
            names.append(text)
        else:
            out.append(name)
    if out:
        place |= dict.fromkeys(out, len(names))
        names.append(LEFT_OUT)
    return tuple(names), place


def _told(lane: _Lane, pieces: Pieces, trace: Trace, place: dict[int, int]) -> report.Lane:
    has_events = pieces.has_events
    return report.Lane(
        kind=lane.kind,
        what=lane.what,
        stream=lane.stream,
        thread=lane.thread,
        start_ns=tuple(pieces.start.tolist()),
        dur_ns=tuple((pieces.end - pieces.start).tolist()),
        busy_ns=tuple(pieces.busy.tolist()),
        count=tuple(pieces.count.tolist()),
        name=tuple(place[name] for name in trace.spans.name_id[pieces.row].tolist()) if has_events else (),
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
