"""What streams were told to wait for: events of other streams."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stepscope.analyse.replay.queue import NO_WORK, Queue
from stepscope.model.trace import ABSENT_I64, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.link import COMMUNICATION
from stepscope.trace.thread import Threads


@dataclass(frozen=True, slots=True)
class EventWaits:
    """Calls that make a stream wait, by time: `at_ns` when each was made.

    Where the profiler recorded what for: `stream` waits from `wait_ns` on for what `on_stream` had been given
    by `record_ns`.
    """

    at_ns: I64
    wait_ns: I64
    stream: I64
    on_stream: I64
    record_ns: I64


def event_waits(trace: Trace, threads: Threads, low: int, high: int) -> EventWaits:
    """Those of the launching threads in [low, high)."""
    is_wait = np.array(["StreamWaitEvent" in name for name in trace.names] or [False])
    found = [np.empty(0, dtype=np.int64)]
    for track in threads.driving if is_wait.any() else ():
        r = threads.rows[track]
        mask = (r.kind == Kind.CALL) & is_wait[r.name_id] & (r.start_ns >= low) & (r.start_ns < high)
        found.append(r.start_ns[mask])
    return EventWaits(np.sort(np.concatenate(found)), *_recorded(trace, low, high))


def _recorded(trace: Trace, low: int, high: int) -> tuple[I64, I64, I64, I64]:
    """(when, waiting stream, stream waited for, when its event was recorded) of `Stream Wait Event` rows."""
    s, spans = trace.syncs, trace.spans
    named = np.array([name == "Stream Wait Event" for name in trace.names] or [False])
    at = spans.ts_ns[s.row]
    fits = named[spans.name_id[s.row]] & (s.wait_stream >= 0) & (s.wait_correlation != ABSENT_I64)
    fits &= (at >= low) & (at < high)
    row, on, event = s.row[fits], s.wait_stream[fits], s.wait_correlation[fits]
    c = trace.correlations
    order = np.argsort(c.correlation, kind="stable")
    place = np.minimum(np.searchsorted(c.correlation[order], event), max(len(order) - 1, 0))
    gpu = np.minimum(np.searchsorted(trace.gpu.row, row), max(len(trace.gpu.row) - 1, 0))
    if not len(row) or not len(order) or not len(trace.gpu.row):
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, nothing, nothing
    known = (c.correlation[order[place]] == event) & (trace.gpu.row[gpu] == row)
    record = spans.ts_ns[c.row[order[place]]]
    return spans.ts_ns[row][known], trace.gpu.stream[gpu][known], on[known], record[known]


def waited_events(q: Queue, told: EventWaits, known: I64) -> tuple[I64, I64]:
    """(activity, what of another stream it had to wait for); `known` is what an activity was seen to wait
    for, -1 for nothing."""
    if len(told.wait_ns):
        return _looked_up(q, told)
    return _guessed(q, known, told.at_ns)


def _looked_up(q: Queue, told: EventWaits) -> tuple[I64, I64]:
    """The first activity given to the waiting stream, and the last that the other one had been given."""
    target, source = (np.full(len(told.wait_ns), -1, dtype=np.int64) for _ in range(2))
    for each, label in enumerate(q.label.tolist()):
        low, high = np.searchsorted(q.stream, [each, each + 1]).tolist()
        issued = q.issued_ns[low:high]
        waits, gives = told.stream == label, told.on_stream == label
        next_ = np.searchsorted(issued, told.wait_ns[waits], side="left")
        target[waits] = np.where(next_ < high - low, low + next_, -1)
        last = np.searchsorted(issued, told.record_ns[gives], side="left") - 1
        source[gives] = np.where(last >= 0, low + last, -1)
    fits = (target >= 0) & (source >= 0) & (told.stream != told.on_stream)
    fits[fits] = q.end_ns[source[fits]] <= q.start_ns[target[fits]]
    return target[fits], source[fits]


def _guessed(q: Queue, known: I64, wait_ns: I64) -> tuple[I64, I64]:
    """(activity, what it had to wait for on another stream) of what is launched next after a wait.

    Of which stream the event was is not recorded: of those that had been issued and ended in time the one
    that ended last. Collectives are told apart: see `lag`.
    """
    order = np.flatnonzero(q.has_launch)
    order = order[np.argsort(q.launch_ns[order], kind="stable")]
    at = np.searchsorted(q.launch_ns[order], wait_ns, side="left")
    inside = at < len(order)
    # Of several waits before one launch the last knows most.
    target, last = np.unique(order[at[inside]][::-1], return_index=True)
    asked = wait_ns[inside][::-1][last]
    fits = (q.part[target] != COMMUNICATION) & (known[target] < 0)
    target, asked = target[fits], asked[fits]
    best, source = np.full(len(target), NO_WORK, dtype=np.int64), np.full(len(target), -1, dtype=np.int64)
    bounds = np.flatnonzero(np.append(q.opens, True))
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        mine = low + np.flatnonzero(q.has_launch[low:high])
        mine = mine[np.argsort(q.launch_ns[mine], kind="stable")]
        issued = np.append(low - 1, np.maximum.accumulate(mine))[
            np.searchsorted(q.launch_ns[mine], asked, side="left")
        ]
        ended = (
            low
            - 1
            + np.searchsorted(np.maximum.accumulate(q.end_ns[low:high]), q.start_ns[target], side="right")
        )
        who = np.minimum(issued, ended)
        is_one = (who >= low) & (q.stream[target] != q.stream[low])
        is_one &= np.where(is_one, q.end_ns[who], NO_WORK) > best
        source[is_one], best[is_one] = who[is_one], q.end_ns[who[is_one]]
    return target[source >= 0], source[source >= 0]
