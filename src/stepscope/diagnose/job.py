"""What the ranks of a job together say, in the report's form: clocks, collectives, who is late, who waits.

Numbers come from `analyse`, who is late is decided by `detect`; here they are only put together. Nothing is
said where fewer than two ranks can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.analyse import joined as join_
from stepscope.analyse.joined import Joined
from stepscope.analyse.lateness import Lateness, lateness
from stepscope.analyse.replay.job import replay
from stepscope.analyse.replay.program import IMBALANCE
from stepscope.analyse.replay.program import STRAGGLER as STRAGGLER_REMOVED
from stepscope.analyse.slowdown import slowdowns
from stepscope.analyse.wait_spread import wait_spread_ns
from stepscope.diagnose.claim import PEER_WINDOW
from stepscope.diagnose.collective import collective_rows, slower_group, transfer_rate
from stepscope.diagnose.map import rank_map
from stepscope.diagnose.straggler import (
    MOST_TOLD_STEPS,
    UNTOLD,
    WORK_SHARES,
    Found,
    imbalance,
    kind_of,
    of_stage,
    rank_of,
    step_parts,
    stragglers,
)
from stepscope.diagnose.worker import workers
from stepscope.model import report
from stepscope.model.analysis import COLLECTIVE_PARTS, DeviceAnalysis, RankAnalysis
from stepscope.model.peer import PeerTable

STRAGGLER = "straggler"
LACKING_SHARE = 0.05
"""Of the calls, so many may lack a partner (dropped records) before ranks are taken to be missing."""


@dataclass(frozen=True, slots=True)
class LateRanks:
    """Ranks that are late for one reason, and when that began: `None` without steps."""

    ranks: tuple[int, ...]
    steps: tuple[int, int] | None = None
    onset_ns: int | None = None
    reasons: Mapping[int | None, str] = field(default_factory=dict)
    """Rank -> what makes it late: an idle cause, `slower_kernels`, `more_work` or `unknown`."""


@dataclass(frozen=True, slots=True)
class Job:
    """The join of all ranks in report form; everything empty where there is nothing to join."""

    analyses: tuple[RankAnalysis, ...]
    """The analyses, with what the peers tell of each: communication parts, further numbers."""
    clocks: report.Clocks | None = None
    collectives: tuple[report.Collective, ...] | None = None
    """`None`: the rows of the ranks stand."""
    stragglers: tuple[report.Straggler, ...] = ()
    lateness: report.Lateness | None = None
    rank_map: report.RankMap | None = None
    imbalance: report.Imbalance | None = None
    replay: report.Replay | None = None
    late_ranks: Mapping[str, LateRanks] = field(default_factory=dict)
    """The number that a rule asks for -> who is late for its reason."""
    issues: tuple[report.HealthIssue, ...] = ()
    withheld: tuple[report.Withheld, ...] = ()
    joined: Joined | None = None
    late: Lateness | None = None
    steps_ns: int = 0
    """Time of the steps that were judged, of the rank with most."""
    tables: tuple[PeerTable, ...] = field(default=())


def join_ranks(analyses: Sequence[RankAnalysis]) -> Job:
    """Join the ranks of a job. Pure; ranks without a number or without communication are left as they are."""
    chosen = _tables(analyses)
    if len(chosen) < 2:
        return Job(tuple(analyses))
    tables = tuple(table for _, table in chosen)
    several = sorted({a.rank for a in analyses if a.rank is not None and len(a.peers) > 1})
    whole = join_.join(tables)
    if not len(whole.calls):
        return Job(tuple(analyses))
    late = lateness(whole)
    clocks = _clocks(whole)
    issues, withheld = _doubts(whole)
    if several:
        # Which device is which of the other ranks' nobody knows: the rest stays out, and that is said.
        left_out = "of ranks with several devices only the one that communicates most is compared: "
        withheld = (*withheld, report.Withheld(what=STRAGGLER, why=left_out + listed(several)))
    steps_ns = _steps_ns(whole)
    status, why = _status(whole)
    found = stragglers(whole, late, analyses, steps_ns) if status != "withheld" else Found()
    denied = [each for each in found.rows if each.is_confirmed is False]
    if denied:
        names = ", ".join(f"rank {each.rank}" for each in denied)
        withheld = (
            *withheld,
            report.Withheld(
                what=STRAGGLER,
                why=f"the clocks say that {names} came last, the durations of the collectives do not",
                would_settle="a trace of more steps, with the sequence numbers of a newer PyTorch",
            ),
        )
        status, why = "degraded", withheld[-1].why
    kept = tuple(each for each in found.rows if each.is_confirmed is not False)
    pipeline, heavy, of_heavy = of_stage(whole, late, analyses, steps_ns)
    if pipeline is not None:
        # In a pipeline everybody waits for everybody: starts do not tell who is late.
        kept = workers(whole, late, pipeline, step_parts(whole, late, analyses), steps_ns)
    kept = (*of_heavy, *(row for row in kept if row.rank not in {each.rank for each in of_heavy}))
    place = {rank_of(table): at for at, table in enumerate(tables)}
    kinds = [kind_of(row, late.cost_kind[place[row.rank]]) for row in kept]
    shares = _shares(kept, kinds, steps_ns, found.together_ns)
    analyses = tuple(_with_peers(analyses, chosen, whole, shares))
    rows, suspect = collective_rows(whole, late)
    return Job(
        analyses=analyses,
        clocks=clocks,
        collectives=rows if len(whole.heads) else None,
        stragglers=kept,
        late_ranks={
            WORK_SHARES[kind]: _late_ranks([r for r, k in zip(kept, kinds, strict=True) if k == kind], whole)
            for kind in kinds
        },
        imbalance=imbalance(kept, kinds, pipeline, heavy, is_known=status == "ok" or bool(kept)),
        replay=_replayed(whole, {row.rank for row in kept}, is_staged=pipeline is not None),
        lateness=_told(whole, late, found, status, why),
        rank_map=rank_map(whole, tuple(row.rank for row in kept)) if whole.clocks.has_one_axis else None,
        issues=(*issues, *suspect),
        withheld=withheld,
        joined=whole,
        late=late,
        steps_ns=steps_ns,
        tables=tables,
    )


def _tables(analyses: Sequence[RankAnalysis]) -> list[tuple[int, PeerTable]]:
    """(place of the analysis, table) of every rank once: its device with most communication."""
    found: dict[int, tuple[int, PeerTable]] = {}
    for place, analysis in enumerate(analyses):
        if analysis.rank is None or analysis.is_cut:
            continue
        for table in analysis.peers:
            best = found.get(analysis.rank)
            if best is None or len(table.collectives) > len(best[1].collectives):
                found[analysis.rank] = (place, table)
    return [found[rank] for rank in sorted(found)]


def _steps_ns(whole: Joined) -> int:
    """Time that costs are shares of: the windows of the rank with most, else the extent of communication."""
    windows = [int((t.steps.window_end_ns - t.steps.window_start_ns).sum()) for t in whole.tables]
    if any(windows):
        return max(windows)
    strips = [t.strip.cell_ns * len(t.strip.cells) for t in whole.tables if t.strip is not None]
    return max(strips, default=int(np.ptp(np.append(whole.start_ns, whole.end_ns))))


def _clocks(whole: Joined) -> report.Clocks:
    clocks, rows = whole.clocks, []
    for place, table in enumerate(whole.tables):
        is_known = clocks.component[place] >= 0
        is_given = clocks.is_shared is not None and bool(clocks.is_shared[place])
        error = float(clocks.drift_error[place]) * 1e6
        rows.append(
            report.RankClock(
                rank=rank_of(table),
                method="given" if is_given else "collectives" if is_known else "none",
                component=int(clocks.component[place]) if is_known else None,
                offset_ns=int(clocks.offset_ns[place]) if is_known else None,
                offset_error_ns=_whole(clocks.error_ns[place]) if is_known else None,
                drift_ppm=float(clocks.drift[place]) * 1e6 if clocks.drift[place] else None,
                drift_error_ppm=error if is_known and np.isfinite(error) else None,
                residual_ns=_whole(clocks.residual_ns[place]) if is_known else None,
            )
        )
    known = clocks.reference[clocks.component == 0]
    reference = rank_of(whole.tables[int(known[0])]) if len(known) else None
    pivot = clocks.pivot_ns if reference is not None else None
    return report.Clocks(reference_rank=reference, pivot_ns=pivot, ranks=tuple(rows))


def _whole(value: float) -> int | None:
    return round(float(value)) if np.isfinite(value) else None


def _doubts(whole: Joined) -> tuple[tuple[report.HealthIssue, ...], tuple[report.Withheld, ...]]:
    """What is wrong with the clocks and the matching, and what follows."""
    from stepscope.align.clock import SAME_HOST_NS

    issues: list[report.HealthIssue] = []
    withheld: list[report.Withheld] = []
    clocks = whole.clocks
    if clocks.violation_ns > clocks.allowed_violation_ns:
        what = (
            f"ranks leave matched collectives up to {clocks.violation_ns / 1e6:,.3g} ms before others enter "
            "them, whatever the clocks: the matched calls are not the same collectives"
        )
        issues.append(
            report.HealthIssue(
                code="clock_conflict", count=1, effect="degraded", detail=what, affects=("straggler",)
            )
        )
    for component in np.unique(clocks.component[clocks.component >= 0]).tolist():
        mine = np.flatnonzero(clocks.component == component)
        by_host: dict[str, list[int]] = {}
        for place in mine.tolist():
            if (host := whole.tables[place].host) is not None:
                by_host.setdefault(host, []).append(place)
        for places in by_host.values():
            apart = int(np.ptp(clocks.offset_ns[places])) if len(places) > 1 else 0
            error = float(np.nan_to_num(clocks.error_ns[places]).max())
            if apart > SAME_HOST_NS + 3 * error:
                what = (
                    f"clocks of ranks on one host differ by {apart / 1e6:,.3g} ms by their collectives: "
                    "that one host has one clock was not assumed"
                )
                issues.append(
                    report.HealthIssue(
                        code="clock_prior", count=1, effect="none", detail=what, affects=("straggler",)
                    )
                )
    apart_ranks = _apart(whole)
    if apart_ranks:
        withheld.append(
            report.Withheld(
                what=STRAGGLER,
                why=apart_ranks,
                would_settle="traces with a collective that all ranks share (a barrier is one)",
            )
        )
    return tuple(issues), tuple(withheld)


def _apart(whole: Joined) -> str | None:
    """Ranks without a common axis, in words; `None` where all have one."""
    clocks = whole.clocks
    alone = [rank_of(t) for t, c in zip(whole.tables, clocks.component.tolist(), strict=True) if c < 0]
    components = np.unique(clocks.component[clocks.component >= 0]).tolist()
    number = len(components)
    if alone:
        names = listed(alone)
        verb = "shares" if len(alone) == 1 else "share"
        return f"{names} {verb} no synchronising collective with any other rank"
    if number > 1:
        sets = [
            listed([rank_of(whole.tables[p]) for p in np.flatnonzero(clocks.component == c).tolist()])
            for c in components
        ]
        return f"no collective joins {' with '.join(sets[:4])}: nobody is late across them"
    return None


def listed(ranks: Sequence[int]) -> str:
    """rank 3; ranks 0-3, 8."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    told = [str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs]
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(told)


