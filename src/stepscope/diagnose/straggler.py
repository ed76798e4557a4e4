"""Who is late, what it costs, why, and what kind of unevenness that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from stepscope.analyse.joined import Joined
from stepscope.analyse.lateness import Lateness, group_cost_ns, kernel_reason, reason
from stepscope.analyse.stage import Heavy, Stages, heavy_stage, stages
from stepscope.detect.few import few_steps
from stepscope.detect.peer import JOINED, by_lateness, is_somebody_late
from stepscope.detect.turn import takes_turns
from stepscope.diagnose.turns import RARE, alone, is_scatter
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.peer import SEGMENT_PARTS, PeerTable

LEAST_STEP_SHARE = 0.01
"""Nobody is late by less than this share of a step: equal devices differ by as much."""
FEW_STEP_SHARE = 0.05
"""In a handful of steps, whose ordinary spread is not known, five times that; and so much it must cost."""
ONE_STEP_SHARE = 0.10
"""And of one step alone, which no other confirms, twice as much again."""
LEAST_SERIES = 6
"""From so many steps on a series tells what is ordinary (`detect.peer`)."""
LEAST_COST_SHARE = 0.005
"""A straggler that costs less of the window is not worth a line."""
MOST_TOLD_STEPS = 200


@dataclass(frozen=True, slots=True)
class Found:
    """Who is late, and the noise below which nobody is."""

    rows: tuple[report.Straggler, ...] = ()
    noise_ns: int | None = None
    why: str | None = None
    together_ns: int = 0
    """What the ranks that are late side by side cost together; 0 where each costs for itself."""


@dataclass(frozen=True, slots=True)
class _Judged:
    """Ranks (as places) with the columns in which they are late."""

    columns: dict[int, npt.NDArray[np.int64]]
    persistence: report.Persistence
    noise_ns: int
    least_ns: float
    why: str | None = None


def stragglers(whole: Joined, late: Lateness, analyses: Sequence[RankAnalysis], steps_ns: int) -> Found:
    """Decide who is late, with its cost and reason."""
    num_steps = int(np.isfinite(late.lateness_ns).any(axis=0).sum())
    if not num_steps:
        return Found(why="no synchronising collective was matched")
    judged = _judged(whole, late, steps_ns / num_steps, num_steps)
    parts = step_parts(whole, late, analyses)
    if num_steps >= LEAST_SERIES:
        judged = _stalled(whole, late, judged, steps_ns)
        judged = _taking_turns(whole, late, parts, judged, steps_ns) or _going_round(late, judged, steps_ns)
        judged = _without_noise(whole, late, judged)
    least_cost = LEAST_COST_SHARE if num_steps >= LEAST_SERIES else FEW_STEP_SHARE
    # A rank is a straggler by what others wait for it, not by coming late where nobody was held up.
    judged = replace(judged, persistence=_persistence(judged))
    together = group_cost_ns(whole, late, judged.columns)
    is_group = len(judged.columns) > 1 and together >= least_cost * steps_ns
    rows = [
        _row(whole, late, parts, rank, columns, judged.persistence, steps_ns, num_steps)
        for rank, columns in judged.columns.items()
        if len(columns) and (is_group or _cost(late, rank, columns) >= least_cost * steps_ns)
    ]
    rows.sort(key=lambda row: -(row.cost_ns or 0))
    return Found(tuple(rows), judged.noise_ns, judged.why, together if is_group else 0)


def _without_noise(whole: Joined, late: Lateness, judged: _Judged) -> _Judged:
    """Of several ranks that are late by turns the one that is late alone, or, on hosts, nobody."""
    if len(judged.columns) < 2:
        return judged
    is_stable = judged.persistence == "persistent"
    only = alone(judged.columns, late.cost_ns)
    if only is not None:
        least = RARE * len(judged.columns[only]) if is_stable else np.inf
        kept = {rank: mine for rank, mine in judged.columns.items() if rank == only or len(mine) > least}
        return replace(judged, columns=kept)
    is_host = all(table.device is None for table in whole.tables)
    if is_host and not is_stable and is_scatter(judged.columns, late.lateness_ns):
        why = "ranks come late by turns, each by as little or as much as the times of their hosts scatter"
        return replace(judged, columns={}, persistence="unknown", why=why)
    return judged


LEAST_TIMES = 3
"""Once or twice may be anybody's."""


