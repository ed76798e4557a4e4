"""Clocks of ranks from the collectives that they share.

    true = local - offset - drift * (local - pivot)

An offset above 0 means that this clock is ahead; the pivot is the start of the window; the reference is the
rank with the lower-median offset of each component (ranks that no shared collective joins have no common
axis).

1. Causality gives hard bounds: in every synchronising collective no rank ends before any rank starts; a
receive
   ends after its send started.
2. Inside the bounds, a robust (Huber) fit of the ends of matched collectives: all ranks leave within
microseconds,
   whenever they came.
3. A drift counts only beyond three standard errors: in a short window it cannot be told, and is said so.

Residual is not error: the residual is how far aligned ends still disagree, the error how well the offset is
known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.align.bound import (
    MIN_SPREAD_NS,
    SAME_HOST_NS,
    State,
    inside_bounds,
    join_by_messages,
    same_hosts,
)
from stepscope.align.match import MOST_DRIFT, UNMATCHED, Matching
from stepscope.align.token import SYNCHRONISING, Calls
from stepscope.model.trace import I64

HUBER = 1.345
"""Residuals beyond so many standard deviations count less (95 % efficiency on normal ones: Huber)."""
MOST_CALLS = 200_000
"""Calls that are fitted: evenly spaced instances are enough."""
DRIFT_ERRORS = 3.0
ENDS_AGREE_NS = 7_000
"""One matched collective has no residual: its ends are then taken to agree as in a set of 8 ranks over
NVLink."""
MOST_VIOLATION_NS = 100_000
"""Causality violated by more than this: the matched calls are not the same collectives, or do not wait."""

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RankClocks:
    """Clocks by position of the rank. `component` numbers ranks with a common axis, -1 where a rank shares
    nothing with anybody. `offset_ns` is 0 where unknown: ask `component`.

    `drift` is a ratio, 0 where it is not identifiable; `drift_error` one standard error, NaN where nothing
    tells. `error_ns` is one standard error of the offset, or half of what the bounds leave open.
    """

    component: I64
    reference: I64
    """For each rank the position of its component's reference, -1 without component."""
    pivots_ns: I64
    """Of each rank, on the axis of its component's reference: the start of the component's window."""
    offset_ns: I64
    drift: F64
    drift_error: F64
    residual_ns: F64
    error_ns: F64
    num_matched: I64
    violation_ns: int
    """By how much corrected times still violate causality, the most."""
    allowed_violation_ns: int = MOST_VIOLATION_NS
    """Ends that are this uneven by themselves may violate it by as much."""
    is_shared: npt.NDArray[np.bool_] | None = None
    """Ranks that read their reference's own clock; `None` where no clock is known to be shared."""

    def corrected(self, rank: I64, local_ns: I64) -> I64:
        """These times of these ranks on the common axis of their component."""
        whole = local_ns - self.offset_ns[rank]
        drifted = self.drift[rank] * (whole - self.pivots_ns[rank]).astype(np.float64)
        return whole - np.round(drifted).astype(np.int64)

    @property
    def pivot_ns(self) -> int:
        """That of the component of the first rank that has one; 0 where none has."""
        known = np.flatnonzero(self.component == 0)
        return int(self.pivots_ns[known[0]]) if len(known) else 0

    @property
    def has_one_axis(self) -> bool:
        """Every rank is in one component."""
        return (
            len(self.component) > 0
            and bool((self.component == self.component[0]).all())
            and (int(self.component[0]) >= 0)
        )


