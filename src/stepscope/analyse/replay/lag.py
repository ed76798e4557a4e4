"""What each activity of a device waited for: its launch, its stream, or work of another stream.

Where a recorded delay is as short as starting work takes, the typical one stands for it: the replay then
errs, and its error says how well the dependencies explain the run. A long delay that nothing explains stays
as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay.event import EventWaits, waited_events
from stepscope.analyse.replay.queue import NO_WORK, Queue
from stepscope.model.trace import I64
from stepscope.trace.link import COMMUNICATION, COMPUTE

NEAR_NS = 10_000
"""Two instants so close may depend on each other; a delay beyond it is not that of starting work."""
USUAL_LATENCY_NS, USUAL_GAP_NS = 6_000, 1_500
"""Where a trace shows none: from the launch call's start to the work on an idle stream, and between two
queued kernels (medians over traces of V100, A100, H100 and MI300)."""


@dataclass(frozen=True, slots=True)
class Lags:
    """Of each activity its `latency_ns` from launch call to start and its `gap_ns` behind the one before;
    `target` waited for `source` on another stream, and began `lag_ns` after it; `unexplained_ns` is the delay
    of each for which there is no reason."""

    latency_ns: I64
    gap_ns: I64
    target: I64
    source: I64
    lag_ns: I64
    unexplained_ns: I64


def lags(q: Queue, told: EventWaits) -> Lags:
    """Explain every start; `told` are the waits that were asked for, also where nothing had to wait."""
    before = q.before_ns()
    latency, gap = _typical(q, before)
    by_launch = np.where(q.has_launch, q.launch_ns + latency, NO_WORK)
    by_stream = before + gap
    late = q.start_ns - np.maximum(by_launch, by_stream)
    source = _releasing(q, np.flatnonzero(late > NEAR_NS))
    target = np.flatnonzero(source >= 0)
    delay = q.start_ns[target] - q.end_ns[source[target]]
    # What is neither explained nor short stays as recorded, behind what it came last.
    fixed = (np.abs(late) > NEAR_NS) & (source < 0)
    unexplained = np.where(fixed & q.has_launch, np.maximum(late, 0), 0)
    is_by_launch = by_launch >= by_stream
    # Without a launch the stream alone can explain it; work of no known predecessor begins when it did.
    at = np.flatnonzero(fixed & is_by_launch & q.has_launch)
    latency[at] = q.start_ns[at] - q.launch_ns[at]
    at = np.flatnonzero(fixed & ~is_by_launch & (before > NO_WORK))
    gap[at] = q.start_ns[at] - before[at]
    typical = int(np.median(delay)) if len(delay) else 0
    talks, computed = _of_collectives(q, source)
    waiting, awaited = waited_events(q, told, source)
    source = np.concatenate([source[target], computed, awaited])
    target = np.concatenate([target, talks, waiting])
    return Lags(latency, gap, target, source, np.full(len(target), typical, dtype=np.int64), unexplained)


def _typical(q: Queue, before: I64) -> tuple[I64, I64]:
    """The usual latency of each (by what it is) and the usual gap."""
    waited = q.start_ns - q.launch_ns
    # On a device that has nothing left to do nothing but the launch is waited for.
    issued = q.issued_ns
    by_issue = np.argsort(issued, kind="stable")
    reach = np.append(np.int64(NO_WORK), np.maximum.accumulate(q.end_ns[by_issue]))
    earlier = reach[np.searchsorted(issued[by_issue], q.launch_ns, side="left")]
    is_plain = q.has_launch & q.is_first & (q.launch_ns >= np.maximum(before, earlier))
    is_plain &= waited < 20 * NEAR_NS
    usual = int(np.median(waited[is_plain])) if is_plain.sum() >= 5 else USUAL_LATENCY_NS
    latency = np.full(len(q), usual, dtype=np.int64)
    for part in np.unique(q.part).tolist():
        mine = is_plain & (q.part == part)
        if mine.sum() >= 5:
            latency[q.part == part] = int(np.median(waited[mine]))
    between = q.start_ns - before
    is_queued = (~q.has_launch | (q.launch_ns + latency <= before)) & (between >= 0) & (between <= NEAR_NS)
    # The mean: gaps add up.
    gap = int(between[is_queued].mean()) if is_queued.any() else USUAL_GAP_NS
    return latency, np.full(len(q), gap, dtype=np.int64)


def _releasing(q: Queue, late: npt.NDArray[np.intp]) -> I64:
    """Of each late activity the one of another stream that ended last before its start, if just before and
    issued earlier; else -1."""
    found = np.full(len(q), -1, dtype=np.int64)
    if not len(late):
        return found
    bounds = np.flatnonzero(np.append(q.opens, True))
    best = np.full(len(late), NO_WORK, dtype=np.int64)
    for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        reach = np.maximum.accumulate(q.end_ns[low:high])
        at = np.searchsorted(reach, q.start_ns[late], side="right") - 1
        who = low + np.maximum(at, 0)
        fits = (at >= 0) & (q.stream[late] != q.stream[low]) & (q.end_ns[who] > best)
        fits &= (q.end_ns[who] <= q.start_ns[late]) & (q.start_ns[late] - q.end_ns[who] <= 2 * NEAR_NS)
        fits &= ~q.has_launch[who] | ~q.has_launch[late] | (q.launch_ns[who] <= q.launch_ns[late])
        found[late[fits]] = who[fits]
        best[fits] = q.end_ns[who[fits]]
    return found


def _of_collectives(q: Queue, known: I64) -> tuple[I64, I64]:
    """(collective, computation) where a process group makes its stream wait for what was issued before, as
    far as the recording agrees."""
    computes = np.flatnonzero((q.part == COMPUTE) & q.has_launch)
    talks = np.flatnonzero((q.part == COMMUNICATION) & q.has_launch & (known < 0))
    nothing = np.empty(0, dtype=np.int64)
    if not len(computes) or not len(talks):
        return nothing, nothing
    streams, count = np.unique(q.stream[computes], return_counts=True)
    computes = computes[q.stream[computes] == streams[np.argmax(count)]]
    by_launch = computes[np.argsort(q.launch_ns[computes], kind="stable")]
    last = np.maximum.accumulate(by_launch)
    at = np.searchsorted(q.launch_ns[by_launch], q.launch_ns[talks], side="left") - 1
    who = last[np.maximum(at, 0)]
    fits = (at >= 0) & (q.stream[talks] != q.stream[who]) & (q.end_ns[who] <= q.start_ns[talks])
    return talks[fits], who[fits]