def _persistence(judged: _Judged) -> report.Persistence:
    """Of one rank alone it is that rank always, if it was late often enough to say so."""
    if len(judged.columns) != 1 or judged.persistence == "persistent":
        return judged.persistence
    (columns,) = judged.columns.values()
    return "persistent" if len(columns) >= LEAST_TIMES else "unknown"


def _judged(whole: Joined, late: Lateness, step_ns: float, num_steps: int) -> _Judged:
    """Who is late by the steps alone."""
    clock = whole.clock_noise_ns
    if num_steps < LEAST_SERIES:
        one = num_steps == 1 and late.has_steps
        least = max(clock, (ONE_STEP_SHARE if one else FEW_STEP_SHARE) * step_ns)
        few = few_steps(late.lateness_ns, least, _times_last(whole, late), STALL_STEPS * step_ns)
        columns = {rank: np.flatnonzero(few.late[rank]) for rank in few.ranks}
        return _Judged(columns, few.persistence, round(few.noise), least)
    least = max(clock, LEAST_STEP_SHARE * step_ns)
    gate = by_lateness(late.delay_ns, least)
    noise = max(clock, round(gate.least))
    columns = {each.rank: np.array(each.steps, dtype=np.int64) for each in gate.deviants}
    is_late = np.asarray(gate.late)
    if _moves(late, is_late, columns, step_ns * num_steps):
        columns = {
            rank: np.flatnonzero(is_late[rank]) for rank in np.flatnonzero(is_late.any(axis=1)).tolist()
        }
        return _Judged(columns, "moving", noise, least, gate.why)
    return _Judged(columns, gate.persistence, noise, least, gate.why)


TURNS_SHARE = 0.05
"""Uneven work is a matter from this share of the window on."""
MOST_OF_ONE = 0.6
"""A rank with more of the cost than this is late itself, and takes no turns."""


MOST_UNTOLD = 0.3
"""Named ranks leave more than this part of the cost of late steps to others: then it is not they alone."""
LARGE_SHARE = 0.35
"""From this share of the window on lateness is no tail of ordinary steps, whoever's it is: 64 ranks of which
each is half as long again in one step of a hundred lose 24 % to it."""


def _moves(
    late: Lateness,
    is_late: npt.NDArray[np.bool_],
    columns: dict[int, npt.NDArray[np.int64]],
    steps_ns: float,
) -> bool:
    """Whether lateness goes round: somebody is late in most steps, and not only those who stand out."""
    cost = np.where(is_late, np.nan_to_num(late.cost_ns), 0.0)
    total = float(cost.sum())
    named = sum(float(cost[rank].sum()) for rank in columns)
    if total <= 0 or (columns and total - named < MOST_UNTOLD * total):
        return False
    is_most = bool(is_late.any(axis=0).mean() >= 0.5)
    return is_somebody_late(is_late, JOINED) or (is_most and total >= LARGE_SHARE * steps_ns)


STALL_STEPS = 1.0
"""Late by more than a whole step is no tail of an ordinary one (those are half as long again)."""


def _stalled(whole: Joined, late: Lateness, judged: _Judged, steps_ns: int) -> _Judged:
    """With the ranks that are late by whole steps, if only at times: where that costs the window enough."""
    lengths = [t.steps.window_end_ns - t.steps.window_start_ns for t in whole.tables if len(t.steps)]
    if not lengths:
        return judged
    # The ordinary step: where stalls are in more than three quarters of them, they are the ordinary.
    step_ns = float(np.quantile(np.concatenate(lengths), 0.25))
    with np.errstate(invalid="ignore"):
        is_stall = (late.cost_ns > 0) & (late.lateness_ns > STALL_STEPS * max(step_ns, 1.0))
    if not is_stall.any() or float(late.cost_ns[is_stall].sum()) < TURNS_SHARE * steps_ns:
        return judged
    none = np.empty(0, dtype=np.int64)
    stalls = {
        rank: np.union1d(judged.columns.get(rank, none), np.flatnonzero(is_stall[rank]))
        for rank in np.flatnonzero(is_stall.any(axis=1)).tolist()
        # Beside those who stand out anyway, a stall or two of another rank are hiccups.
        if not judged.columns
        or rank in judged.columns
        or float(late.cost_ns[rank, is_stall[rank]].sum()) >= TURNS_SHARE * steps_ns
    }
    persistence = judged.persistence
    if not judged.columns:
        persistence = "moving" if len(stalls) > 1 else "unknown"
    columns = {**judged.columns, **stalls}
    return _Judged(columns, persistence, judged.noise_ns, judged.least_ns, judged.why)