def _status(whole: Joined) -> tuple[report.RowStatus, str | None]:
    """Whether anybody can be named."""
    apart = _apart(whole)
    is_any = len(whole.heads) > 0 and bool((whole.clocks.component >= 0).any())
    if not is_any:
        return "withheld", apart or "no synchronising collective was matched"
    if whole.clocks.violation_ns > whole.clocks.allowed_violation_ns:
        return "withheld", "matched collectives contradict causality"
    if apart:
        return "degraded", apart
    lacking = float((~whole.is_whole[whole.by_instance]).mean())
    if lacking > LACKING_SHARE:
        return "degraded", "ranks of these collectives were not given: one of those may be the late one"
    return "ok", None


def _told(
    whole: Joined, late: Lateness, found: Found, status: report.RowStatus, why: str | None
) -> report.Lateness:
    """The map of lateness by rank and step."""
    steps = late.steps
    if not late.has_steps:
        chosen = np.empty(0, dtype=np.int64)
    else:
        most = np.nanmax(np.nan_to_num(late.lateness_ns, nan=-1.0), axis=0)
        chosen = np.arange(len(steps))
        if len(steps) > MOST_TOLD_STEPS:
            keep = np.argsort(-most, kind="stable")[: MOST_TOLD_STEPS // 2]
            spaced = np.linspace(0, len(steps) - 1, MOST_TOLD_STEPS // 2).astype(np.int64)
            chosen = np.union1d(keep, spaced)

    def cells(matrix: npt.NDArray[np.float64], rank: int) -> tuple[int | None, ...]:
        return tuple(round(v) if np.isfinite(v) else None for v in matrix[rank, chosen].tolist())

    return report.Lateness(
        status=status,
        noise_ns=found.noise_ns,
        why=why or found.why,
        num_collectives=int(late.is_sync.sum()),
        steps=tuple(steps[chosen].tolist()),
        rows=tuple(
            report.RankLateness(
                rank=rank_of(table),
                lateness_ns=cells(late.lateness_ns, place),
                wait_ns=cells(late.wait_ns, place),
            )
            for place, table in enumerate(whole.tables)
        )
        if status != "withheld" and late.has_steps
        else (),
    )


def _with_peers(
    analyses: Sequence[RankAnalysis],
    chosen: Sequence[tuple[int, PeerTable]],
    whole: Joined,
    shares: Mapping[int, Mapping[str, float]],
) -> list[RankAnalysis]:
    """The analyses with what the peers tell of each rank's communication, and numbers for rules."""
    result = list(analyses)
    slower = slowdowns(whole.tables)
    for place, (at, table) in enumerate(chosen):
        parts = join_.split(whole, place)
        own = {**shares.get(rank_of(table), {}), **slower[place]}
        analysis = result[at]
        if parts is None or not parts.is_complete:
            # A rank that is not here may be the late one: only who is named is known.
            devices = tuple(
                replace(device, numbers={**device.numbers, **own}) if _is_of(device, table) else device
                for device in analysis.devices
            )
            result[at] = replace(analysis, devices=devices)
            continue
        result[at] = _told_of_peers(analysis, table, parts, own, whole, place)
    return result


def _is_of(device: DeviceAnalysis, table: PeerTable) -> bool:
    """Whether the table is this device's."""
    index = device.accounting.device.index
    known = table.device if table.device is not None and table.device >= 0 else None
    return index == known


def _told_of_peers(
    analysis: RankAnalysis,
    table: PeerTable,
    parts: join_.Split,
    own: Mapping[str, float],
    whole: Joined,
    place: int,
) -> RankAnalysis:
    """One rank's analysis with the parts of its communication."""
    withheld = tuple(w for w in analysis.withheld if w.what != COLLECTIVE_PARTS)
    devices, accounting = [], list(analysis.accounting)
    for device in analysis.devices:
        row = device.accounting
        if not _is_of(device, table) or row.communication is None:
            devices.append(device)
            continue
        whole_ns = row.communication.total_ns
        wait = min(parts.wait_ns, whole_ns)
        told = msgspec.structs.replace(
            row,
            communication=msgspec.structs.replace(
                row.communication,
                wait_ns=wait,
                transfer_ns=whole_ns - wait,
                wait_exposed_ns=min(parts.wait_exposed_ns, wait, row.communication_exposed_ns),
            ),
        )
        accounting = [told if each == row else each for each in accounting]
        numbers = {**device.numbers, **_numbers(told, own, whole, place)}
        devices.append(replace(device, accounting=told, numbers=numbers))
    return replace(analysis, withheld=withheld, devices=tuple(devices), accounting=tuple(accounting))


def _numbers(
    row: report.Accounting,
    shares: Mapping[str, float],
    whole: Joined,
    place: int,
) -> dict[str, float]:
    """What rules ask of a rank beside its peers."""
    numbers = {**dict.fromkeys(WORK_SHARES.values(), 0.0), **shares}
    communication = row.communication
    if communication is None or row.total_ns <= 0 or communication.wait_exposed_ns is None:
        return numbers
    wait = communication.wait_exposed_ns
    numbers["peer_wait_share"] = wait / row.total_ns
    numbers["transfer_exposed_share"] = (row.communication_exposed_ns - wait) / row.total_ns
    rate, link = transfer_rate(whole, place), whole.tables[place].link_bytes_per_second
    if rate is not None:
        numbers["transfer_bytes_per_second"] = rate
        if link:
            numbers["transfer_link_share"] = rate / link
    spread = wait_spread_ns(whole, place)
    if spread is not None:
        numbers["wait_spread_share"] = spread / row.total_ns
    slower = slower_group(whole, place)
    return numbers if slower is None else {**numbers, "slower_group_ratio": slower}


def _replayed(whole: Joined, late_ranks: set[int], *, is_staged: bool) -> report.Replay | None:
    """The replay of all ranks, which wait for each other where their calls were matched.

    The ranks that it speeds up are named only where they are the late ones by the clocks too. Where a stage
    is heavier than the others, levelling ranks between two messages says nothing of it, and is left out.
    """
    calls = whole.calls
    instance = np.where(whole.wait_ns >= 0, whole.matching.instance, -1)
    rows = [calls.of_rank(place) for place in range(calls.num_ranks)]
    played = replay(
        [table.program for table in whole.tables],
        [instance[mine] for mine in rows],
        [whole.start_ns[mine] for mine in rows],
        [whole.end_ns[mine] for mine in rows],
    )
    if played is None:
        return None
    what_if = tuple(
        msgspec.structs.replace(each, ranks=each.ranks if set(each.ranks) == late_ranks else ())
        for each in played.what_if
        if not (is_staged and each.remove in (STRAGGLER_REMOVED, IMBALANCE))
    )
    return msgspec.structs.replace(played, what_if=what_if)


def _late_ranks(rows: Sequence[report.Straggler], whole: Joined) -> LateRanks:
    """Who is late, from the first step in which any of them is to the last."""
    ranks = tuple(sorted(row.rank for row in rows))
    steps = [step for row in rows for step in row.late_steps]
    reasons: dict[int | None, str] = {row.rank: row.reason for row in rows if row.reason is not None}
    if not steps:
        return LateRanks(ranks, reasons=reasons)
    first = min(steps)
    who = next(row.rank for row in rows if first in row.late_steps)
    table = next(table for table in whole.tables if table.rank == who).steps
    at = np.flatnonzero(table.number == first)
    return LateRanks(ranks, (first, max(steps)), int(table.start_ns[at[0]]) if len(at) else None, reasons)


def _shares(
    rows: Sequence[report.Straggler], kinds: Sequence[str], steps_ns: int, together_ns: int
) -> dict[int, dict[str, float]]:
    """Rank -> what its lateness costs, by the name of the number that a rule asks for.

    Where ranks take turns their costs are of different steps and add up: the costliest speaks for all. Ranks
    of one stage are late together, and cost once.
    """
    result: dict[int, dict[str, float]] = {}
    for kind in dict.fromkeys(kinds):
        mine = [row for row, each in zip(rows, kinds, strict=True) if each == kind]
        worst = max(mine, key=lambda row: row.cost_ns or 0)
        is_shared = len(mine) > 1 and worst.persistence in ("moving", "stage")
        for row in mine:
            own = row.cost_ns or 0
            if is_shared and row is not worst:
                own = 0
            elif is_shared and worst.persistence == "moving":
                own = sum(each.cost_ns or 0 for each in mine)
            elif kind == "rank" and row is worst:
                own = max(own, together_ns)
            share = min(1.0, own / steps_ns) if steps_ns else 0.0
            turns = len(mine) if worst.persistence == "moving" else 1
            told = {WORK_SHARES[kind]: share, "num_late_ranks": float(turns), PEER_WINDOW: float(steps_ns)}
            if kind == "rank":
                told["is_lateness_untold"] = float(row.reason in UNTOLD)
            result.setdefault(row.rank, {}).update(told)
    return result
