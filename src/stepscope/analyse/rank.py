"""One trace to one `RankAnalysis` a process: clean, link, find threads and steps, account. Nothing but
numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.analyse import collective
from stepscope.analyse.device import Process, analyse_cpu, analyse_device, device_name
from stepscope.analyse.idle import prepared_ns
from stepscope.analyse.kernel import kernel_table
from stepscope.analyse.launched import launched
from stepscope.analyse.linked import EVERYBODY, link_trace, split
from stepscope.analyse.memory.of_trace import memory_rows
from stepscope.analyse.operator import Calls
from stepscope.analyse.table import tables_of, with_recoverable
from stepscope.analyse.use import UsedSteps, graph_coverage, light_capture, use_steps
from stepscope.model import report
from stepscope.model.analysis import ALL_ACCOUNTING, ALL_CAUSES, COLLECTIVE_PARTS, RankAnalysis
from stepscope.model.hardware import hardware_of
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace import health
from stepscope.trace.category import Kind
from stepscope.trace.health import Issue
from stepscope.trace.host_cause import RANK, NameFacts
from stepscope.trace.link import Activities
from stepscope.trace.step import find_steps, owner_of
from stepscope.trace.thread import find_threads

SETTLES = {
    "missing_launch": "a trace that records host calls too (ProfilerActivity.CPU beside CUDA)",
    "graph_underrecorded": "a trace with CUDA graphs off, or a newer CUPTI that records graph nodes",
    "unrecorded_or_dependent_work": "nsys profile --cuda-graph-trace=node: it records graph nodes",
    "light_capture": "the step rings of the run beside it: their marks say where the host was",
    "clock_offset": "a trace of a run that calls torch.cuda.synchronize() once a step, or of a newer CUPTI",
    "truncated": "the whole trace",
    "malformed_events": "the whole trace",
    "mixed_writers": "a file of its own for each rank",
    "no_device_data": "a trace with the accelerator's ProfilerActivity and a warm-up step",
}
NO_DEVICE = Issue(
    "no_device_data",
    0,
    "none",
    "no launch and no device activity was recorded: if this run used an accelerator, "
    "its work cannot be seen here",
)
NO_HOST_ROWS = Issue(
    "no_host_rows",
    1,
    "none",
    "no op, annotation or Python row was recorded, only calls: "
    "what the host did between its calls is unknown",
)
NO_STEPS = Issue("no_steps", 1, "none", "no ProfilerStep annotations: the whole trace is one window")


def analyse_rank(
    trace: Trace,
    *,
    steps: tuple[int, int] | None = None,
    rank: int | None = None,
    world_size: int | None = None,
    model_flops: int | None = None,
) -> list[RankAnalysis]:
    """Everything that one trace says: one analysis a host process that launched device work.

    `steps` keeps only steps with these numbers (inclusive) in the accounting; `rank` and `world_size` are
    what the caller knows of the trace (`trace.load.rank_of`); `model_flops` what one rank's model needs in a
    step, where the caller knows it. Pure: the trace is not changed.
    """
    linked = link_trace(trace)
    kinds, is_good, facts = linked.kinds, linked.is_good, linked.facts
    process_of_track, is_launch_call = linked.process_of_track, linked.is_launch_call
    activities, cut = health.cut_corrupt(trace, linked.activities)
    issues = [*health.loss_issues(trace), *linked.issues, *cut]
    groups = split(activities)
    return [
        _analyse_process(
            trace,
            kinds,
            facts,
            is_good,
            is_launch_call,
            activities.take(chosen),
            np.flatnonzero(process_of_track == process)
            if process != EVERYBODY
            else np.arange(len(trace.tracks)),
            issues,
            steps,
            None if len(groups) > 1 else rank,
            world_size,
            model_flops if len(groups) == 1 else None,
        )
        for process, chosen in groups
    ]


def _analyse_process(
    trace: Trace,
    kinds: I32,
    facts: NameFacts,
    is_good: npt.NDArray[np.bool_],
    is_launch_call: npt.NDArray[np.bool_],
    activities: Activities,
    tracks: npt.NDArray[np.intp],
    issues: list[Issue],
    wanted: tuple[int, int] | None,
    rank: int | None,
    world_size: int | None,
    model_flops: int | None,
) -> RankAnalysis:
    spans = trace.spans
    issues = list(issues)
    has_launch = activities.launch_row >= 0
    is_launch_call = is_launch_call & np.isin(spans.track_id, tracks)
    is_copy_wait = np.zeros(len(spans.ts_ns), dtype=bool)
    is_copy_wait[activities.launch_row[activities.is_pageable & has_launch]] = True
    own_cause = facts.cause[kinds, spans.name_id]
    is_blocking_copy = has_launch & (
        is_copy_wait[activities.launch_row] | (own_cause[activities.launch_row] == RANK["copy_wait"])
    )

    launching = set(np.unique(spans.track_id[is_launch_call]).tolist())
    steps = find_steps(trace, kinds, facts, tracks, is_good, launching)
    span = (int(activities.start_ns.min()), int(activities.end_ns.max())) if len(activities) else None
    threads = find_threads(
        trace, kinds, facts, tracks.tolist(), steps, is_launch_call, is_copy_wait, is_good, span
    )
    used, found = use_steps(trace, steps, threads, activities, is_launch_call, wanted)
    issues += found if len(steps) else [NO_STEPS]
    if threads.rows and not any(rows.is_recorded for rows in threads.rows.values()):
        issues.append(NO_HOST_ROWS)
    coverage, found = graph_coverage(trace, activities, is_launch_call, bool(used.counted.any()))
    issues += found
    issues += light_capture(trace.metadata, len(activities))
    issues += health.launch_issues(trace, activities, kinds, is_launch_call)
    issues += health.clock_offset(trace, activities, kinds, tracks)
    unclassified, found = health.class_issues(activities, kinds)
    issues += found
    numbers = {"unclassified_share": unclassified} if len(activities) else {}
    if coverage is not None:
        numbers["graph_coverage"] = coverage
    launch_thread = np.where(has_launch, spans.track_id[activities.launch_row], -1).astype(np.int32)
    who = launched(trace, activities, threads.rows, launch_thread)
    if coverage is not None or is_launch_call.any():
        numbers["unrecorded_graph_share"] = 1.0 - (1.0 if coverage is None else coverage)
    owner = owner_of(steps, activities.called_ns, has_launch)
    process = Process(
        trace=trace,
        kinds=kinds,
        facts=facts,
        threads=threads,
        activities=activities,
        who=who,
        is_blocking_copy=is_blocking_copy,
        is_launch_call=is_launch_call,
        used=used,
        rank=rank,
        world_size=world_size,
        idle_effect=health.worst(issue.effect for issue in issues if "idle" in issue.affects),
        is_clock_known=not any(issue.code == "clock_offset" for issue in issues),
        prepared=prepared_ns(activities, owner, len(steps)),
        numbers=numbers,
    )
    accelerator = _accelerator(trace, kinds, len(activities) > 0)
    if len(activities):
        results = [analyse_device(process, device) for device in np.unique(activities.device).tolist()]
        shares = [r.analysis.numbers.get("unlaunched_device_share", 0.0) for r in results]
        issues += health.missing_launch(activities, kinds, max(shares))
        issues += [issue for result in results for issue in result.issues]
    else:
        is_unseen = accelerator != "cpu"
        issues.append(_unseen(trace, kinds, is_launch_call) if is_unseen else NO_DEVICE)
        results = [analyse_cpu(process, is_device_unseen=is_unseen)]
    chosen = _chosen(used, owner)
    models = {device: hardware_of(device_name(trace, device)) for device in set(activities.device.tolist())}
    calls = Calls(trace, activities, who, chosen, models)
    results = [with_recoverable(each, calls, activities, who, chosen, owner) for each in results]
    tables = tables_of(calls, threads.rows, rank, results, model_flops)
    issues += tables.issues
    merged = health.merge(issues)
    collectives = tuple(row for result in results for row in result.collectives)
    return RankAnalysis(
        rank=rank,
        world_size=world_size,
        issues=tuple(issue.for_rank(rank) for issue in merged),
        withheld=_withheld(merged, collectives),
        steps=used.rows(rank),
        accounting=tuple(row for result in results for row in result.rows),
        devices=tuple(result.analysis for result in results),
        operators=tables.operators,
        kernels=kernel_table(trace, activities, rank, chosen & (kinds[activities.row] == Kind.KERNEL)),
        collectives=collectives,
        operator_shapes=tables.shapes,
        modules=tables.modules,
        efficiency=tables.efficiency,
        # Of a file that is cut nobody knows which allocations are missing.
        memory=()
        if any(loss.is_cut for loss in trace.losses)
        else memory_rows(
            trace,
            kinds,
            tracks,
            used,
            rank,
            {r.analysis.accounting.device.index: r.analysis.accounting.device for r in results},
        ),
        accelerator=accelerator,
        pids=_pids(trace, launching),
        uuids=_uuids(trace),
        is_cut=any(loss.is_cut for loss in trace.losses),
        peers=tuple(result.peer for result in results if result.peer is not None),
    )


def _pids(trace: Trace, launching: set[int]) -> tuple[int, ...]:
    """Numbers of the processes of these tracks; those of a device are no processes."""
    found = {trace.tracks[track].pid for track in launching}
    return tuple(sorted(pid for pid in found if isinstance(pid, int) and pid > 0))


def _uuids(trace: Trace) -> tuple[str, ...]:
    """UUIDs among the device properties, for writers that put them there."""
    properties = trace.metadata.get("deviceProperties")
    entries = properties if isinstance(properties, list) else ()
    found = [entry.get("uuid") for entry in entries if isinstance(entry, Mapping)]
    return tuple(each for each in found if isinstance(each, str) and each)


def _chosen(used: UsedSteps, owner: I64) -> npt.NDArray[np.bool_]:
    """Activities of the steps in scope, or all where there are none."""
    if used.is_empty:
        return np.ones(len(owner), dtype=bool)
    return (owner >= 0) & used.in_scope[np.maximum(owner, 0)]


def _accelerator(trace: Trace, kinds: I32, has_device_work: bool) -> str:
    """Which accelerator the trace speaks of, by its categories and the names of its calls; `cpu` for none."""
    if any(cat.lower().startswith("mtia") for cat in trace.cats):
        return "mtia"
    used = [trace.names[n] for n in np.unique(trace.spans.name_id[kinds == Kind.CALL]).tolist()]
    if any(name.startswith("hip") for name in used):
        return "hip"
    if any(name.startswith("cu") for name in used) or has_device_work:
        return "cuda"
    return "other" if used or (kinds == Kind.UNSEEN).any() else "cpu"


def _unseen(trace: Trace, kinds: I32, is_launch_call: npt.NDArray[np.bool_]) -> Issue:
    """An accelerator worked, and this trace does not show how."""
    unseen = kinds == Kind.UNSEEN
    if unseen.any():
        count = int(unseen.sum())
        cats = ", ".join(sorted({trace.cats[c] for c in np.unique(trace.spans.cat_id[unseen]).tolist()}))
        what = f"{count} device rows of category {cats} are not understood"
    else:
        count = int(is_launch_call.sum())
        what = f"{count} launches were recorded and no device activity"
    detail = f"{what}: device work cannot be seen, the accounting is the host's alone"
    return Issue("no_device_data", count, "withheld", detail, ("accounting",))


def _withheld(issues: list[Issue], collectives: tuple[report.Collective, ...]) -> tuple[report.Withheld, ...]:
    """Numbers that are not given, and what would give them."""
    found = [
        report.Withheld(
            what=ALL_ACCOUNTING if "accounting" in issue.affects else ALL_CAUSES,
            why=issue.detail,
            would_settle=SETTLES.get(issue.code),
        )
        for issue in issues
        if issue.effect == "withheld"
    ]
    if any(row.kind in collective.SYNCHRONISING for row in collectives):
        found.append(
            report.Withheld(
                what=COLLECTIVE_PARTS,
                why="one rank cannot tell a slow link from a late peer",
                would_settle="the traces of all ranks of the same steps",
            )
        )
    return tuple(found)