def _taking_turns(
    whole: Joined,
    late: Lateness,
    parts: npt.NDArray[np.float64],
    judged: _Judged,
    steps_ns: int,
) -> _Judged | None:
    """Ranks that come last in turns because each has more to compute in its steps; `None` where it is not so.

    Where the work of all ranks varies widely nobody stands out from the spread, and all pay for it.
    """
    with np.errstate(invalid="ignore"):
        is_last = (late.cost_ns > 0) & (late.lateness_ns > judged.least_ns)
    columns = {rank: np.flatnonzero(is_last[rank]) for rank in np.flatnonzero(is_last.any(axis=1)).tolist()}
    cost = {rank: _cost(late, rank, mine) for rank, mine in columns.items()}
    total = sum(cost.values())
    if total < TURNS_SHARE * steps_ns or max(cost.values()) > MOST_OF_ONE * total:
        return None
    working = {
        rank: mine
        for rank, mine in columns.items()
        if reason(late, whole.tables, rank, mine, parts)[0] == "more_work"
    }
    if len(working) < 2 or sum(cost[rank] for rank in working) < MOST_OF_ONE * total:
        return None
    # Of those that stand out for themselves, by what they do in all steps, nothing is taken away.
    always = [rank for rank, mine in judged.columns.items() if len(mine) >= 0.75 * late.lateness_ns.shape[1]]
    if always:
        return None
    return _Judged(working, "moving", judged.noise_ns, judged.least_ns, judged.why)


FEW_RANKS = 4
"""Of more ranks some one has a tail of its own in many a step. Of so few, lateness that nobody stands out by,
for it is in most steps and of all of them, is still no tail where it is large and often."""
LARGE_STEP_SHARE = 0.20
OFTEN = 1 / 3


def _going_round(late: Lateness, judged: _Judged, steps_ns: int) -> _Judged:
    """With every rank that costs the others time where these are late in turns, whatever keeps them: then
    nobody in particular is the slow one."""
    num_ranks, num_steps = late.lateness_ns.shape
    least = max(judged.noise_ns, judged.least_ns)
    if not judged.columns:
        least = LARGE_STEP_SHARE * steps_ns / num_steps
    with np.errstate(invalid="ignore"):
        is_last = (late.cost_ns > 0) & (late.lateness_ns > least)
    is_often = num_ranks <= FEW_RANKS and float(is_last.any(axis=0).mean()) >= OFTEN
    if not (judged.columns or is_often) or not takes_turns(np.where(is_last, late.cost_ns, 0.0)):
        return judged
    columns = {rank: np.flatnonzero(is_last[rank]) for rank in np.flatnonzero(is_last.any(axis=1)).tolist()}
    return replace(judged, columns=columns, persistence="moving", why=None)


def _cost(late: Lateness, rank: int, columns: npt.NDArray[np.int64]) -> int:
    return int(np.nansum(late.cost_ns[rank, columns]))


