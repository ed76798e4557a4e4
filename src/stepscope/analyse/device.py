"""One device of one process: windows, accounting rows, and what rules need beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from stepscope.analyse import collective, copies, gradient, host, peer, tiled
from stepscope.analyse.account import (
    Parts,
    WindowSums,
    idle_spans,
    idle_struct,
    parts_of,
    step_parts,
    window_sums,
    without_causes,
)
from stepscope.analyse.activity import activity
from stepscope.analyse.beside import peer_of_device, peer_of_host
from stepscope.analyse.compute import compute_of, own_ns
from stepscope.analyse.culprit import activity_culprits, culprits
from stepscope.analyse.idle import (
    LAUNCH,
    PYTHON,
    QUEUED,
    IdlePieces,
    idle_pieces,
    largest_gaps_ns,
    late_starts,
)
from stepscope.analyse.phase import optimizer_steps
from stepscope.analyse.process import Process, Scope
from stepscope.analyse.replay.build import program_of
from stepscope.analyse.stretch import pauses, python_stall_ns
from stepscope.analyse.timeline import timeline
from stepscope.analyse.variation import periodic_excess_ns, variation
from stepscope.analyse.window import Windows, host_windows, windows
from stepscope.model import report
from stepscope.model.analysis import Culprit, DeviceAnalysis
from stepscope.model.hardware import hardware_of
from stepscope.model.interval import Intervals, intersect, overlap_ns, union
from stepscope.model.peer import PeerTable
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace import health
from stepscope.trace.category import Kind
from stepscope.trace.link import COMMUNICATION, COPY, Activities
from stepscope.trace.step import owner_of

SHORT_KERNEL_NS = 10_000
"""A kernel hardly longer than the pause before the next one (`health.PAUSE_NS`)."""
UNEXPLAINED_OF_IDLE, UNEXPLAINED_OF_ALL = 0.5, 0.15
"""Shares of idle time and of all time from which on unexplained idle time is an issue of the trace."""


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """Accounting rows (the first decides), the analysis, and the report's collectives."""

    rows: tuple[report.Accounting, ...]
    analysis: DeviceAnalysis
    collectives: tuple[report.Collective, ...] = ()
    issues: tuple[health.Issue, ...] = ()
    device: int | None = None
    """The device's number among the activities, which is negative where the trace numbers none; `None` for
    the host."""
    own_ns: I64 | None = None
    """Of each activity of the device, its own compute time in the row that decides (`compute.own_ns`)."""
    peer: PeerTable | None = None
    """What its peers need of it; `None` where the trace is of a job of one."""


