"""Who came late to collectives: by step, without what was inherited, and what it did instead.

A rank is late against the lower median of the ranks of the same collective. What it inherited is taken off:
the end of its previous communication against the others' (a rank that was held up by a late one in another
group is a victim there, and no straggler here). Where a collective does not hold the computation up, the
lateness that a rank brings to the next one contains it: of a run of such collectives the largest counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.align.token import SYNCHRONISING
from stepscope.analyse.joined import Joined, exposed_waits
from stepscope.model.interval import subtract, union
from stepscope.model.peer import SEGMENT_PARTS, PeerTable
from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]
BLOCKING_SHARE = 0.5
"""A collective holds its ranks up where most of its time on most of them is exposed."""
EXPLAINED = 0.3
"""The largest part must be this share of the lateness to be its reason."""
SAME_KERNELS = 0.02
"""As many kernels as the peers, but for this share: the same work."""
MOST_COLUMNS = 500


@dataclass(frozen=True, slots=True)
class Lateness:
    """Matrices (ranks, steps) of a job; NaN where a rank has no matched collective in a step.

    `lateness_ns` is the largest of the step's collectives, `delay_ns` what the rank fell behind in the step
    in all (runs of collectives that hold nobody up count once), `wait_ns` what it waited for others, exposed
    or not, `cost_ns` what the others had to wait for it alone (last less second-last start, of exposed wait).
    """

    steps: I64
    """Numbers of the columns, ascending; below 0 where no step was marked: then the columns are collectives
    in order, or as many neighbours of them as make no more than `MOST_COLUMNS`."""
    lateness_ns: F64
    delay_ns: F64
    wait_ns: F64
    cost_ns: F64
    excess: F64
    """(ranks, steps, SEGMENT_PARTS): what the rank spent beyond the peers' lower median on the way to the
    collective to which it came latest."""
    num_kernels: F64
    """(ranks, steps): kernels beyond the peers' on that way, as a share of theirs."""
    agrees: F64
    """(ranks, steps): of the collectives to which the rank came last, the share (by waiting) in which it also
    has the shortest duration: what the clocks say without clocks. NaN where it never came last."""
    most_cost_ns: F64
    """(ranks, steps): the most that another rank waits exposed; no cost is larger."""
    last_rank: I64
    """Of each instance of `Joined.heads`: the position of the rank that came last."""
    cost_kind: tuple[str | None, ...]
    """Of each rank: the kind of the collectives in which it cost most; `None` where it cost nothing."""
    is_sync: npt.NDArray[np.bool_]
    """Of each of those instances: no rank leaves before all have come."""

    @property
    def has_steps(self) -> bool:
        """The columns are steps."""
        return len(self.steps) > 0 and int(self.steps[0]) >= 0


