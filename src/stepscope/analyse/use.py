"""How the steps of one process are used, over all its devices, and what that says of the trace's health."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.analyse.window import StepUses, step_uses
from stepscope.model import report
from stepscope.model.report import StepUse
from stepscope.model.trace import I64, Trace
from stepscope.trace.health import Issue
from stepscope.trace.host_cause import PHASES
from stepscope.trace.link import Activities
from stepscope.trace.step import Steps, owner_of
from stepscope.trace.thread import Threads

GRAPH_LAUNCH = "GraphLaunch"
MIN_GRAPH_COVERAGE = 0.5
"""With fewer graph launches recorded than this, no idle cause of the trace can be believed."""


@dataclass(frozen=True, slots=True)
class UsedSteps:
    """The steps of one process with their uses.

    `in_scope` is what the accounting sums, `counted` what is typical.
    `launches_per_step` is the mean over counted steps, `None` without any.
    """

    steps: Steps
    uses: StepUses
    in_scope: npt.NDArray[np.bool_]
    counted: npt.NDArray[np.bool_]
    launches_per_step: float | None

    @property
    def is_empty(self) -> bool:
        """No step can be summed."""
        return not self.in_scope.any()

    def durations(self) -> tuple[I64, I64, npt.NDArray[np.bool_]]:
        """Number, tile length and whether it is counted, of every step in scope."""
        mask = self.in_scope
        return self.steps.number[mask], (self.steps.end_ns - self.steps.start_ns)[mask], self.counted[mask]

    def rows(self, rank: int | None) -> tuple[report.Step, ...]:
        """The report's rows."""
        return tuple(
            report.Step(
                rank=rank,
                step=number,
                start_ns=start,
                end_ns=end,
                dur_ns=end - start,
                use=use,
                why=why,
            )
            for number, start, end, use, why in zip(
                self.steps.number.tolist(),
                self.steps.start_ns.tolist(),
                self.steps.end_ns.tolist(),
                self.uses.use,
                self.uses.why,
                strict=True,
            )
        )


def use_steps(
    trace: Trace,
    steps: Steps,
    threads: Threads,
    activities: Activities,
    is_launch_call: npt.NDArray[np.bool_],
    wanted: tuple[int, int] | None,
) -> tuple[UsedSteps, list[Issue]]:
    """Judge every step; `wanted` keeps only these numbers (inclusive)."""
    num = len(steps)
    calls = np.flatnonzero(is_launch_call)
    has_work = np.zeros(len(trace.spans.ts_ns), dtype=bool)
    has_work[activities.launch_row[activities.launch_row >= 0]] = True
    step_of_call = owner_of(steps, trace.spans.ts_ns[calls], np.ones(len(calls), dtype=bool))
    launches = linked = kernels = None
    if len(activities):
        launches = np.bincount(step_of_call[step_of_call >= 0], minlength=num)
        linked = np.bincount(step_of_call[(step_of_call >= 0) & has_work[calls]], minlength=num)
        owner = owner_of(steps, activities.called_ns, activities.launch_row >= 0)
        kernels = np.bincount(owner[owner >= 0], minlength=num)
    uses = step_uses(
        steps,
        launches=launches,
        linked=linked,
        kernels=kernels,
        marks={phase: threads.driving_time(phase) for phase in PHASES},
        compile_time=threads.driving_time("compile"),
        left_out=_left_out(trace.metadata),
    )
    in_scope = uses.mask("counted", "marked")
    if wanted is not None:
        in_scope &= (steps.number >= wanted[0]) & (steps.number <= wanted[1])
    counted = in_scope & uses.mask("counted")
    in_counted = np.isin(step_of_call, np.flatnonzero(counted))
    per_step = float(in_counted.sum() / counted.sum()) if counted.any() else None
    return UsedSteps(steps, uses, in_scope, counted, per_step), _issues(steps, uses)


def _left_out(metadata: Mapping[str, Any]) -> dict[int, tuple[StepUse, str]]:
    """Steps that our own captures say do not count."""
    told = metadata.get("stepscope")
    rows: tuple[tuple[str, StepUse, str], ...] = (
        ("dropped_step", "warm_up", "the first step of a capture: the profiler was beginning"),
        ("cut_step", "partial", "a light trace: its beginning was not kept"),
    )
    if not isinstance(told, dict):
        return {}
    return {told[name]: (use, why) for name, use, why in rows if type(told.get(name)) is int}


def light_capture(metadata: Mapping[str, Any], num_activities: int) -> list[Issue]:
    """That a capture recorded the device alone: what the host did while the device idled is not in it."""
    told = metadata.get("stepscope")
    if not isinstance(told, dict) or told.get("mode") != "light" or not num_activities:
        return []
    detail = "a light capture records device activity alone: why the device idled is not in it"
    return [Issue("light_capture", 1, "withheld", detail, ("idle",))]


def _issues(steps: Steps, uses: StepUses) -> list[Issue]:
    """Steps that had to be left out."""
    found = []
    for use, code, one, many in (
        ("partial", "partial_step", "is cut and is", "are cut and are"),
        (
            "no_device_data",
            "no_device_data",
            "has launches but no device data and is",
            "have launches but no device data and are",
        ),
    ):
        numbers = [str(n) for n, u in zip(steps.number.tolist(), uses.use, strict=True) if u == use]
        if numbers:
            shown = ", ".join(numbers[:6]) + (", …" if len(numbers) > 6 else "")
            detail = f"step {shown} {one}" if len(numbers) == 1 else f"steps {shown} {many}"
            found.append(Issue(code, len(numbers), "none", f"{detail} not counted"))
    return found


def graph_coverage(
    trace: Trace, activities: Activities, is_launch_call: npt.NDArray[np.bool_], has_counted_steps: bool
) -> tuple[float | None, list[Issue]]:
    """Share of graph launches with recorded device work, 0..1; `None` without graph launches.

    Idle time between unrecorded nodes cannot be told from their work. Where steps are counted at all,
    those whose graphs were not recorded are not among them, and the rest can be judged, with less
    confidence.
    """
    is_graph = np.array([GRAPH_LAUNCH in name for name in trace.names] or [False])
    calls = np.flatnonzero(is_launch_call & is_graph[trace.spans.name_id])
    if not len(calls):
        return None, []
    is_recorded = np.isin(calls, activities.launch_row)
    share = float(is_recorded.mean())
    if share == 1.0:
        return share, []
    is_lost = share < MIN_GRAPH_COVERAGE and not has_counted_steps
    return share, [
        Issue(
            "graph_underrecorded",
            int((~is_recorded).sum()),
            "withheld" if is_lost else "degraded",
            f"{100 * share:.4g} % of {len(calls)} graph launches have recorded device work; "
            "idle and per-kernel shares of the others are withheld",
            ("idle", "kernels"),
        )
    ]