def _row(
    whole: Joined,
    late: Lateness,
    parts: npt.NDArray[np.float64],
    rank: int,
    columns: npt.NDArray[np.int64],
    persistence: report.Persistence,
    steps_ns: int,
    num_steps: int,
) -> report.Straggler:
    """One rank that is late in these columns."""
    cost = _cost(late, rank, columns)
    why_late, culprit = reason(late, whole.tables, rank, columns, parts)
    told = late.agrees[rank, columns]
    told = told[np.isfinite(told)]
    has_steps = late.has_steps
    return report.Straggler(
        rank=rank_of(whole.tables[rank]),
        lateness_ns=round(float(np.median(late.lateness_ns[rank, columns]))),
        cost_ns=cost,
        persistence=persistence if has_steps else "unknown",
        reason=why_late,
        share=min(1.0, cost / steps_ns) if steps_ns else None,
        num_steps=num_steps if has_steps else None,
        num_late=len(columns) if has_steps else None,
        late_steps=tuple(late.steps[columns[:MOST_TOLD_STEPS]].tolist()) if has_steps else (),
        culprit=culprit,
        is_confirmed=bool(told.mean() >= 0.5) if len(told) else None,
    )


def _times_last(whole: Joined, late: Lateness) -> npt.NDArray[np.int64]:
    """How often each rank came last to a synchronising collective, by more than the clocks can hide."""
    start = whole.start_ns[whole.by_instance]
    skew = np.maximum.reduceat(start, whole.heads) - np.minimum.reduceat(start, whole.heads)
    told = late.last_rank[late.is_sync & (skew > whole.clock_noise_ns)]
    return np.bincount(told, minlength=len(whole.tables))


WORK_SHARES = {
    "rank": "straggler_cost_share",
    "sequence": "uneven_work_share",
    "expert": "expert_work_share",
    "stage": "stage_work_share",
}
"""Why a rank is late -> the number that a rule about it asks for."""

UNTOLD = ("unknown", "input", "preprocess", "launch", "python")
"""Reasons of which a trace says only that the host was slower: what made it so, its counters tell."""


def kind_of(row: report.Straggler, collective: str | None) -> str:
    """A rank that is late for what it is given to do, or for what it is."""
    if row.persistence == "stage":
        return "stage"
    if row.reason != "more_work":
        return "rank"
    if collective == "all_to_all":
        return "expert"
    is_at_times = row.num_late is not None and row.num_late < 0.75 * (row.num_steps or 0)
    return "sequence" if row.persistence == "moving" or is_at_times else "rank"


def rank_of(table: PeerTable) -> int:
    """The rank's number: a table without one is not joined."""
    assert table.rank is not None
    return table.rank


def of_stage(
    whole: Joined, late: Lateness, analyses: Sequence[RankAnalysis], steps_ns: int
) -> tuple[Stages | None, Heavy | None, tuple[report.Straggler, ...]]:
    """The pipeline's stages, the one that all wait for, and its ranks as rows."""
    found = stages(whole)
    if found is None or not late.has_steps or not whole.clocks.has_one_axis:
        # Which stage comes first is known by the clocks alone.
        return None, None, ()
    heavy = heavy_stage(found, _compute(whole, late, analyses))
    if heavy is None:
        return found, None, ()
    cost = sum(heavy.excess_ns)
    steps = late.steps[heavy.columns]
    others = [place for place in range(len(whole.tables)) if place not in heavy.ranks]
    reasons = {place: kernel_reason(whole.tables, place, others) for place in heavy.ranks}
    # With one replica a slow machine looks like a heavy stage: but for its kernels, of which others have the
    # same.
    is_machine = len(heavy.ranks) == 1 and set(reasons.values()) == {"slower_kernels"}
    if cost < LEAST_COST_SHARE * steps_ns:
        return found, None, ()
    rows = tuple(
        report.Straggler(
            rank=rank_of(whole.tables[place]),
            lateness_ns=int(np.median(heavy.excess_ns)),
            cost_ns=cost,
            persistence="persistent" if is_machine else "stage",
            reason=reasons[place],
            share=min(1.0, cost / steps_ns) if steps_ns else None,
            num_steps=len(late.steps),
            num_late=len(steps),
            late_steps=tuple(steps[:MOST_TOLD_STEPS].tolist()),
            stage=heavy.stage,
        )
        for place in heavy.ranks
    )
    return found, None if is_machine else heavy, rows


