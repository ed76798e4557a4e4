"""Marks of all ranks of a job to one `RankAnalysis` a rank. Pure.

The ranks come together because only together do they tell computing from waiting: what a rank spends in a
backward pass before the last one has begun its own is waiting, whatever its own marks call it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

import numpy as np

from stepscope.analyse.marked.account import LEAST_PERIOD, Accounted
from stepscope.analyse.marked.cost import own_cost
from stepscope.analyse.marked.meeting import Meetings, Met, clock_of, host_of, meetings, on_one_clock
from stepscope.analyse.marked.peer import most_steps, peer_table
from stepscope.analyse.marked.piece import PART, PART_OF_PHASE, UNPLACED, Pieces, pieces, tells_all
from stepscope.analyse.marked.standing import Standing, standings
from stepscope.analyse.marked.tile import Tiles, captured, tiles
from stepscope.analyse.variation import periodic_steps
from stepscope.model import report
from stepscope.model.analysis import ALL_ACCOUNTING, RankAnalysis
from stepscope.model.mark import PHASES, RankMarks
from stepscope.model.peer import PeerTable

SETTLES = "a trace of a few steps (stepscope takes one on request, or torch.profiler)"
STRAGGLER = "straggler"
LEAST_UNPLACED = 0.01
"""Of all time: so much host work that may be either after a step or before the next leaves open whether the
loop prepares its batches."""


@dataclass(frozen=True, slots=True)
class Marked:
    """The ranks of one run by their marks. `why_not` says why nobody is held against the others, where there
    are several. `stands` is where those were at last that did not end in order,
    `costs` what stepscope itself cost them."""

    analyses: tuple[RankAnalysis, ...] = ()
    withheld: tuple[report.Withheld, ...] = ()
    stands: tuple[Standing, ...] = ()
    costs: tuple[report.OwnCost, ...] = ()
    ended: tuple[int, ...] = ()
    """Ranks that said that they end."""


NOT_MARKED = Marked()


def analyse_marks(ranks: Sequence[RankMarks], steps: tuple[int, int] | None = None) -> Marked:
    """Every rank of one run; `steps` keeps only these numbers (inclusive). A rank without a whole step gives
    none."""
    every = on_one_clock(ranks)
    ranks = [each for each in every if len(each.steps)]
    left_out = frozenset().union(*(captured(each) for each in ranks)) if ranks else frozenset()
    tiled = [tiles(each, left_out) for each in ranks]
    told = (own_cost(each, of) for each, of in zip(ranks, tiled, strict=True))
    costs = tuple(each for each in told if each is not None)
    if steps is not None:
        pairs = [(r, _only(t, steps)) for r, t in zip(ranks, tiled, strict=True)]
        pairs = [(r, t) for r, t in pairs if len(t)]
        ranks, tiled = [r for r, _ in pairs], [t for _, t in pairs]
    numbers = {each.identity.rank for each in ranks if each.identity.rank is not None}
    world = max([len(numbers), *(each.identity.world_size or 0 for each in ranks)], default=0)
    met = meetings(ranks, tiled)
    accounts = [
        _account(r, t, m, is_met=met.why_not is None and world > 1)
        for r, t, m in zip(ranks, tiled, met.rows, strict=True)
    ]
    most = most_steps(len(numbers))
    least = max((int(t.number[-most]) for t in tiled if len(t) > most), default=-(1 << 62))
    beyond = _beyond([each.computed() for each in accounts])
    analyses = tuple(
        _analysis(r, a, m, world, least, b, can_meet=met.why_not is None)
        for r, a, m, b in zip(ranks, accounts, met.rows, beyond, strict=True)
    )
    ended = {each.identity.rank for each in every if each.exit_ns is not None}
    return Marked(
        analyses,
        _withheld(met, tiled, len(numbers)),
        standings(every),
        costs,
        tuple(sorted(each for each in ended if each is not None)),
    )


def _beyond(computed: Sequence[Mapping[str, int]]) -> list[str | None]:
    """Of each rank the computing phase that takes most beyond the lower median of the others; `None` where
    none does."""
    result: list[str | None] = []
    for n, own in enumerate(computed):
        others = [each for m, each in enumerate(computed) if m != n]
        more = {
            name: took - median_low([each.get(name, 0) for each in others])
            for name, took in own.items()
            if others
        }
        worst = max(more, key=lambda name: more[name], default=None)
        result.append(worst if worst is not None and more[worst] > 0 else None)
    return result


def _only(of: Tiles, steps: tuple[int, int]) -> Tiles:
    """The tiles of these steps."""
    keep = np.flatnonzero((of.number >= steps[0]) & (of.number <= steps[1]))
    return Tiles(
        of.number[keep],
        of.start_ns[keep],
        of.end_ns[keep],
        of.begin_ns[keep],
        tuple(of.use[n] for n in keep.tolist()),
        tuple(of.why[n] for n in keep.tolist()),
        of.num_restarted,
        of.is_tiled[keep],
    )


def _account(marks: RankMarks, of: Tiles, met: Met, *, is_met: bool) -> Accounted:
    scope, counted = of.mask("counted", "marked"), of.mask("counted")
    took = of.end_ns - of.start_ns
    periodic = periodic_steps(of.number[scope], took[scope], counted[scope])
    pausing: frozenset[int] = frozenset()
    if periodic is not None and periodic.period >= LEAST_PERIOD:
        pausing = frozenset(np.flatnonzero(np.isin(of.number, periodic.steps)).tolist())
    found = pieces(marks, of, pausing)
    if is_met:
        waits = met.waits
        found = found.waiting(waits.start, waits.end)
    table = found.table(of.start_ns, of.end_ns)
    if not np.array_equal(table.sum(axis=1), of.end_ns - of.start_ns):
        raise AssertionError("the accounting does not add up to its steps")
    return Accounted(
        marks.identity.rank, of, found, table, _tells(marks, found, is_met=is_met and len(met) > 0)
    )


def _tells(marks: RankMarks, of: Pieces, *, is_met: bool) -> frozenset[str]:
    """Parts of the accounting that are known: a phase that was never marked may have been there unmarked."""
    seen = {PART_OF_PHASE[PHASES[n]] for n in np.unique(marks.phases.phase).tolist()}
    known = {
        f"idle.{name}" for name in seen & PART.keys() if name not in ("compute", "communication", "python")
    }
    if tells_all(marks):
        known |= {"idle.python"}
        length = of.end - of.start
        if of.of_label(UNPLACED) @ length <= LEAST_UNPLACED * length.sum():
            known |= {"idle.preprocess"}
    return frozenset(known | ({"communication_exposed"} if is_met else set()))


def _analysis(
    marks: RankMarks,
    of: Accounted,
    met: Met,
    world: int,
    least_step: int,
    beyond: str | None,
    *,
    can_meet: bool,
) -> RankAnalysis:
    device = of.device(np.ones(len(of.tiles), dtype=bool))
    rank = marks.identity.rank
    peers: tuple[PeerTable, ...] = ()
    if rank is not None and world > 1 and can_meet and len(met):
        peers = (
            peer_table(
                of,
                met,
                device,
                world_size=world,
                host=host_of(marks),
                clock=clock_of(marks),
                least_step=least_step,
                beyond=beyond,
            ),
        )
    return RankAnalysis(
        rank=rank,
        world_size=world or None,
        issues=_issues(marks, of.tiles),
        withheld=(
            report.Withheld(
                what=ALL_ACCOUNTING,
                why="marks tell of the training loop alone: kernels and what a device did meanwhile are "
                "not in them",
                would_settle=SETTLES,
            ),
        ),
        steps=_steps(of.tiles, rank),
        accounting=(device.accounting,),
        devices=(device,),
        operators=(),
        kernels=(),
        collectives=(),
        accelerator="marks",
        peers=peers,
        pids=() if marks.identity.pid is None else (marks.identity.pid,),
        uuids=_own_devices(marks),
        host=marks.identity.host,
    )


def _own_devices(marks: RankMarks) -> tuple[str, ...]:
    """UUID of the rank's own device, of a process that sees those of others too; empty where that is not
    known."""
    uuids, local = marks.identity.device_uuids, marks.identity.local_rank
    if len(uuids) < 2:
        return uuids
    return (uuids[local],) if local is not None and 0 <= local < len(uuids) else ()


def _steps(of: Tiles, rank: int | None) -> tuple[report.Step, ...]:
    rows = zip(of.number.tolist(), of.start_ns.tolist(), of.end_ns.tolist(), of.use, of.why, strict=True)
    return tuple(
        report.Step(rank=rank, step=step, start_ns=start, end_ns=end, dur_ns=end - start, use=use, why=why)
        for step, start, end, use, why in rows
    )


def _count(num: int) -> str:
    return f"{num:,} gaps" if num != 1 else "gap"


def _issues(marks: RankMarks, of: Tiles) -> tuple[report.HealthIssue, ...]:
    rows: list[tuple[str, int, str]] = []
    for code, num, where in (
        ("marks_lost", marks.num_lost, "were overwritten in the ring before they were read"),
        ("marks_damaged", marks.num_damaged, "of the ring are damaged"),
        ("marks_missing", marks.num_missing, "were read by the agent and are not in its spool"),
    ):
        if num:
            over = f"; no step is taken over the {_count(len(marks.gaps_ns))}" if marks.gaps_ns else ""
            rows.append((code, num, f"{num:,} marks {where}: their steps are missing{over}"))
    if marks.num_unmatched:
        what = f"{marks.num_unmatched:,} marks have no partner (an end without its beginning, or the reverse)"
        rows.append(("marks_unmatched", marks.num_unmatched, f"{what} and are left out"))
    if marks.clock_steps_ns:
        most = max(map(abs, marks.clock_steps_ns))
        what = f"the wall clock was set, by up to {most / 1e9:,.3g} s; times here follow the monotonic clock"
        rows.append(("clock_set", len(marks.clock_steps_ns), what))
    if of.num_restarted:
        what = "the loop's step numbers go back or repeat; here they are counted on"
        rows.append(("steps_renumbered", of.num_restarted, what))
    num = sum(use == "captured" for use in of.use)
    if num:
        stall = sum(each.stall_ns or 0 for each in marks.captures)
        held = f", which held the loop up for {stall / 1e6:,.3g} ms" if stall else ""
        rows.append(("steps_captured", num, f"{num} steps of a capture{held}: they are not counted"))
    return tuple(
        report.HealthIssue(code=code, count=count, rank=marks.identity.rank, effect="none", detail=detail)
        for code, count, detail in rows
    )


def _withheld(met: Meetings, tiled: Sequence[Tiles], num_ranks: int) -> tuple[report.Withheld, ...]:
    if num_ranks < 2:
        return ()
    if met.why_not is not None:
        return (report.Withheld(what=STRAGGLER, why=met.why_not, would_settle=SETTLES),)
    if sum(len(each) > 0 for each in met.rows) < 2:
        why = "no phase is marked in which the ranks meet (backward of a data-parallel model, a collective)"
        return (report.Withheld(what=STRAGGLER, why=why, would_settle=SETTLES),)
    longest = max((len(each) for each in tiled), default=0)
    most = most_steps(num_ranks)
    if longest > most:
        why = f"ranks are held against each other over their last {most:,} of {longest:,} steps only"
        return (
            report.Withheld(what=STRAGGLER, why=why, would_settle="a range of steps (--steps FIRST:LAST)"),
        )
    return ()
