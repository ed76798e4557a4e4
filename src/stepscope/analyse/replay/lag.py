"""What each activity of a device waited for: its launch, its stream, or work of another stream.

Where a recorded delay is as short as starting work takes, the typical one stands for it: the replay then
errs, and its error says how well the dependencies explain the run. A long delay that nothing explains stays
as it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64
from stepscope.trace.link import COMMUNICATION, COMPUTE

NEAR_NS = 10_000
"""Two instants so close may depend on each other; a delay beyond it is not that of starting work."""
USUAL_LATENCY_NS, USUAL_GAP_NS = 6_000, 1_500
"""Where a trace shows none: from the launch call's start to the work on an idle stream, and between two
queued kernels (medians over traces of V100, A100, H100 and MI300)."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Activities of one device in order of (stream, start). `launch_ns` counts where `has_launch`.

    `stream` numbers streams from 0; `free_ns` (streams,) is when earlier work of each ended, `NO_WORK` for
    none; `is_first` marks the first activity of its launch.
    """

    stream: I64
    start_ns: I64
    end_ns: I64
    launch_ns: I64
    has_launch: npt.NDArray[np.bool_]
    part: I32
    is_first: npt.NDArray[np.bool_]
    free_ns: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def opens(self) -> npt.NDArray[np.bool_]:
        """The first of each stream."""
        first = np.ones(len(self), dtype=bool)
        first[1:] = self.stream[1:] != self.stream[:-1]
        return first

    @property
    def issued_ns(self) -> I64:
        """When each was launched, or else began."""
        return np.where(self.has_launch, self.launch_ns, self.start_ns)

    def before_ns(self) -> I64:
        """When the activity before each on its stream ended."""
        before = np.empty(len(self), dtype=np.int64)
        before[1:] = self.end_ns[:-1]
        opens = self.opens
        before[opens] = self.free_ns[self.stream[opens]]
        return before


NO_WORK = -(2**60)


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


def lags(q: Queue, wait_ns: I64) -> Lags:
    """Explain every start. `wait_ns` are the calls that make a stream wait for an event of another, by time:
    what is launched next waits, also where it did not have to this time."""
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
    waiting, awaited = _after_event(q, source, wait_ns)
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


def _after_event(q: Queue, known: I64, wait_ns: I64) -> tuple[I64, I64]:
    """(activity, what it had to wait for on another stream) of what is launched next after a wait.

    Of which stream the event was is not recorded: of those that had been issued and ended in time the one
    that ended last. Collectives are told apart: see `_of_collectives`.
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
