"""What the host waited for in each call that holds it up, and how long it would have stayed there anyway."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay.host import Calls
from stepscope.analyse.replay.queue import NO_WORK, Queue
from stepscope.model.interval import NOTHING, Intervals, union
from stepscope.model.trace import I64

CLOCK_NS = 20_000
"""Host and device clocks of one trace agree this well: a wait may seem to end so much before its work."""
RETURN_NS = 50_000
"""A call returns so soon after what it waited for; a longer delay has another reason and stays."""
USUAL_CALL_NS, USUAL_RETURN_NS = 5_000, 10_000
"""Where a trace shows none: a call that need not wait, and the return of one that had to."""
BLOCKED_LAUNCH_NS, LEAST_OUTSTANDING = 100_000, 256
"""A launch call so long, with so many activities still queued, waits for room (the queue of a stream holds
1,024 on NVIDIA devices; a launch takes 5 µs)."""
EVERY = 16
"""Of launches that wait for room one after another, every so many becomes an event."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Elastic calls by end: when they were entered and left, and their own cost; a row of `call`,
    `activity`, `lag_ns` is a call that returns so much after the end of an activity (one below 0 is the work
    before the program on stream `-1 - activity`). `is_copy` are blocking copies. `skipped` is time in other
    calls that only waited for room."""

    start_ns: I64
    end_ns: I64
    cost_ns: I64
    is_copy: npt.NDArray[np.bool_]
    call: I64
    activity: I64
    lag_ns: I64
    skipped: Intervals


def waits(q: Queue, calls: Calls, own: I64, launch: tuple[I64, I64, I64], bounds: I64) -> Waits:
    """Elastic calls among blocking ones and launches.

    `own` is the last activity that each blocking copy issued, -1 for none; `launch` (start, end, activity)
    of launch calls, by start; no call across one of `bounds` is elastic.
    """
    who, is_known = _waited(q, calls, own)
    keep = is_known.any(axis=0)
    keep &= np.searchsorted(bounds, calls.start_ns, side="right") == np.searchsorted(
        bounds, calls.end_ns, side="left"
    )
    who, is_known = who[:, keep], is_known[:, keep]
    start, end, is_copy = calls.start_ns[keep], calls.end_ns[keep], calls.is_copy[keep]
    done = np.where(is_known, _end(q, who), NO_WORK).max(axis=0, initial=NO_WORK)
    is_blocked = done > start
    free = (end - start)[~is_blocked]
    cost = int(np.median(free)) if len(free) >= 5 else USUAL_CALL_NS
    late = end - done
    short = late[is_blocked & (late <= RETURN_NS)]
    usual = int(np.median(short)) if len(short) >= 5 else USUAL_RETURN_NS
    lag = np.where(is_blocked & (late > RETURN_NS), late, usual)
    at, _ = np.nonzero(is_known.T)
    room_start, room_end, room_after, skipped, usual_launch = _room(q, *launch)
    n = len(start)
    return Waits(
        np.append(start, room_start),
        np.append(end, room_end),
        np.append(
            np.where(is_blocked, np.minimum(cost, end - start), end - start),
            np.full(len(room_start), usual_launch),
        ),
        np.append(is_copy, np.zeros(len(room_start), dtype=bool)),
        np.append(at, n + np.arange(len(room_start))),
        np.append(who.T[is_known.T], room_after),
        np.append(lag[at], np.zeros(len(room_start), dtype=np.int64)),
        skipped,
    )


def _end(q: Queue, who: I64) -> I64:
    """When activities ended, those before the program included."""
    ends = np.append(q.end_ns, NO_WORK)
    earlier = q.free_ns[np.clip(-1 - who, 0, len(q.free_ns) - 1)]
    return np.where(who >= 0, ends[np.maximum(who, -1)], earlier)


def _waited(q: Queue, calls: Calls, own: I64) -> tuple[I64, npt.NDArray[np.bool_]]:
    """(streams, calls): the activity of each stream that a call may have waited for, and whether it did.

    A copy waits for itself. Other calls wait for the last work issued before them of every stream (of the
    whole device) or of the stream whose work ended last before they returned.
    """
    num = len(q.free_ns)
    who = np.full((num, len(calls)), -1, dtype=np.int64)
    for each in range(num):
        low, high = np.searchsorted(q.stream, [each, each + 1]).tolist()
        place = low + np.flatnonzero(q.has_launch[low:high])
        order = place[np.argsort(q.launch_ns[place], kind="stable")]
        count = np.searchsorted(q.launch_ns[order], calls.start_ns, side="left")
        last = np.append(np.int64(-1 - each), np.maximum.accumulate(order))
        who[each] = last[count]
        # The call may wait for an event recorded before the last work.
        over = np.flatnonzero(_end(q, who[each]) > calls.end_ns + CLOCK_NS)
        reach = np.maximum.accumulate(q.end_ns[low:high])
        at = np.searchsorted(reach, calls.end_ns[over], side="right") - 1
        near = (at >= 0) & ~calls.is_whole[over]
        over, at = over[near], low + at[near]
        fits = (q.launch_ns[at] < calls.start_ns[over]) & (calls.end_ns[over] - q.end_ns[at] <= RETURN_NS)
        who[each, over[fits]] = at[fits]
    end = _end(q, who)
    is_open = (end > NO_WORK) & (end <= calls.end_ns + CLOCK_NS)
    latest = np.where(is_open, end, NO_WORK).argmax(axis=0) if num else np.empty(0, dtype=np.int64)
    is_known = is_open & (calls.is_whole | (np.arange(num)[:, None] == latest))
    copies = np.flatnonzero(calls.is_copy)
    is_known[:, copies] = False
    mine = copies[own[copies] >= 0]
    stays = calls.end_ns[mine] >= q.end_ns[own[mine]] - CLOCK_NS
    mine = mine[stays]
    stream = q.stream[own[mine]]
    who[stream, mine], is_known[stream, mine] = own[mine], True
    return who, is_known


def _room(q: Queue, start: I64, end: I64, activity: I64) -> tuple[I64, I64, I64, Intervals, int]:
    """Launches that waited for room: start, end, and the activity at whose end there was room; the time in
    those that are no events; and what a launch takes."""
    is_long = end - start >= BLOCKED_LAUNCH_NS
    usual = int(np.median((end - start)[~is_long])) if not is_long.all() else USUAL_CALL_NS
    nothing = np.empty(0, dtype=np.int64)
    if not is_long.any():
        return nothing, nothing, nothing, NOTHING, usual
    stream = q.stream[activity]
    before = np.full(len(start), -1, dtype=np.int64)
    for each in np.unique(stream[is_long]).tolist():
        low, high = np.searchsorted(q.stream, [each, each + 1]).tolist()
        mine = np.flatnonzero(is_long & (stream == each))
        running = low + np.searchsorted(q.start_ns[low:high], end[mine], side="right") - 1
        queued = activity[mine] - running
        fits = (queued >= LEAST_OUTSTANDING) & (running > low)
        before[mine[fits]] = running[fits] - 1
    blocked = np.flatnonzero(before >= 0)
    if not len(blocked):
        return nothing, nothing, nothing, NOTHING, usual
    is_last = np.append(np.diff(blocked) > 1, True)
    chosen = is_last | (np.arange(len(blocked)) % EVERY == 0)
    at, rest = blocked[chosen], blocked[~chosen]
    return start[at], end[at], before[at], union(start[rest] + usual, end[rest]), usual