def step_parts(whole: Joined, late: Lateness, analyses: Sequence[RankAnalysis]) -> npt.NDArray[np.float64]:
    """(ranks, steps, SEGMENT_PARTS): the accounting of each rank in each step, NaN where unknown or withheld.

    Of a rank with several devices the sums.
    """
    result = np.full((len(whole.tables), len(late.steps), len(SEGMENT_PARTS)), np.nan)
    keys = [_KEYS.get(part, f"idle.{part}_ns") for part in SEGMENT_PARTS]
    column = {int(step): at for at, step in enumerate(late.steps.tolist())}
    place = {rank_of(table): at for at, table in enumerate(whole.tables)}
    for analysis in analyses:
        if analysis.rank not in place:
            continue
        for device in analysis.devices:
            if device.accounting.status == "withheld":
                continue
            for step, parts in device.by_step.items():
                if step in column:
                    at = (place[analysis.rank], column[step])
                    own = np.array([parts.get(key, 0) for key in keys], dtype=np.float64)
                    result[at] = own if np.isnan(result[at][0]) else result[at] + own
    return result


_KEYS = {
    "compute": "compute_ns",
    "communication": "communication_exposed_ns",
    "copy": "copy_exposed_ns",
}


def _compute(whole: Joined, late: Lateness, analyses: Sequence[RankAnalysis]) -> npt.NDArray[np.float64]:
    """(ranks, steps): computing time of each rank in each step, NaN where unknown."""
    result = np.full((len(whole.tables), len(late.steps)), np.nan)
    column = {int(step): at for at, step in enumerate(late.steps.tolist())}
    place = {rank_of(table): at for at, table in enumerate(whole.tables)}
    for analysis in analyses:
        if analysis.rank not in place:
            continue
        for device in analysis.devices:
            for step, parts in device.by_step.items():
                if step in column:
                    at = (place[analysis.rank], column[step])
                    result[at] = np.nansum([result[at], parts["compute_ns"]])
    return result


def imbalance(
    rows: Sequence[report.Straggler],
    kinds: Sequence[str],
    found: Stages | None,
    heavy: Heavy | None,
    *,
    is_known: bool,
) -> report.Imbalance | None:
    """How work or speed is spread over the ranks, by who is late and why; `kinds` parallel to `rows`.

    `None` where nobody can be compared.
    """
    bubbles = found.bubble_share if found is not None else None
    if not is_known:
        return None
    if heavy is not None:
        return report.Imbalance(
            class_="stage",
            why=f"all ranks of stage {heavy.stage} compute {heavy.ratio:.2f} times as long as the other "
            f"stages, in {len(heavy.columns)} steps",
            ranks=tuple(row.rank for row in rows if row.persistence == "stage"),
            stage=heavy.stage,
            bubble_share=bubbles,
        )
    if not rows:
        return report.Imbalance(class_="none", why="nobody is late beyond the noise", bubble_share=bubbles)
    cost = dict.fromkeys(kinds, 0)
    for row, kind in zip(rows, kinds, strict=True):
        cost[kind] += row.cost_ns or 0
    largest = max(cost, key=lambda kind: cost[kind])
    mine = tuple(row.rank for row, kind in zip(rows, kinds, strict=True) if kind == largest)
    is_moving = any(row.persistence == "moving" for row in rows)
    classes: dict[str, tuple[report.ImbalanceClass, str]] = {
        "sequence": (
            "sequence_length",
            "the late rank changes from step to step, each time with more to compute",
        ),
        "expert": ("expert", "the late rank has more to compute before an all-to-all"),
        "rank": ("bad_worker", "the late rank has no more to compute than its peers"),
    }
    class_, why = classes.get(largest, ("unknown", "ranks are late, and why is not known"))
    has_more = any(row.reason == "more_work" for row in rows if row.rank in mine)
    if class_ == "bad_worker" and (is_moving or len(mine) > 1 or rows[0].persistence == "unknown"):
        class_, why = "unknown", "it is not the same rank in all steps, or too few steps tell"
    elif class_ == "bad_worker" and has_more:
        class_, why = "unknown", "the same rank always has more to compute than its peers"
    return report.Imbalance(class_=class_, why=why, ranks=mine, bubble_share=bubbles)
