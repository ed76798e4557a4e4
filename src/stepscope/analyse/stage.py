"""Pipeline stages from who sends to whom, and what each stage has to compute."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.align.match import UNMATCHED
from stepscope.align.token import POINT_TO_POINT
from stepscope.analyse.joined import Joined
from stepscope.model.interval import intersect, subtract, union
from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]
LEAST_EXCESS = 0.10
"""A stage is heavier from a tenth more than the others' mean on: the loss layer of published jobs makes the
last stage 1.4 to 2 times as long (Understanding Stragglers in Large Model Training, OSDI 2025)."""
LEAST_STEPS_SHARE = 0.75
"""In so many of the steps: a stage is heavy in all of them."""


@dataclass(frozen=True, slots=True)
class Stages:
    """`stage` of each rank, 0 for the one that sends first, -1 for ranks that take part in no pipeline."""

    stage: I64
    bubble_share: float | None
    """Time in which the median rank waits for messages of other stages, hidden by nothing, of its windows."""

    @property
    def num(self) -> int:
        """How many stages there are."""
        return int(self.stage.max(initial=-1)) + 1


@dataclass(frozen=True, slots=True)
class Heavy:
    """A stage that computes longer than the others on all its ranks: `ranks` are places."""

    stage: int
    ranks: tuple[int, ...]
    ratio: float
    """Its computation a step over the mean of the other stages."""
    excess_ns: tuple[int, ...]
    """Of each step, what it computes beyond that mean."""
    columns: I64
    """The steps in which it does."""


def stages(joined: Joined) -> Stages | None:
    """The stages, `None` where no messages join ranks in a line."""
    calls = joined.calls
    at = np.flatnonzero((joined.matching.instance != UNMATCHED) & calls.is_of(*POINT_TO_POINT))
    if not len(at):
        return None
    is_send = calls.is_of("send")[at]
    sender = {int(joined.matching.instance[c]): int(c) for c in at[is_send].tolist()}
    first: dict[tuple[int, int], tuple[int, int, int]] = {}
    for call in at[~is_send].tolist():
        source = sender.get(int(joined.matching.instance[call]))
        if source is None:
            continue
        a, b = int(calls.rank[source]), int(calls.rank[call])
        when = int(joined.start_ns[source])
        pair = (min(a, b), max(a, b))
        if pair not in first or when < first[pair][0]:
            first[pair] = (when, a, b)
    if not first:
        return None
    # The first message between two stages carries activations: it goes forward. One that would close a circle
    # belongs to a later chunk of the model on the same ranks.
    ahead: dict[int, set[int]] = {}
    for _, a, b in sorted(first.values()):
        if not _reaches(ahead, b, a):
            ahead.setdefault(a, set()).add(b)
    stage = np.full(calls.num_ranks, -1, dtype=np.int64)
    for rank in sorted({r for a, bs in ahead.items() for r in (a, *bs)}):
        stage[rank] = 0
    for _ in range(calls.num_ranks):
        moved = False
        for a, bs in ahead.items():
            for b in bs:
                if stage[b] < stage[a] + 1:
                    stage[b], moved = stage[a] + 1, True
        if not moved:
            break
    return Stages(stage, _bubbles(joined))


def _reaches(ahead: dict[int, set[int]], start: int, goal: int) -> bool:
    todo, seen = [start], set()
    while todo:
        node = todo.pop()
        if node == goal:
            return True
        if node not in seen:
            seen.add(node)
            todo += ahead.get(node, ())
    return False


def _bubbles(joined: Joined) -> float | None:
    """The median rank's exposed waiting for messages, as a share of its windows."""
    calls, shares = joined.calls, []
    is_message = calls.is_of(*POINT_TO_POINT)
    for rank, table in enumerate(joined.tables):
        whole = int((table.steps.window_end_ns - table.steps.window_start_ns).sum())
        mine = calls.of_rank(rank)
        mine = mine[is_message[mine] & (joined.wait_ns[mine] > 0)]
        if whole and is_message[calls.of_rank(rank)].any():
            # Messages both ways may be waited for at the same time.
            waiting = union(calls.start_ns[mine], calls.start_ns[mine] + joined.wait_ns[mine])
            windows = union(table.steps.window_start_ns, table.steps.window_end_ns)
            shares.append(intersect(subtract(waiting, table.hidden), windows).total_ns / whole)
    return float(np.median(shares)) if shares else None


def heavy_stage(found: Stages, compute_ns: F64) -> Heavy | None:
    """The stage that all others wait for; `compute_ns` (ranks, steps), NaN where unknown.

    Every rank of it must compute longer than the mean of the other stages: one slow rank is a bad worker.
    """
    if found.num < 2:
        return None
    per_stage = np.full((found.num, compute_ns.shape[1]), np.nan)
    for stage in range(found.num):
        rows = compute_ns[found.stage == stage]
        known = np.isfinite(rows).any(axis=0)
        if known.any():
            per_stage[stage, known] = np.nanmedian(rows[:, known], axis=0)
    known = np.isfinite(per_stage).all(axis=0)
    if not known.any():
        return None
    worst = int(np.argmax(np.median(per_stage[:, known], axis=1)))
    others = np.delete(per_stage, worst, axis=0).mean(axis=0)
    mine = np.flatnonzero(found.stage == worst)
    with np.errstate(invalid="ignore"):
        excess = per_stage[worst] - others
        is_heavy = known & (excess >= LEAST_EXCESS * others)
        own = np.nanmin(np.where(known, compute_ns[mine], np.nan), axis=0) if len(mine) else excess
        is_heavy &= own >= (1 + LEAST_EXCESS / 2) * others
    if is_heavy.sum() < LEAST_STEPS_SHARE * known.sum():
        return None
    return Heavy(
        stage=worst,
        ranks=tuple(mine.tolist()),
        ratio=float(np.median(per_stage[worst, known]) / np.median(others[known])),
        excess_ns=tuple(int(each) for each in excess[is_heavy].tolist()),
        columns=np.flatnonzero(is_heavy).astype(np.int64),
    )