def analyse_device(p: Process, device: int) -> DeviceResult:
    """Everything about one device."""
    mine = p.activities.device == device
    activities, who = p.activities.take(mine), p.who.take(mine)
    owner = owner_of(p.used.steps, activities.called_ns, activities.launch_row >= 0)
    parts = parts_of(activities)
    first, last = int(activities.start_ns.min()), int(activities.end_ns.max())
    scopes = []
    if not p.used.is_empty:
        scopes.append(Scope("steps", windows(p.used.steps, activities, owner), p.used.in_scope))
    scopes.append(Scope("trace", Windows("device", np.array([first]), np.array([last])), np.ones(1, bool)))

    timeline = p.threads.timeline
    # A gap reaches back to the first event: what was launched while the device stood still was not queued.
    low = min(int(s.windows.start_ns.min()) for s in scopes)
    high = max(int(s.windows.end_ns.max()) for s in scopes)
    if timeline is not None:
        low = min(low, timeline.start_ns)
    idle = idle_pieces(
        activities,
        timeline,
        who.thread,
        p.is_blocking_copy[mine],
        tiled.bodies(p.used.steps, p.threads) if tiled.is_tiled(p.trace.metadata) else p.used.steps,
        owner,
        p.prepared,
        low,
        high,
    )
    info = report.Device(index=device if device >= 0 else None, name=device_name(p.trace, device))
    rows, all_sums, own = [], [], []
    for scope in scopes:
        launches = health.unlaunched_effect(health.unlaunched_share(activities, scope.inside))
        status = _status(launches, p.idle_effect)
        sums = window_sums(scope.windows.start_ns, scope.windows.end_ns, parts, idle)
        all_sums.append(sums)
        row = _row(p, scope, without_causes(sums) if status == "withheld" else sums, info, status)
        own.append(own_ns(activities, scope.inside))
        rows.append(msgspec.structs.replace(row, compute=compute_of(who.kind, own[-1])))

    inside, status = scopes[0].inside, rows[0].status
    hardware = hardware_of(info.name)
    link = hardware.link_bytes_per_second if hardware is not None else None
    found = collective.collectives_of(p.trace, activities, p.world_size, link)
    exposed_ns = overlap_ns(*found.span, intersect(parts.communication_exposed, inside))
    blame = {} if status == "withheld" else culprits(p.trace, idle, p.threads.rows, inside)
    analysis = DeviceAnalysis(
        accounting=rows[0],
        culprits={**blame, **_exposed_culprits(p.trace, activities, parts, inside)},
        largest_gap_ns={}
        if status == "withheld"
        else {report.IDLE_CAUSES[c]: ns for c, ns in largest_gaps_ns(idle, inside).items()},
        by_step=_by_step(p, scopes[0], without_causes(all_sums[0]) if status == "withheld" else all_sums[0]),
        numbers=_numbers(p, activities, all_sums[0].summed(scopes[0].chosen), idle, inside)
        | _step_numbers(p, rows[0], all_sums[0].compute[scopes[0].chosen])
        | collective.plausibility(found, overlap_ns(*found.span, parts.communication_exposed), link)
        | gradient.small(found, exposed_ns, rows[0].num_steps)
        | gradient.repeated_syncs(p.trace, p.kinds, activities, found, exposed_ns)
        | copies.pinned_rate(
            p.trace, activities, hardware.pcie_bytes_per_second if hardware is not None else None
        )
        | _contention(p, activities, parts, inside, rows[0].total_ns)
        | copies.ways(
            p.trace,
            activities,
            intersect(parts.copy_exposed, inside),
            inside,
            p.is_blocking_copy[mine],
            rows[0].idle.copy_wait_ns,
        ),
        timeline=_timeline(p, scopes[0], activities, idle, is_idle_told=status != "withheld"),
        idle=idle_spans(
            idle, f"device {device}" if device >= 0 else "device", is_withheld=status == "withheld"
        ),
        activity=activity(p, activities, parts, idle, scopes[0]),
        program=program_of(
            p.trace,
            p.threads,
            p.used,
            activities,
            who.kind,
            rank=p.rank,
            status=status,
        ),
    )
    issues = [*_unexplained(rows[0], analysis.numbers)]
    if found.impossible and link:
        detail = (
            f"{len(found.impossible)} collectives imply up to {max(found.impossible) / 1e9:,.0f} GB/s "
            f"where the link carries {link / 1e9:,.0f}: their recorded size, group or duration is wrong, "
            "and their bandwidth is withheld"
        )
        issues.append(health.Issue("unit_suspect", len(found.impossible), "none", detail))
    return DeviceResult(
        tuple(rows),
        analysis,
        collective.rows(found, p.rank, link),
        tuple(issues),
        device,
        own[0],
        peer_of_device(p, analysis, scopes, activities, found, parts, idle, owner, link, device=device),
    )


def _contention(
    p: Process, activities: Activities, parts: Parts, inside: Intervals, total_ns: int
) -> dict[str, float]:
    """`beside_communication_share`, where communication ran beside kernels that also ran without it."""
    if not total_ns or not len(parts.communication):
        return {}
    time = peer.beside_communication_ns(p.trace, p.kinds, activities, parts.communication, inside)
    return {} if time is None else {"beside_communication_share": time / total_ns}


def _unexplained(row: report.Accounting, numbers: Mapping[str, float]) -> tuple[health.Issue, ...]:
    """Idle time before work that was issued already, or whose launch is unknown: it has no host cause."""
    queued_ns = numbers.get("queued_or_unlaunched_idle_share", 0.0) * row.idle_ns
    # Pauses that starting a queued kernel takes are explained.
    unexplained_ns = max(0, int(queued_ns - numbers.get("kernel_gap_ns", 0.0)))
    share = unexplained_ns / row.idle_ns if row.idle_ns else 0.0
    if share < UNEXPLAINED_OF_IDLE or unexplained_ns < UNEXPLAINED_OF_ALL * row.total_ns:
        return ()
    graphs = "; CUDA graphs are replayed here" if "graph_coverage" in numbers else ""
    detail = (
        f"{100 * share:.0f} % of {row.idle_ns / 1e6:,.0f} ms idle lies before work already issued or without "
        f"a recorded launch: unrecorded graph nodes, or a dependency on the device{graphs}; "
        "its cause is withheld"
    )
    return (health.Issue("unrecorded_or_dependent_work", 1, "withheld", detail),)