def fit(
    calls: Calls,
    matching: Matching,
    hosts: Sequence[str | None] = (),
    ends_agree_ns: int = ENDS_AGREE_NS,
    shared: Sequence[str | None] = (),
) -> RankClocks:
    """The clocks of all ranks from their matched calls.

    `hosts` names the machine of each rank, `None` where unknown: ranks of one machine read one clock, which
    counts where the collectives tell less than that. `ends_agree_ns` is how well ends agree where a single
    collective cannot show it. `shared` names the clock of ranks whose times are of one by the way they were
    taken: between those nothing is fitted, whatever their collectives say.
    """
    if any(each is not None for each in shared):
        return _fit_shared(calls, matching, hosts, ends_agree_ns, shared)
    num = calls.num_ranks
    usable = (matching.instance != UNMATCHED) & calls.is_of(*SYNCHRONISING)
    at = np.flatnonzero(usable)
    counted = np.bincount(calls.rank[at], minlength=num).astype(np.int64)
    component = _components(num, calls.rank[at], matching.instance[at])
    first = _first_offsets(calls, matching.instance, at, component)
    pivot = _window_start(calls, first, component)
    state = State(
        offset=first,
        drift=np.zeros(num),
        drift_error=np.full(num, np.nan),
        residual=np.full(num, np.nan),
        error=np.full(num, np.nan),
    )
    allowed = max(MOST_VIOLATION_NS, ends_agree_ns)
    if len(at):
        _refine(calls, matching, _thinned(matching.instance, at), component, state, pivot, allowed)
    if ends_agree_ns > ENDS_AGREE_NS:
        # Processes wake up late, some always more than others: that is no noise that averages out.
        state.error = np.fmax(state.error, float(ends_agree_ns))
    same_hosts(calls, matching, at, component, state, hosts)
    violation = inside_bounds(calls, matching, at, state, pivot)
    several = counted > 1
    state.error = np.where(several, state.error, np.fmin(state.error, float(ends_agree_ns)))
    component = join_by_messages(calls, matching, component, state)
    if state.is_stepped:
        violation = max(violation, allowed + 1)
    reference, shift = _references(component, state)
    alone = counted == 0
    alone &= ~np.isin(np.arange(num), np.flatnonzero(component >= 0))
    component = np.where(alone, -1, component)
    return RankClocks(
        component=component,
        reference=np.where(component >= 0, reference, -1),
        # The axis has become the reference's own clock, and the pivot lies on it.
        pivots_ns=pivot + shift,
        offset_ns=np.where(component >= 0, state.offset, 0),
        drift=state.drift,
        drift_error=state.drift_error,
        residual_ns=state.residual,
        error_ns=state.error,
        num_matched=counted,
        violation_ns=violation,
        allowed_violation_ns=allowed,
    )


def _fit_shared(
    calls: Calls,
    matching: Matching,
    hosts: Sequence[str | None],
    ends_agree_ns: int,
    shared: Sequence[str | None],
) -> RankClocks:
    """The fit of clocks instead of ranks, told of each rank: those of one clock have one offset, known
    exactly where it is the reference's."""
    names = [each if each is not None else n for n, each in enumerate(shared)]
    first = {name: names.index(name) for name in names}
    place = {name: n for n, name in enumerate(first)}
    of = np.array([place[name] for name in names], dtype=np.int64)
    ranks = np.array(list(first.values()), dtype=np.int64)
    merged = replace(calls, rank=of[calls.rank], num_ranks=len(ranks))
    own = fit(merged, matching, [hosts[n] for n in ranks.tolist()] if hosts else (), ends_agree_ns)
    reference = np.where(own.reference >= 0, ranks[own.reference], -1)[of]
    is_same = (reference >= 0) & (of == of[reference])
    usable = (matching.instance != UNMATCHED) & calls.is_of(*SYNCHRONISING)
    return RankClocks(
        component=own.component[of],
        reference=reference,
        pivots_ns=own.pivots_ns[of],
        offset_ns=own.offset_ns[of],
        drift=own.drift[of],
        drift_error=np.where(is_same, np.nan, own.drift_error[of]),
        residual_ns=own.residual_ns[of],
        error_ns=np.where(is_same, 0.0, own.error_ns[of]),
        num_matched=np.bincount(calls.rank[usable], minlength=calls.num_ranks).astype(np.int64),
        violation_ns=own.violation_ns,
        allowed_violation_ns=own.allowed_violation_ns,
        is_shared=is_same,
    )


def _window_start(calls: Calls, first: I64, component: I64) -> int:
    """When the largest component begins: others have an axis of their own."""
    if not len(calls):
        return 0
    joined = component[component >= 0]
    largest = int(np.bincount(joined).argmax()) if len(joined) else -1
    is_mine = component[calls.rank] == largest
    mine = calls.start_ns[is_mine] - first[calls.rank[is_mine]]
    return int(mine.min()) if len(mine) else int(calls.start_ns.min())


def _components(num: int, rank: I64, instance: I64) -> I64:
    """A number for each set of ranks that instances join, -1 for a rank in none."""
    label = np.arange(num, dtype=np.int64)
    if not len(rank):
        return np.full(num, -1, dtype=np.int64)
    while True:
        least = np.full(int(instance.max()) + 1, num, dtype=np.int64)
        np.minimum.at(least, instance, label[rank])
        new = label.copy()
        np.minimum.at(new, rank, least[instance])
        if np.array_equal(new, label):
            break
        label = new
    seen = np.isin(np.arange(num), rank)
    _, dense = np.unique(label, return_inverse=True)
    found = np.where(seen, dense, -1)
    # Numbered in order of their first rank.
    order = {c: n for n, c in enumerate(dict.fromkeys(found[found >= 0].tolist()))}
    return np.array([order.get(int(c), -1) for c in found.tolist()], dtype=np.int64)