def lateness(joined: Joined) -> Lateness:
    """Measure the lateness of every rank in every step."""
    calls, at, heads = joined.calls, joined.by_instance, joined.heads
    num = calls.num_ranks
    step = calls.step[at]
    # What the accounting leaves out (warm-up, cut steps, steps that nobody asked for) is nobody's lateness.
    scope = [table.steps.number for table in joined.tables if len(table.steps)]
    if scope:
        step = np.where(np.isin(step, np.unique(np.concatenate(scope))), step, -1)
    steps = np.unique(step[step >= 0])
    has_steps = len(steps) > 0 or bool(scope)
    if not has_steps and len(heads):
        begun = np.argsort(np.argsort(np.minimum.reduceat(joined.start_ns[at], heads), kind="stable"))
        each = -(-len(heads) // MOST_COLUMNS)
        step = joined.spread(begun.astype(np.int64) // each)
        steps = np.arange(int(step.max()) + 1)
    shape = (num, len(steps))
    result = Lateness(
        steps=steps if has_steps else steps - len(steps),
        lateness_ns=np.full(shape, np.nan),
        delay_ns=np.full(shape, np.nan),
        wait_ns=np.full(shape, np.nan),
        cost_ns=np.full(shape, np.nan),
        excess=np.zeros((*shape, len(SEGMENT_PARTS))),
        num_kernels=np.zeros(shape),
        agrees=np.full(shape, np.nan),
        most_cost_ns=np.full(shape, np.nan),
        last_rank=np.empty(0, dtype=np.int64),
        cost_kind=(None,) * num,
        is_sync=np.empty(0, dtype=bool),
    )
    if not len(heads):
        return result
    sync = calls.is_of(*SYNCHRONISING)[at]
    own = _own_lateness(joined)
    last = _last(joined)
    column = np.searchsorted(steps, step)
    is_known = step >= 0
    cost, agrees = _cost(joined, last)
    blocking = _blocking(joined)
    excess, kernels = _excess(joined)
    for rank, mine in enumerate(_by_rank(joined)):
        mine = mine[is_known[mine]]
        mine = mine[np.argsort(joined.start_ns[at[mine]], kind="stable")]
        for where in np.unique(column[mine]).tolist():
            these = mine[column[mine] == where]
            result.wait_ns[rank, where] = joined.wait_ns[at[these]].sum()
            these = these[sync[these]]
            if not len(these):
                continue
            value = own[these]
            run = np.append(0, np.cumsum(blocking[these])[:-1])
            peaks = np.full(int(run[-1]) + 1, np.iinfo(np.int64).min, dtype=np.int64)
            np.maximum.at(peaks, run, value)
            result.delay_ns[rank, where] = peaks.sum()
            best = int(np.argmax(value))
            result.lateness_ns[rank, where] = value[best]
            result.cost_ns[rank, where] = cost[these].sum()
            path = these[: best + 1][run[: best + 1] == run[best]]
            result.excess[rank, where] = excess[path].sum(axis=0)
            result.num_kernels[rank, where] = kernels[path].mean()
            told = agrees[these]
            weight = np.where(np.isnan(told), 0.0, np.maximum(cost[these], 1))
            if weight.sum() > 0:
                result.agrees[rank, where] = float(np.nansum(told * weight) / weight.sum())
    most = _most_cost(joined, column, is_known, shape)
    return Lateness(
        result.steps,
        result.lateness_ns,
        result.delay_ns,
        result.wait_ns,
        np.minimum(result.cost_ns, most),
        result.excess,
        result.num_kernels,
        result.agrees,
        most,
        calls.rank[at[last]],
        _cost_kinds(joined, cost),
        sync[heads],
    )


def _most_cost(
    joined: Joined, column: npt.NDArray[np.intp], is_known: npt.NDArray[np.bool_], shape: tuple[int, int]
) -> F64:
    """(ranks, steps): the most that another rank of its component waits exposed in the step, NaN without any.

    Calls of several streams wait at the same time: of one rank that is one loss.
    """
    calls, at = joined.calls, joined.by_instance
    exposed = np.full(shape, np.nan)
    for rank, mine in enumerate(_by_rank(joined)):
        mine = mine[is_known[mine]]
        order = mine[np.argsort(column[mine], kind="stable")]
        bounds = np.flatnonzero(np.append(True, column[order][1:] != column[order][:-1]))
        for low, high in pairwise([*bounds.tolist(), len(order)]) if len(order) else ():
            call = at[order[low:high]]
            start = calls.start_ns[call]
            waiting = union(start, start + np.maximum(joined.wait_ns[call], 0))
            exposed[rank, column[order[low]]] = subtract(waiting, joined.tables[rank].hidden).total_ns
    most = np.full(shape, np.nan)
    component = joined.clocks.component
    for rank in range(shape[0]):
        others = (component == component[rank]) & (np.arange(shape[0]) != rank)
        waits = np.nan_to_num(exposed[others], nan=-1.0).max(axis=0, initial=-1.0)
        most[rank] = np.where(waits >= 0, waits, np.nan)
    return most


def _by_rank(joined: Joined) -> list[npt.NDArray[np.intp]]:
    """Of each rank its places in `by_instance`."""
    rank = joined.calls.rank[joined.by_instance]
    order = np.argsort(rank, kind="stable")
    bounds = np.searchsorted(rank[order], np.arange(joined.calls.num_ranks + 1)).tolist()
    return [order[low:high] for low, high in pairwise(bounds)]


def _last(joined: Joined) -> npt.NDArray[np.intp]:
    """The place in `by_instance` of the call that began last in each instance."""
    start = joined.start_ns[joined.by_instance]
    order = np.lexsort((start, joined.spread(np.arange(len(joined.heads)))))
    found: npt.NDArray[np.intp] = order[np.append(joined.heads[1:], len(order)) - 1]
    return found


def _own_lateness(joined: Joined) -> I64:
    """Start against the lower median of the instance, less what the rank inherited; over `by_instance`."""
    start = joined.start_ns[joined.by_instance]
    late = start - joined.spread(joined.lower_median(start))
    released = _released(joined)
    # Nobody inherits from before its own first communication.
    has = released > np.iinfo(np.int64).min
    usual = joined.spread(joined.lower_median(np.where(has, released, start)))
    inherited = np.where(has, np.maximum(released - usual, 0), 0)
    own: I64 = late - np.minimum(inherited, np.maximum(late, 0))
    return own


def _released(joined: Joined) -> I64:
    """When each call's rank was last released by another communication before it began; over
    `by_instance`."""
    calls, at = joined.calls, joined.by_instance
    before = np.full(len(calls), np.iinfo(np.int64).min, dtype=np.int64)
    for rank in range(calls.num_ranks):
        mine = calls.of_rank(rank)
        if len(mine) < 2:
            continue
        order = mine[np.argsort(joined.start_ns[mine], kind="stable")]
        ends = np.sort(joined.end_ns[order])
        place = np.searchsorted(ends, joined.start_ns[order], side="right") - 1
        before[order] = np.where(place >= 0, ends[np.maximum(place, 0)], np.iinfo(np.int64).min)
    return before[at]


def _cost(joined: Joined, last: npt.NDArray[np.intp]) -> tuple[I64, F64]:
    """Over `by_instance`: what others waited for a call alone, and whether durations alone name it too."""
    at, heads, sizes = joined.by_instance, joined.heads, joined.sizes
    start = joined.start_ns[at]
    instance = joined.spread(np.arange(len(heads)))
    without = start.copy()
    without[last] = np.iinfo(np.int64).min
    second = np.maximum.reduceat(without, heads)
    exposed = np.zeros(len(joined.calls), dtype=np.int64)
    for rank in range(joined.calls.num_ranks):
        exposed[joined.calls.of_rank(rank)] = exposed_waits(joined, rank)
    waits = exposed[at].copy()
    waits[last] = -1
    order = np.lexsort((waits, instance))
    # The last one's own place comes first; of the others the lower median.
    usual = waits[order][heads + 1 + (sizes - 2) // 2]
    cost = np.zeros(len(at), dtype=np.int64)
    cost[last] = np.maximum(np.minimum(start[last] - second, usual), 0)
    duration = joined.calls.end_ns[at] - joined.calls.start_ns[at]
    shortest = np.minimum.reduceat(duration, heads)
    agrees = np.full(len(at), np.nan)
    agrees[last] = duration[last] <= shortest
    return cost, agrees


def _cost_kinds(joined: Joined, cost: I64) -> tuple[str | None, ...]:
    """Of each rank the kind of collective in which it cost the others most."""
    calls, at = joined.calls, joined.by_instance
    result: list[str | None] = []
    for mine in _by_rank(joined):
        mine = mine[cost[mine] > 0]
        kinds: dict[str, int] = {}
        for token, ns in zip(calls.token[at[mine]].tolist(), cost[mine].tolist(), strict=True):
            kinds[calls.kind[token]] = kinds.get(calls.kind[token], 0) + ns
        result.append(max(kinds, key=lambda kind: kinds[kind]) if kinds else None)
    return tuple(result)


def _blocking(joined: Joined) -> npt.NDArray[np.int64]:
    """1 for calls of instances that hold their ranks up; over `by_instance`."""
    at = joined.by_instance
    exposed = np.empty(len(joined.calls), dtype=np.int64)
    for rank, table in enumerate(joined.tables):
        exposed[joined.calls.of_rank(rank)] = table.collectives.exposed_ns
    duration = np.maximum(joined.calls.end_ns[at] - joined.calls.start_ns[at], 1)
    share = (1_000_000 * exposed[at]) // duration
    result: npt.NDArray[np.int64] = joined.spread(
        (joined.lower_median(share) >= 1_000_000 * BLOCKING_SHARE).astype(np.int64)
    )
    return result


def _excess(joined: Joined) -> tuple[F64, F64]:
    """Over `by_instance`: the segment's parts beyond the instance's lower median, and the share of
    kernels."""
    at = joined.by_instance
    calls = joined.calls
    segment = np.zeros((len(calls), len(SEGMENT_PARTS)), dtype=np.int64)
    kernels = np.zeros(len(calls), dtype=np.int64)
    for rank, table in enumerate(joined.tables):
        segment[calls.of_rank(rank)] = table.collectives.segment
        kernels[calls.of_rank(rank)] = table.collectives.num_kernels
    excess = np.empty((len(at), len(SEGMENT_PARTS)))
    for part in range(len(SEGMENT_PARTS)):
        column = segment[at, part]
        excess[:, part] = column - joined.spread(joined.lower_median(column))
    own = kernels[at]
    usual = joined.spread(joined.lower_median(own))
    return excess, (own - usual) / np.maximum(usual, 1)


def reason(
    late: Lateness,
    tables: tuple[PeerTable, ...],
    rank: int,
    columns: I64,
    parts: F64 | None = None,
    late_ns: float | None = None,
) -> tuple[str, str | None]:
    """(reason, culprit) of a rank's lateness over these columns.

    An idle cause, `slower_kernels`, `more_work`, or `unknown` where no part explains it. `parts` (ranks,
    steps, SEGMENT_PARTS) is the accounting of whole steps, where it is known: what a rank spends in its
    steps beyond the lower median of the others is clearer than what it spends on the way to one collective.
    """
    whole = float(np.nansum(late.lateness_ns[rank, columns])) if late_ns is None else late_ns
    if whole <= 0:
        return "unknown", None
    excess = _beyond(parts, rank, columns) if parts is not None and late.has_steps else None
    if excess is None or excess[OWN].max() < EXPLAINED * whole:
        excess = late.excess[rank, columns].sum(axis=0)
    best = int(OWN[np.argmax(excess[OWN])])
    part = SEGMENT_PARTS[best]
    if excess[best] < EXPLAINED * whole or part in ("unknown", "peer"):
        return "unknown", None
    if part == "compute":
        return _kernels(late, tables, rank, columns)
    cause = "copy_wait" if part == "copy" else part
    named = tables[rank].culprits
    return cause, named.get("copy_exposed" if part == "copy" else cause)


OWN = np.array([n for n, part in enumerate(SEGMENT_PARTS) if part not in ("communication", "queued")])
"""Parts that a rank spends itself: the others wait for it in communication, and it for its device."""


def _beyond(parts: F64, rank: int, columns: I64) -> F64 | None:
    """What a rank spends in these steps beyond the lower median of the others, by part; `None` if unknown."""
    others = np.delete(parts[:, columns], rank, axis=0)
    own = parts[rank, columns]
    known = np.isfinite(own[:, 0]) & np.isfinite(others[:, :, 0]).any(axis=0)
    if not known.any():
        return None
    ordered = np.sort(others[:, known], axis=0)  # NaN last
    middle = (np.isfinite(ordered[:, :, 0]).sum(axis=0) - 1) // 2
    usual = ordered[middle, np.arange(ordered.shape[1])]
    beyond: F64 = np.maximum(own[known] - usual, 0.0).sum(axis=0)
    return beyond


def _kernels(
    late: Lateness, tables: tuple[PeerTable, ...], rank: int, columns: I64
) -> tuple[str, str | None]:
    """Whether a rank computes longer because its kernels are slower or because it has more of them."""
    own = tables[rank].kernels
    if not len(own):
        is_more = float(np.nanmean(late.num_kernels[rank, columns])) > SAME_KERNELS
        # Marks name the phase that took longer, and not why.
        return ("more_work" if is_more else "unknown"), tables[rank].culprits.get("compute")
    more_ns, slower_ns, name = _held_against(tables, rank, [p for p in range(len(tables)) if p != rank])
    if more_ns <= 0 and slower_ns <= 0:
        return "unknown", None
    return ("more_work" if more_ns > slower_ns else "slower_kernels"), name


def kernel_reason(tables: tuple[PeerTable, ...], rank: int, peers: list[int]) -> str:
    """`slower_kernels` or `more_work`, by the kernels of the whole window against those of these peers."""
    more_ns, slower_ns, _ = _held_against(tables, rank, peers)
    return "slower_kernels" if slower_ns > more_ns else "more_work"


def _held_against(
    tables: tuple[PeerTable, ...], rank: int, peers: list[int]
) -> tuple[float, float, str | None]:
    """Time in more kernels than the peers, time in slower ones of the same shape, and the worst one's
    name."""
    own = tables[rank].kernels
    others = [tables[place].kernels for place in peers if len(tables[place].kernels)]
    more_ns, slower_ns = 0.0, 0.0
    beyond = np.zeros(len(own))
    for place, key in enumerate(own.key.tolist()):
        found = _of_peers(others, int(key))
        count, total = int(own.count[place]), float(own.total_ns[place])
        if found is None:
            more_ns += total  # a shape that no peer has
            beyond[place] = total
            continue
        calls, mean = found
        slower_ns += max(0.0, total - count * mean)
        more_ns += max(0.0, (count - calls) * mean)
        beyond[place] = total - calls * mean
    worst = int(np.argmax(beyond)) if len(beyond) else -1
    name = tables[rank].texts[own.name_id[worst]] if worst >= 0 and beyond[worst] > 0 else None
    return more_ns, slower_ns, name


def group_cost_ns(joined: Joined, late: Lateness, columns: dict[int, I64]) -> int:
    """What the others wait for several ranks that are late side by side: the last start less the last of the
    others', at most what those wait exposed (their lower median), over the steps in which any of them is
    late."""
    at, heads = joined.by_instance, joined.heads
    if len(columns) < 2 or not len(heads):
        return 0
    calls = joined.calls
    is_named = np.isin(calls.rank[at], list(columns))
    steps = np.unique(np.concatenate(list(columns.values())))
    chosen = np.isin(calls.step[at], late.steps[steps]) if late.has_steps else np.ones(len(at), dtype=bool)
    start = joined.start_ns[at]
    least = np.iinfo(np.int64).min
    last = np.maximum.reduceat(np.where(is_named, start, least), heads)
    others = np.maximum.reduceat(np.where(is_named, least, start), heads)
    exposed = np.zeros(len(calls), dtype=np.int64)
    for rank in range(calls.num_ranks):
        exposed[calls.of_rank(rank)] = exposed_waits(joined, rank)
    waits = np.where(is_named, np.iinfo(np.int64).max, exposed[at])
    order = np.lexsort((waits, joined.spread(np.arange(len(heads)))))
    num_others = np.add.reduceat((~is_named).astype(np.int64), heads)
    usual = waits[order][heads + np.maximum(num_others - 1, 0) // 2]
    is_both = (last > least) & (others > least) & chosen[heads] & late.is_sync
    return int(np.maximum(np.minimum(last - others, usual), 0)[is_both].sum())


def _of_peers(peers: list, key: int) -> tuple[float, float] | None:  # type: ignore[type-arg]
    """(calls, mean duration) of a kernel by shape on the peers: lower medians over those that ran it."""
    found = []
    for table in peers:
        at = np.flatnonzero(table.key == key)
        if len(at):
            found.append((int(table.count[at[0]]), float(table.total_ns[at[0]]) / int(table.count[at[0]])))
    if len(found) * 2 < len(peers):
        return None
    middle = (len(found) - 1) // 2
    return sorted(count for count, _ in found)[middle], sorted(mean for _, mean in found)[middle]