def analyse_cpu(p: Process, *, is_device_unseen: bool) -> DeviceResult:
    """The row of a run without device work; withheld where a device worked unseen."""
    info = report.Device(kind="cpu")
    timeline = p.threads.timeline
    if timeline is None:
        nothing = report.Accounting(
            rank=p.rank,
            device=info,
            scope="trace",
            window="host",
            num_steps=0,
            total_ns=0,
            compute_ns=0,
            communication_exposed_ns=0,
            copy_exposed_ns=0,
            idle_ns=0,
            idle=report.Idle(),
            status="withheld",
        )
        return DeviceResult((nothing,), DeviceAnalysis(accounting=nothing))
    steps = tiled.bodies(p.used.steps, p.threads) if tiled.is_tiled(p.trace.metadata) else p.used.steps
    account = host.cpu_account(p.trace, p.threads, timeline, p.facts, steps)
    scopes = [] if p.used.is_empty else [Scope("steps", host_windows(p.used.steps), p.used.in_scope)]
    whole = Windows("host", np.array([timeline.start_ns]), np.array([timeline.end_ns]))
    scopes.append(Scope("trace", whole, np.ones(1, bool)))
    sums = [window_sums(s.windows.start_ns, s.windows.end_ns, account.parts, account.idle) for s in scopes]
    status: report.RowStatus = "withheld" if is_device_unseen else _status("none", p.idle_effect)
    rows = tuple(_row(p, scope, each, info, status) for scope, each in zip(scopes, sums, strict=True))
    analysis = DeviceAnalysis(
        accounting=rows[0],
        culprits=culprits(p.trace, account.idle, p.threads.rows, scopes[0].inside),
        by_step=_by_step(p, scopes[0], sums[0]),
        numbers=_step_numbers(p, rows[0], sums[0].compute[scopes[0].chosen])
        | tiled.numbers(account.idle, scopes[0].inside, p.used.steps, p.threads, p.trace.metadata),
        timeline=_timeline(p, scopes[0], p.activities, account.idle, is_idle_told=True),
        idle=idle_spans(account.idle, "host", is_withheld=status == "withheld"),
    )
    return DeviceResult(rows, analysis, peer=peer_of_host(p, analysis, scopes, account))


def device_name(trace: Trace, device: int) -> str | None:
    """What the driver calls the device, `None` where the trace does not say."""
    properties = trace.metadata.get("deviceProperties")
    found: dict[object, object] = {
        entry.get("id"): entry.get("name")
        for entry in (properties if isinstance(properties, list) else ())
        if isinstance(entry, Mapping) and isinstance(entry.get("id"), int)
    }
    # A process that sees one device may list it as 0 and run on another: where all are alike that is known.
    names = set(found.values())
    name = found[device] if device in found else next(iter(names)) if len(names) == 1 else None
    return name if isinstance(name, str) and name else None


def _status(*effects: report.Effect) -> report.RowStatus:
    """Whether idle causes can be believed, given everything that touches them."""
    effect = health.worst(effects)
    return "ok" if effect == "none" else effect


def _row(
    p: Process, scope: Scope, sums: WindowSums, info: report.Device, status: report.RowStatus
) -> report.Accounting:
    named = sums.summed(scope.chosen)
    is_steps = scope.name == "steps"
    if is_steps:
        used = p.used.steps
        when = union(used.start_ns[scope.chosen], used.end_ns[scope.chosen])
    elif p.threads.timeline is not None:
        when = union(np.array([p.threads.timeline.start_ns]), np.array([p.threads.timeline.end_ns]))
    else:
        when = scope.inside
    communication = named["communication_ns"]
    by_step = step_parts(p.used.steps.number, sums, scope.chosen) if is_steps else ()
    return report.Accounting(
        rank=p.rank,
        device=info,
        scope=scope.name,
        window=scope.windows.kind,
        num_steps=int(scope.chosen.sum()) if is_steps else 0,
        total_ns=named["total_ns"],
        compute_ns=named["compute_ns"],
        communication_exposed_ns=named["communication_exposed_ns"],
        copy_exposed_ns=named["copy_exposed_ns"],
        idle_ns=named["idle_ns"],
        idle=idle_struct(named),
        communication=report.Communication(
            total_ns=communication, hidden_ns=communication - named["communication_exposed_ns"]
        )
        if communication
        else None,
        host=host.shares(p.threads, p.is_launch_call, when),
        variation=variation(*p.used.durations()) if is_steps else None,
        status=status,
        by_step=by_step,
        steps_left_out=int(scope.chosen.sum()) - len(by_step) or None if is_steps else None,
    )


def _timeline(
    p: Process, scope: Scope, activities: Activities, idle: IdlePieces, *, is_idle_told: bool
) -> report.Timeline | None:
    """The longest counted step, or else the longest of the row; of a cut file nobody knows any."""
    if any(loss.is_cut for loss in p.trace.losses):
        return None
    length = scope.windows.end_ns - scope.windows.start_ns
    is_steps = scope.name == "steps"
    counted = scope.chosen & p.used.counted if is_steps else scope.chosen
    which = int(np.argmax(np.where(counted if counted.any() else scope.chosen, length, -1)))
    if length[which] <= 0:
        return None
    return timeline(
        p.trace,
        p.threads,
        activities,
        idle,
        (int(scope.windows.start_ns[which]), int(scope.windows.end_ns[which])),
        int(p.used.steps.number[which]) if is_steps else None,
        is_idle_told=is_idle_told,
    )


