"""Which call of one rank is the same collective as which call of another.

Where the framework numbered the collectives of a group, equal numbers belong together. Elsewhere two ranks
are laid beside each other twice, by their steps (the same calls in the same order within a step of the same
number) and by time alone (the one offset at which most ends coincide: all ranks leave a synchronising
collective within microseconds), and the better of the two counts. Neither needs the clocks to agree, nor the
windows to begin together, nor every record to be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.align.token import POINT_TO_POINT, SYNCHRONISING, Calls, is_numbered
from stepscope.model.trace import ABSENT_I64, I64

UNMATCHED = -1
TOLERANCES_NS = (20_000, 200_000, 2_000_000)
"""How far apart the ends of one collective may lie: over a node's links, over a network, on a processor. The
first at which nearly all match counts (8 ranks over NVLink end within 1 to 7 microseconds)."""
ENOUGH = 0.8
"""Nearly all: of the shorter of the two lists."""
MOST_DRIFT = 2e-4
"""No two clocks of computers drift apart faster (crystals: 50 to 100 parts per million each)."""
CHUNK, CHUNK_NS = 256, 2_000_000_000
"""How many calls, and of what time, are laid over the other list at once: within that the drift is small."""
GAIN = 3.0
"""Time alone must fit so much better than the steps do before the numbers of steps are disbelieved."""
WORST = 0.9
"""Of the pairs of one laying: where a part of them is one place off, the median may not show it."""
SAME_NS = 20_000
"""And fits of under this are equally good."""


@dataclass(frozen=True, slots=True)
class Matching:
    """`instance` of each call, `UNMATCHED` for calls without partner; `num` instances, each of two ranks or
    more and of a rank at most once."""

    instance: I64
    num: int


def match(calls: Calls) -> Matching:
    """Match the calls of all ranks. Calls are matched within one process group only."""
    leader = np.arange(len(calls), dtype=np.int64)
    numbered = is_numbered(calls)
    is_pair = calls.is_of(*POINT_TO_POINT)
    _by_number(calls, np.flatnonzero(numbered & ~is_pair), leader)
    rest = np.flatnonzero(~numbered & ~is_pair)
    if len(rest):
        _by_reference(calls, rest, leader)
    _pairs(calls, np.flatnonzero(is_pair), leader)
    return _numbered(calls, leader)


def _numbered(calls: Calls, leader: I64) -> Matching:
    """Instances of two ranks or more, numbered in order of their leaders."""
    _, which, count = np.unique(leader, return_inverse=True, return_counts=True)
    keep = count[which] > 1
    instance = np.full(len(calls), UNMATCHED, dtype=np.int64)
    if keep.any():
        _, instance[keep] = np.unique(which[keep], return_inverse=True)
    return Matching(instance, int(instance.max(initial=-1)) + 1)


# ── by number ──────────────────────────────────────────────────────────────────────────────────────


def _by_number(calls: Calls, at: npt.NDArray[np.intp], leader: I64) -> None:
    """Equal group, number and token; of several with one number on a rank the first belongs to the first."""
    if not len(at):
        return
    occurrence = _occurrence(calls.rank[at], calls.token[at], calls.sequence[at])
    _lead(at, (calls.token[at], calls.sequence[at], occurrence), leader)


def _occurrence(*columns: I64) -> I64:
    """How many rows before each one equal it in every column."""
    if not len(columns[0]):
        return np.empty(0, dtype=np.int64)
    order = np.lexsort(columns[::-1])
    is_head = np.ones(len(order), dtype=bool)
    is_head[1:] = np.any([c[order][1:] != c[order][:-1] for c in columns], axis=0)
    head = np.maximum.accumulate(np.where(is_head, np.arange(len(order)), 0))
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order)) - head
    return result


def _lead(at: npt.NDArray[np.intp], key: tuple[I64, ...], leader: I64) -> None:
    """Calls with an equal key get the first of them as their leader."""
    order = np.lexsort(key[::-1])
    is_head = np.ones(len(order), dtype=bool)
    is_head[1:] = np.any([c[order][1:] != c[order][:-1] for c in key], axis=0)
    head = np.maximum.accumulate(np.where(is_head, np.arange(len(order)), 0))
    leader[at[order]] = at[order][head]


# ── against a reference ────────────────────────────────────────────────────────────────────────────


def _by_reference(calls: Calls, at: npt.NDArray[np.intp], leader: I64) -> None:
    """Each rank against the one before it in a tree over ranks that share tokens; then what is left over."""
    bounds = np.searchsorted(calls.rank[at], np.arange(calls.num_ranks + 1)).tolist()
    mine = [at[low:high] for low, high in pairwise(bounds)]
    sync = calls.is_of(*SYNCHRONISING)
    tokens = [set(np.unique(calls.token[each[sync[each]]]).tolist()) for each in mine]
    left = {rank for rank in range(calls.num_ranks) if len(mine[rank])}
    shift = np.zeros(calls.num_ranks, dtype=np.int64)
    slope = np.zeros(calls.num_ranks)
    while left:
        root = max(left, key=lambda rank: (len(mine[rank]), -rank))
        left.remove(root)
        placed, newest = [root], root
        # Of each rank that is left, the placed one with which it shares most.
        nearest: dict[int, tuple[int, int, int]] = {}
        while left:
            for rank in left:
                shared = len(tokens[rank] & tokens[newest])
                if shared and (shared, len(mine[newest])) > nearest.get(rank, (0, 0, 0))[:2]:
                    nearest[rank] = (shared, len(mine[newest]), newest)
            if not nearest:
                break
            rank = max(nearest, key=lambda each: (nearest[each][:2], -each))
            other = nearest.pop(rank)[2]
            left.remove(rank)
            a, b = mine[other][sync[mine[other]]], mine[rank][sync[mine[rank]]]
            found = _pair_up(calls, a, b)
            leader[b[found.b]] = leader[a[found.a]]
            # Placed on the axis of the rank it was held against, which has its own place on the root's.
            shift[rank] = found.offset_ns + shift[other]
            slope[rank] = found.drift + slope[other]
            placed.append(rank)
            newest = rank
        _left_over(calls, [mine[rank] for rank in placed], placed, shift, slope, leader)


@dataclass(frozen=True, slots=True)
class _Pairing:
    """Positions in a and in b that belong together, and b's clock against a's."""

    a: npt.NDArray[np.intp]
    b: npt.NDArray[np.intp]
    offset_ns: int
    drift: float
    spread_ns: float


_NOBODY = np.empty(0, dtype=np.intp)


def _pair_up(calls: Calls, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> _Pairing:
    """The better of the two ways to lay b over a."""
    by_step, by_time = _by_step(calls, a, b), _by_time(calls, a, b)
    if not len(by_step.a) or not len(by_time.a):
        return by_step if len(by_step.a) else by_time
    most = max(len(by_step.a), len(by_time.a))
    is_few = len(by_step.a) < ENOUGH * most
    is_worse = by_step.spread_ns > max(GAIN * by_time.spread_ns, SAME_NS)
    return by_time if (is_worse and len(by_time.a) >= ENOUGH * most) or is_few else by_step


def _by_step(calls: Calls, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> _Pairing:
    """Calls of the same token and place in a step of the same number, where both ranks have as many.

    What lies outside of every step counts as one.
    """
    in_a, in_b = np.arange(len(a)), np.arange(len(b))
    key_a, key_b = _step_keys(calls, a[in_a]), _step_keys(calls, b[in_b])
    # A step that is cut on one rank has calls missing at an unknown place: only equal steps are laid over.
    whole = _equal_steps(key_a, key_b)
    keep_a, keep_b = np.isin(key_a[:, 0], whole), np.isin(key_b[:, 0], whole)
    key_a, key_b, in_a, in_b = key_a[keep_a], key_b[keep_b], in_a[keep_a], in_b[keep_b]
    if not len(in_a):
        return _Pairing(_NOBODY, _NOBODY, 0, 0.0, np.inf)
    _, which = np.unique(np.concatenate([key_a, key_b]), axis=0, return_inverse=True)
    which = which.reshape(-1)
    _, at_a, at_b = np.intersect1d(
        which[: len(in_a)], which[len(in_a) :], assume_unique=True, return_indices=True
    )
    pair_a, pair_b = in_a[at_a], in_b[at_b]
    order = np.argsort(pair_a, kind="stable")
    return _paired(calls, a, b, pair_a[order], pair_b[order])


def _step_keys(calls: Calls, at: npt.NDArray[np.intp]) -> I64:
    """(step, token, how many of both before) of each call."""
    step, token = calls.step[at], calls.token[at]
    return np.column_stack([step, token, _occurrence(step, token)])


def _equal_steps(key_a: I64, key_b: I64) -> I64:
    """Numbers of the steps in which both have as many calls of each token."""
    steps = np.intersect1d(key_a[:, 0], key_b[:, 0])
    counts = []
    for key in (key_a, key_b):
        cell, count = np.unique(key[:, :2], axis=0, return_counts=True)
        counts.append({tuple(c): n for c, n in zip(cell.tolist(), count.tolist(), strict=True)})
    differ = {step for step, _ in counts[0].keys() ^ counts[1].keys()}
    differ |= {cell[0] for cell in counts[0].keys() & counts[1].keys() if counts[0][cell] != counts[1][cell]}
    return steps[~np.isin(steps, np.array(sorted(differ), dtype=np.int64))]


def _by_time(calls: Calls, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp]) -> _Pairing:
    """The offset at which most ends of equal tokens coincide, followed over the whole of b."""
    best = _Pairing(_NOBODY, _NOBODY, 0, 0.0, np.inf)
    for tolerance in TOLERANCES_NS:
        found = _follow(calls, a, b, _vote(calls, a, b, tolerance), tolerance)
        if len(found.a) > len(best.a):
            best = found
        if len(best.a) >= ENOUGH * min(len(a), len(b)):
            break
    return best


def _vote(calls: Calls, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp], tolerance: int) -> tuple[int, int]:
    """(offset, when on b's clock) of the best agreement of a chunk of b with all of a.

    Of equally good ones the smallest offset: clocks are set before a job begins.
    """
    end_a, end_b = calls.end_ns[a], calls.end_ns[b]
    middle = len(b) // 2
    low = max(0, middle - CHUNK // 2)
    inside = np.arange(low, min(len(b), low + CHUNK))
    inside = inside[np.abs(end_b[inside] - end_b[middle]) <= CHUNK_NS // 2]
    if len(inside) < 8:
        inside = np.arange(max(0, middle - 4), min(len(b), middle + 4))
    width = tolerance + int(MOST_DRIFT * int(np.ptp(end_b[inside]) if len(inside) else 0))
    difference = (end_b[inside][:, None] - end_a[None, :])[
        calls.token[b[inside]][:, None] == calls.token[a][None, :]
    ]
    if not len(difference):
        return 0, 0
    difference = np.sort(difference)
    count = np.searchsorted(difference, difference + width, side="right") - np.arange(len(difference))
    good = np.flatnonzero(count == count.max())
    centre = np.array([np.median(difference[i : i + count[i]]) for i in good.tolist()])
    return int(centre[np.argmin(np.abs(centre))]), int(end_b[inside[len(inside) // 2]])


def _follow(
    calls: Calls, a: npt.NDArray[np.intp], b: npt.NDArray[np.intp], vote: tuple[int, int], tolerance: int
) -> _Pairing:
    """Pairs that are each other's nearest at the offset, which is then fitted with its drift, and again."""
    offset, pivot = vote
    end_a, end_b = calls.end_ns[a], calls.end_ns[b]
    token_a, token_b = calls.token[a], calls.token[b]
    drift = 0.0
    reach = float(CHUNK_NS)
    extent = float(np.abs(end_b - pivot).max(initial=0))
    pair_a, pair_b = _NOBODY, _NOBODY
    while True:
        near = np.flatnonzero(np.abs(end_b - pivot) <= reach)
        away = (end_b[near] - pivot).astype(np.float64)
        moved = end_b[near] - offset - np.round(drift * away).astype(np.int64)
        hit_a, hit_b = _nearest(end_a, token_a, moved, token_b[near], tolerance + int(MOST_DRIFT * 1e9))
        pair_a, pair_b = hit_a, near[hit_b]
        offset, drift = _line(end_a[pair_a], end_b[pair_b], pivot, offset, drift)
        if reach >= extent:
            break
        # Within twice the time the drift found so far carries no further than the tolerance.
        reach *= 2.0
    away = (end_b[pair_b] - pivot).astype(np.float64)
    left = end_b[pair_b] - offset - np.round(drift * away).astype(np.int64) - end_a[pair_a]
    keep = np.abs(left) <= tolerance
    return _paired(calls, a, b, pair_a[keep], pair_b[keep])


def _line(end_a: I64, end_b: I64, pivot: int, offset: int, drift: float) -> tuple[int, float]:
    """Offset at the pivot and drift of b against a through these pairs, outliers left out."""
    if len(end_a) == 0:
        return offset, drift
    difference = (end_b - end_a - offset).astype(np.float64)
    away = (end_b - pivot).astype(np.float64)
    keep = np.ones(len(difference), dtype=bool)
    slope, base = drift, float(np.median(difference))
    for _ in range(3):
        x, y = away[keep], difference[keep]
        spread = float(np.ptp(x)) if len(x) else 0.0
        slope = float(np.polyfit(x, y, 1)[0]) if len(x) >= 8 and spread > 1e8 else 0.0
        slope = float(np.clip(slope, -MOST_DRIFT, MOST_DRIFT))
        base = float(np.median(y - slope * x)) if len(x) else base
        left = np.abs(difference - base - slope * away)
        keep = left <= max(3.0 * float(np.median(left)), 1_000.0)
    return offset + round(base), slope


def _nearest(
    end_a: I64, token_a: I64, end_b: I64, token_b: I64, tolerance: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Positions of calls of one token that are each other's nearest, and near."""
    found_a, found_b = [], []
    for token in np.intersect1d(token_a, token_b).tolist():
        of_a, of_b = np.flatnonzero(token_a == token), np.flatnonzero(token_b == token)
        of_a = of_a[np.argsort(end_a[of_a], kind="stable")]
        of_b = of_b[np.argsort(end_b[of_b], kind="stable")]
        x, y = end_a[of_a], end_b[of_b]
        to_a, to_b = _closest(x, y), _closest(y, x)
        mutual = to_b[to_a] == np.arange(len(y))
        near = np.abs(x[to_a] - y) <= tolerance
        keep = np.flatnonzero(mutual & near)
        found_a.append(of_a[to_a[keep]])
        found_b.append(of_b[keep])
    if not found_a:
        return _NOBODY, _NOBODY
    pair_a, pair_b = np.concatenate(found_a), np.concatenate(found_b)
    order = np.argsort(pair_a, kind="stable")
    return pair_a[order], pair_b[order]


def _closest(sorted_: I64, wanted: I64) -> npt.NDArray[np.intp]:
    """The place of the number nearest to each wanted one; of two equally near the earlier."""
    right = np.minimum(np.searchsorted(sorted_, wanted), len(sorted_) - 1)
    left = np.maximum(right - 1, 0)
    return np.where(wanted - sorted_[left] <= np.abs(sorted_[right] - wanted), left, right)


def _paired(
    calls: Calls,
    a: npt.NDArray[np.intp],
    b: npt.NDArray[np.intp],
    pair_a: npt.NDArray[np.intp],
    pair_b: npt.NDArray[np.intp],
) -> _Pairing:
    """The pairing with what it says of the clocks."""
    if not len(pair_a):
        return _Pairing(_NOBODY, _NOBODY, 0, 0.0, np.inf)
    end_a, end_b = calls.end_ns[a[pair_a]], calls.end_ns[b[pair_b]]
    pivot = int(end_b[0])
    first = int(np.median(end_b - end_a))
    offset, drift = _line(end_a, end_b, pivot, first, 0.0)
    left = end_b - end_a - offset - np.round(drift * (end_b - pivot).astype(np.float64))
    return _Pairing(pair_a, pair_b, offset, drift, float(np.quantile(np.abs(left), WORST)))


def _left_over(
    calls: Calls,
    mine: list[npt.NDArray[np.intp]],
    ranks: list[int],
    shift: I64,
    slope: npt.NDArray[np.float64],
    leader: I64,
) -> None:
    """Calls without partner among ranks that have been placed: by time, on the common axis.

    A record that the reference lost is on the other ranks still; a broadcast has no common end, and is
    matched by its order where all ranks have as many.
    """
    sync = calls.is_of(*SYNCHRONISING)
    lone = [each[(leader[each] == each) & ~_is_led(leader, each)] for each in mine]
    first = int(min((calls.end_ns[each].min() for each in mine if len(each)), default=0))
    at = np.concatenate([each[sync[each]] for each in lone]) if lone else _NOBODY
    if len(at):
        rank = calls.rank[at]
        away = (calls.end_ns[at] - first).astype(np.float64)
        end = calls.end_ns[at] - shift[rank] - np.round(slope[rank] * away).astype(np.int64)
        order = np.lexsort((end, calls.token[at]))
        head = -1
        members: set[int] = set()
        for place in order.tolist():
            call = int(at[place])
            is_same = (
                head >= 0
                and calls.token[call] == calls.token[at[head]]
                and end[place] - end[head] <= TOLERANCES_NS[0]
                and int(rank[place]) not in members
            )
            if not is_same:
                head, members = place, set()
            members.add(int(rank[place]))
            leader[call] = at[head]
    other = [each[~sync[each]] for each in lone]
    for token in {int(t) for each in other for t in np.unique(calls.token[each]).tolist()}:
        lists = [each[calls.token[each] == token] for each in other]
        lists = [each for each in lists if len(each)]
        if len(lists) > 1 and len({len(each) for each in lists}) == 1:
            for follower in lists[1:]:
                leader[follower] = lists[0]


def _is_led(leader: I64, at: npt.NDArray[np.intp]) -> npt.NDArray[np.bool_]:
    """Whether some other call follows each of these."""
    count = np.bincount(leader, minlength=len(leader))
    result: npt.NDArray[np.bool_] = count[at] > 1
    return result


# ── point to point ─────────────────────────────────────────────────────────────────────────────────


def _pairs(calls: Calls, at: npt.NDArray[np.intp], leader: I64) -> None:
    """A send with the receive of the same pair of ranks, in order."""
    kinds = np.array(calls.kind, dtype=object)[calls.token[at]] if len(at) else np.empty(0, dtype=object)
    sends, receives = at[kinds == "send"], at[kinds == "recv"]
    keys: dict[tuple[int, int, int], tuple[list[int], list[int]]] = {}
    for which, calls_of_kind in enumerate((sends, receives)):
        for call in calls_of_kind.tolist():
            src = calls.src[call] if calls.src[call] != ABSENT_I64 else None
            dst = calls.dst[call] if calls.dst[call] != ABSENT_I64 else None
            key = (int(calls.group[call]), -1 if src is None else int(src), -1 if dst is None else int(dst))
            keys.setdefault(key, ([], []))[which].append(call)
    for sent, received in keys.values():
        if not sent or not received:
            continue
        a, b = np.array(sent), np.array(received)
        # The two ends of a message have numbers of their own: each process counts all of its messages.
        short, long = (a, b) if len(a) <= len(b) else (b, a)
        first = _shift(calls.end_ns[short], calls.end_ns[long])
        long = long[first : first + len(short)]
        if short is a:
            leader[long] = a
        else:
            leader[b] = long


def _shift(short_ns: I64, long_ns: I64) -> int:
    """Where in the longer list the shorter one begins: where the differences of ends agree best."""
    spare = len(long_ns) - len(short_ns)
    if spare == 0:
        return 0
    apart = [long_ns[at : at + len(short_ns)] - short_ns for at in range(spare + 1)]
    spread = [float(np.median(np.abs(each - np.median(each)))) for each in apart]
    return int(np.argmin(spread))