def _first_offsets(calls: Calls, instance: I64, at: npt.NDArray[np.intp], component: I64) -> I64:
    """Whole offsets by medians along a tree: so that what is left fits a float, whatever the bases."""
    offset = np.zeros(calls.num_ranks, dtype=np.int64)
    rank, end, of = calls.rank[at], calls.end_ns[at], instance[at]
    by_rank = [np.flatnonzero(rank == r) for r in range(calls.num_ranks)]
    num = int(of.max(initial=-1)) + 1
    for which in sorted(set(component[component >= 0].tolist())):
        members = np.flatnonzero(component == which).tolist()
        root = max(members, key=lambda r: (len(by_rank[r]), -r))
        known = np.full(num, np.iinfo(np.int64).min, dtype=np.int64)
        known[of[by_rank[root]]] = end[by_rank[root]]
        left = [r for r in members if r != root]
        while left:
            met = {r: by_rank[r][known[of[by_rank[r]]] > np.iinfo(np.int64).min] for r in left}
            best = max(left, key=lambda r: (len(met[r]), -r))
            rows = met[best]
            offset[best] = int(np.median(end[rows] - known[of[rows]])) if len(rows) else 0
            mine = by_rank[best]
            fresh = mine[known[of[mine]] == np.iinfo(np.int64).min]
            known[of[fresh]] = end[fresh] - offset[best]
            left.remove(best)
    return offset