def _by_step(p: Process, scope: Scope, sums: WindowSums) -> dict[int, Mapping[str, int]]:
    if scope.name != "steps":
        return {}
    return {int(p.used.steps.number[i]): sums.by_window(int(i)) for i in np.flatnonzero(p.used.in_scope)}


def _exposed_culprits(
    trace: Trace, activities: Activities, parts: Parts, inside: Intervals
) -> dict[str, tuple[Culprit, ...]]:
    """Collectives and copies by the time that nothing hides; of copies also apart those to the device from
    pageable memory and all others."""
    found = {}
    is_copy, is_upload = activities.part == COPY, copies.pageable_uploads(trace, activities)
    for name, when, which in (
        ("communication_exposed", parts.communication_exposed, activities.part == COMMUNICATION),
        ("copy_exposed", parts.copy_exposed, is_copy),
        ("pageable_upload", parts.copy_exposed, is_copy & is_upload),
        ("other_copy", parts.copy_exposed, is_copy & ~is_upload),
    ):
        named = activity_culprits(
            trace,
            activities.row[which],
            activities.start_ns[which],
            activities.end_ns[which],
            intersect(when, inside),
        )
        if named:
            found[name] = named
    return found


def _numbers(
    p: Process,
    activities: Activities,
    named: Mapping[str, int],
    idle: IdlePieces,
    inside: Intervals,
) -> dict[str, float]:
    """Further numbers for rules (see `DeviceAnalysis.numbers`); what cannot be said is absent."""
    numbers = dict(p.numbers)
    numbers["unlaunched_device_share"] = health.unlaunched_share(activities, inside)
    if named["idle_ns"] and p.is_clock_known:
        _, at, length = idle.within(inside.start, inside.end)
        late = int(length[idle.is_host_late[at]].sum()) / named["idle_ns"]
        numbers["queued_or_unlaunched_idle_share"] = 1.0 - late
        numbers["late_start_ns"] = float(length[late_starts(idle, activities)[at]].sum())
        apart = tiled.numbers(idle, inside, p.used.steps, p.threads, p.trace.metadata)
        stall = float(python_stall_ns(idle, inside, p.threads)) - apart.get("between_steps_ns", 0.0)
        numbers |= apart | {"python_stall_ns": max(stall, 0.0)}
        numbers |= pauses(idle, inside, p.threads, p.used, p.prepared)
    if p.used.uses.num_recompiling is not None:
        numbers["recompiling_steps"] = float(p.used.uses.num_recompiling)
    if p.used.launches_per_step is not None:
        numbers["launches_per_step"] = p.used.launches_per_step
    duration = activities.end_ns - activities.start_ns
    is_compute = (p.kinds[activities.row] == Kind.KERNEL) & (activities.part != COMMUNICATION)
    if is_compute.any():
        numbers["kernel_median_ns"] = float(np.median(duration[is_compute]))
        numbers["batched_launch_share"] = _batched(activities.launch_row[is_compute])
        numbers["short_kernel_share"] = float((duration[is_compute] <= SHORT_KERNEL_NS).mean())
    stepping = optimizer_steps(p.trace, p.threads.rows)
    if len(stepping):
        issuing = np.isin(idle.cause, (LAUNCH, PYTHON))
        waits = union(idle.start[issuing], idle.end[issuing])
        numbers["optimizer_idle_ns"] = float(intersect(intersect(waits, stepping), inside).total_ns)
    between = (idle.cause == QUEUED) & (idle.end - idle.start <= health.PAUSE_NS)
    numbers["kernel_gap_ns"] = float(overlap_ns(idle.start[between], idle.end[between], inside).sum())
    return numbers | copies.pageable(p.trace, activities)


def _batched(launch_row: I32) -> float:
    """Of the activities, the share whose launch issued several: a graph's."""
    known = launch_row[launch_row >= 0]
    _, of, count = np.unique(known, return_inverse=True, return_counts=True)
    return float((count[of] > 1).sum() / max(len(launch_row), 1))


def _step_numbers(p: Process, row: report.Accounting, compute_ns: I64) -> dict[str, float]:
    """Numbers about the series of steps, `compute_ns` of each in scope; empty without a row over steps."""
    if row.scope != "steps":
        return {}
    numbers: dict[str, float] = {}
    number, duration, is_counted = p.used.durations()
    if is_counted.sum() > 1 and duration.sum() > 0:
        excess = periodic_excess_ns(number, duration, is_counted, compute_ns)
        numbers["periodic_stall_share"] = excess / int(duration.sum())
    if row.variation is not None and row.variation.period_steps is not None:
        numbers["periodic_stall_steps"] = float(row.variation.period_steps)
    return numbers


__all__ = ["DeviceResult", "Process", "analyse_cpu", "analyse_device", "device_name"]
