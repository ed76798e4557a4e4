"""What clocks must obey, whatever the fit: causality, one clock a host, messages both ways."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.align.match import UNMATCHED, Matching
from stepscope.align.token import POINT_TO_POINT, Calls
from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]

MIN_SPREAD_NS = 1_000.0
"""The profiler writes whole microseconds, and ends differ by 1 to 7 of them."""
SAME_HOST_NS = 50_000
"""Ranks of one host read one clock through one profiler: more between them contradicts that."""


@dataclass(slots=True)
class State:
    """What the fit knows so far, by rank."""

    offset: I64
    drift: F64
    drift_error: F64
    residual: F64
    error: F64
    is_stepped: bool = False
    """A clock seems to have been set anew inside the window."""


def inside_bounds(
    calls: Calls, matching: Matching, at: npt.NDArray[np.intp], state: State, pivot: int
) -> int:
    """Move offsets as little as it takes for causality to hold; the violation that is left, at most."""
    if not len(at):
        return 0
    rank, of = calls.rank[at], matching.instance[at]
    order = np.argsort(of, kind="stable")
    rank, of = rank[order], of[order]
    head = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    start, end = calls.start_ns[at][order], calls.end_ns[at][order]

    def corrected(local: I64) -> I64:
        whole = local - state.offset[rank]
        return whole - np.round(state.drift[rank] * (whole - pivot).astype(np.float64)).astype(np.int64)

    worst = 0
    for _ in range(200):
        begun, left = corrected(start), corrected(end)
        latest, earliest = np.maximum.reduceat(begun, head), np.minimum.reduceat(left, head)
        violation = latest - earliest
        worst = int(violation.max())
        if worst <= 0:
            break
        which = int(np.argmax(violation))
        low, high = head[which], np.append(head[1:], len(of))[which]
        late = int(rank[low + int(np.argmax(begun[low:high]))])
        early = int(rank[low + int(np.argmin(left[low:high]))])
        if late == early:
            break
        half = worst // 2 + 1
        state.offset[late] += half
        state.offset[early] -= half
    # Of a rank with one collective the fit has no error: what the bounds leave open is one.
    begun, left = corrected(start), corrected(end)
    latest, earliest = np.maximum.reduceat(begun, head), np.minimum.reduceat(left, head)
    open_ = (np.repeat(earliest - latest, np.diff(np.append(head, len(of))))).astype(np.float64)
    least = np.full(calls.num_ranks, np.inf)
    np.minimum.at(least, rank, np.maximum(open_, 0.0))
    alone = np.isnan(state.error) & np.isfinite(least)
    state.error[alone] = np.maximum(least[alone] / 2.0, MIN_SPREAD_NS)
    return max(worst, 0)


def same_hosts(
    calls: Calls,
    matching: Matching,
    at: npt.NDArray[np.intp],
    component: I64,
    state: State,
    hosts: Sequence[str | None],
) -> None:
    """Give ranks of one host one clock where their collectives tell less, and do not contradict it."""
    places: dict[tuple[str, int], list[int]] = {}
    for rank, host in enumerate(hosts):
        if host is not None and component[rank] >= 0:
            places.setdefault((host, int(component[rank])), []).append(rank)
    for ranks in places.values():
        mine = np.array(ranks)
        error = np.where(np.isnan(state.error[mine]), np.inf, state.error[mine])
        if len(mine) < 2 or error.max() <= SAME_HOST_NS / 3 or state.drift[mine].any():
            continue
        centre = int(np.median(state.offset[mine]))
        if (np.abs(state.offset[mine] - centre) > SAME_HOST_NS + 3 * error).any():
            continue
        before = state.offset.copy()
        state.offset[mine] = centre
        if _violation(calls, matching, at, state) > SAME_HOST_NS:
            state.offset[:] = before
            continue
        state.error[mine] = SAME_HOST_NS / 3


def _violation(calls: Calls, matching: Matching, at: npt.NDArray[np.intp], state: State) -> int:
    """By how much offsets alone violate causality, the most."""
    order = at[np.argsort(matching.instance[at], kind="stable")]
    of = matching.instance[order]
    head = np.flatnonzero(np.append(True, of[1:] != of[:-1]))
    begun = calls.start_ns[order] - state.offset[calls.rank[order]]
    left = calls.end_ns[order] - state.offset[calls.rank[order]]
    return int((np.maximum.reduceat(begun, head) - np.minimum.reduceat(left, head)).max())


def join_by_messages(calls: Calls, matching: Matching, component: I64, state: State) -> I64:
    """Join components between which messages go both ways: the offset lies between two bounds."""
    at = np.flatnonzero((matching.instance != UNMATCHED) & calls.is_of(*POINT_TO_POINT))
    if not len(at):
        return component
    component = component.copy()
    # A rank without any collective is a component of its own, once a message reaches it.
    for rank in np.unique(calls.rank[at]).tolist():
        if component[rank] < 0:
            component[rank] = int(component.max()) + 1
    order = np.argsort(matching.instance[at], kind="stable")
    at = at[order]
    is_send = calls.is_of("send")[at]
    sends, receives = at[is_send], at[~is_send]
    sender = {int(matching.instance[call]): int(call) for call in sends.tolist()}
    while True:
        bounds: dict[tuple[int, int], list[float]] = {}
        for call in receives.tolist():
            source = sender.get(int(matching.instance[call]))
            if source is None:
                continue
            a, b = int(component[calls.rank[source]]), int(component[calls.rank[call]])
            if a == b:
                continue
            sent = int(calls.start_ns[source] - state.offset[calls.rank[source]])
            got = int(calls.end_ns[call] - state.offset[calls.rank[call]])
            # How far b's axis is ahead of a's: at most got - sent, where the message goes from a to b.
            low_high = bounds.setdefault((min(a, b), max(a, b)), [-np.inf, np.inf])
            if a < b:
                low_high[1] = min(low_high[1], got - sent)
            else:
                low_high[0] = max(low_high[0], sent - got)
        both = [
            (high - low, pair, low, high)
            for pair, (low, high) in bounds.items()
            if np.isfinite(low) and np.isfinite(high) and high >= low
        ]
        if not both:
            return component
        width, (a, b), low, high = min(both)
        mine = component == b
        state.offset[mine] += round((low + high) / 2)
        state.error[mine] = np.fmax(state.error[mine], width / 2)
        state.error[component == a] = np.fmax(state.error[component == a], 0.0)
        component[mine] = a