def _thinned(instance: I64, at: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Calls of evenly spaced instances, no more than are needed."""
    if len(at) <= MOST_CALLS:
        return at
    every = -(-len(at) // MOST_CALLS)
    kept: npt.NDArray[np.intp] = at[instance[at] % every == 0]
    return kept


def _refine(
    calls: Calls,
    matching: Matching,
    at: npt.NDArray[np.intp],
    component: I64,
    state: State,
    pivot: int,
    allowed_ns: int,
) -> None:
    """The robust fit of offsets, and of drifts where they can be told."""
    rank = calls.rank[at]
    _, of = np.unique(matching.instance[at], return_inverse=True)
    whole = calls.end_ns[at] - state.offset[rank]
    end = (whole - pivot).astype(np.float64)
    num, instances = calls.num_ranks, int(of.max()) + 1
    weight = np.ones(len(at))
    extent = float(np.ptp(end)) or 1.0
    # One time an instance: with each rank's own the time itself would explain every end.
    tau = (np.bincount(of, weights=end, minlength=instances) / np.bincount(of, minlength=instances))[
        of
    ] / extent
    offset, slope = np.zeros(num), np.zeros(num)
    spread = MIN_SPREAD_NS
    for _ in range(12):
        offset, slope = _solve(rank, of, end, tau, weight, num, instances, has_drift=True)
        left = _residual(rank, of, end, tau, weight, offset, slope, instances)
        spread = max(float(np.median(np.abs(left)) * 1.4826), MIN_SPREAD_NS)
        new = np.minimum(1.0, HUBER * spread / np.maximum(np.abs(left), 1e-9))
        if np.max(np.abs(new - weight)) < 1e-3:
            break
        weight = new
    error = _drift_errors(rank, of, tau, weight, spread, num, instances) / extent
    told, error = _relative(slope / extent, error, component, state.offset + offset)
    # Of many ranks one exceeds three errors by chance.
    many = DRIFT_ERRORS + 0.5 * max(0.0, np.log2(max(num, 2) / 2))
    is_told = np.abs(told) > many * error
    # No two clocks drift apart so fast: one of them was set anew inside the window.
    apart_ns = np.abs(told) * extent
    state.is_stepped = bool(((np.abs(told) > MOST_DRIFT) & is_told & (apart_ns > allowed_ns)).any())
    is_told &= np.abs(told) <= MOST_DRIFT
    if is_told.any():
        keep = np.where(is_told, told, 0.0)
        end = end - keep[rank] * end
    else:
        keep = np.zeros(num)
    offset, _ = _solve(rank, of, end, tau, weight, num, instances, has_drift=False)
    left = _residual(rank, of, end, tau, weight, offset, np.zeros(num), instances)
    count = np.bincount(rank, weights=weight, minlength=num)
    several = np.bincount(rank, minlength=num) > 1
    by_rank = [np.abs(left[rank == r]) for r in range(num)]
    residual = np.array([1.4826 * np.median(each) if len(each) > 1 else np.nan for each in by_rank])
    state.offset += np.round(offset).astype(np.int64)
    state.drift = keep
    state.drift_error = np.where(several, error, np.nan)
    state.residual = residual
    state.error = np.where(several, spread / np.sqrt(np.maximum(count, 1.0)), np.nan)


def _residual(
    rank: I64, of: I64, end: F64, tau: F64, weight: F64, offset: F64, slope: F64, instances: int
) -> F64:
    """How far each end is from its instance's own, once the clocks are corrected."""
    moved = end - offset[rank] - slope[rank] * tau
    mean = np.bincount(of, weights=weight * moved, minlength=instances) / np.bincount(
        of, weights=weight, minlength=instances
    )
    left: F64 = moved - mean[of]
    return left


def _solve(
    rank: I64, of: I64, end: F64, tau: F64, weight: F64, num: int, instances: int, *, has_drift: bool
) -> tuple[F64, F64]:
    """Weighted least squares of end = instance + offset[rank] + slope[rank]·tau by conjugate gradients.

    The instances' own times are eliminated; what is added to all ranks of a component cannot be told and
    stays out, for the search begins at 0.
    """
    per_instance = np.bincount(of, weights=weight, minlength=instances)
    columns = (np.ones(len(end)), tau) if has_drift else (np.ones(len(end)),)

    def project(value: F64) -> F64:
        mean = np.bincount(of, weights=weight * value, minlength=instances) / per_instance
        out: F64 = weight * (value - mean[of])
        return out

    def back(value: F64) -> F64:
        return np.concatenate([np.bincount(rank, weights=value * c, minlength=num) for c in columns])

    def apply(x: F64) -> F64:
        parts = x.reshape(len(columns), num)
        value = np.zeros(len(rank))
        for part, c in zip(parts, columns, strict=True):
            value += part[rank] * c
        return back(project(value))

    target = back(project(end))
    diagonal = np.maximum(
        np.concatenate([np.bincount(rank, weights=weight * c * c, minlength=num) for c in columns]), 1e-12
    )
    x = np.zeros_like(target)
    r = target.copy()
    z = r / diagonal
    p = z.copy()
    rz = float(r @ z)
    stop = 1e-18 * max(rz, 1e-30)
    for _ in range(40 * len(columns) + 2 * num):
        if rz <= stop:
            break
        q = apply(p)
        curve = float(p @ q)
        if curve <= 0:
            break
        step = rz / curve
        x += step * p
        r -= step * q
        z = r / diagonal
        rz, last = float(r @ z), rz
        p = z + (rz / last) * p
    parts = x.reshape(len(columns), num)
    return parts[0], parts[1] if has_drift else np.zeros(num)


def _drift_errors(rank: I64, of: I64, tau: F64, weight: F64, spread: float, num: int, instances: int) -> F64:
    """One standard error of each slope against the others': spread over the root of the spread of times."""
    total = np.maximum(np.bincount(rank, weights=weight, minlength=num), 1e-12)
    mean = np.bincount(rank, weights=weight * tau, minlength=num) / total
    scatter = np.bincount(rank, weights=weight * (tau - mean[rank]) ** 2, minlength=num)
    size = np.bincount(of, minlength=instances)
    # An instance of n ranks has one time of its own: it tells n-1 of n.
    told = np.bincount(rank, weights=1.0 - 1.0 / np.maximum(size[of], 2), minlength=num) / np.maximum(
        np.bincount(rank, minlength=num), 1
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        error: F64 = spread / np.sqrt(scatter * np.maximum(told, 0.5))
    return np.where(np.isfinite(error) & (scatter > 1e-12), error, np.inf)


def _relative(slope: F64, error: F64, component: I64, offset: F64) -> tuple[F64, F64]:
    """Slopes against the reference of each component, and one standard error of that difference."""
    result, errors = np.zeros(len(slope)), np.full(len(slope), np.inf)
    for which in np.unique(component[component >= 0]).tolist():
        mine = np.flatnonzero(component == which)
        middle = _middle(mine, offset)
        result[mine] = slope[mine] - slope[middle]
        errors[mine] = np.hypot(error[mine], error[middle])
    return result, errors


def _middle(ranks: npt.NDArray[np.intp], offset: npt.NDArray[np.generic]) -> int:
    """The rank with the lower-median offset."""
    order = ranks[np.argsort(offset[ranks], kind="stable")]
    return int(order[(len(order) - 1) // 2])


def _references(component: I64, state: State) -> tuple[I64, I64]:
    """The rank with the lower-median offset of each component, whose clock becomes the axis; and by how much
    that moves the axis, for each rank."""
    reference = np.full(len(component), -1, dtype=np.int64)
    shift = np.zeros(len(component), dtype=np.int64)
    for which in np.unique(component[component >= 0]).tolist():
        mine = np.flatnonzero(component == which)
        middle = _middle(mine, state.offset)
        shift[mine] = state.offset[middle]
        state.offset[mine] -= state.offset[middle]
        # Small where the fit chose the same reference: then it is 0 already.
        state.drift[mine] -= state.drift[middle]
        reference[mine] = middle
    return reference, shift


__all__ = ["MOST_VIOLATION_NS", "SAME_HOST_NS", "RankClocks", "fit"]
