"""Windows of the accounting, and how each step is used. Definitions: docs/reference/accounting.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.report import StepUse
from stepscope.model.trace import I64
from stepscope.trace.link import Activities
from stepscope.trace.step import Steps

HOST_WINDOW_SHARE = 0.05
"""Host tiles serve as windows where less than this share of owned device time leaves its owner's tile."""
PARTIAL_SHARE = 0.90
"""A first or last step with fewer kernels than this share of the median is cut."""
STUB_SHARE = 0.02
"""A last step shorter than this share of the median of the others is no step: the loop ended inside it."""
MARKED_SHARE = 0.01
"""A marked phase must cover at least this share of a step to mark it."""
WARM_UP_FACTOR = 1.5
COMPILE_SHARE = 0.05
"""Compilation must take this share of a step to count as evidence of warm-up."""
LEAST_RECOMPILING = 2
"""Once may be the first use of a part of the model; steps that compile more often after one that did not are
no warm-up."""


@dataclass(frozen=True, slots=True)
class StepUses:
    """How each step is used, and why not where it is not counted."""

    use: tuple[StepUse, ...]
    why: tuple[str | None, ...]
    num_recompiling: int | None = None
    """Steps that compile after one that did not; `None` where every step compiles."""

    def mask(self, *uses: StepUse) -> npt.NDArray[np.bool_]:
        """Steps of these uses."""
        return np.array([u in uses for u in self.use], dtype=bool)


def step_uses(
    steps: Steps,
    *,
    launches: I64 | None,
    linked: I64 | None,
    kernels: I64 | None,
    marks: dict[str, Intervals],
    compile_time: Intervals,
    left_out: Mapping[int, tuple[StepUse, str]] = MappingProxyType({}),
) -> StepUses:
    """Judge every step.

    `launches`, `linked`, `kernels`: per step, launch calls in its tile, those with device work, and device
    activities launched there; `None` where the trace has no device work. `marks`: phase name -> when it
    was open. A step without any launch cannot lack device data. `left_out`: step number -> how it is used and
    why, where whoever recorded it says so; not where it is the only one.
    """
    num = len(steps)
    duration = steps.end_ns - steps.start_ns
    marked = {name: overlap_ns(steps.start_ns, steps.end_ns, when) for name, when in marks.items()}
    compiling = overlap_ns(steps.start_ns, steps.end_ns, compile_time)
    has_compile = compiling > COMPILE_SHARE * duration
    calm = duration[~has_compile]
    is_again = has_compile & np.append(False, np.maximum.accumulate(~has_compile)[:-1])[:num]
    is_recompiling = is_again & (is_again.sum() >= LEAST_RECOMPILING)
    median = float(np.median(calm)) if len(calm) else None
    use: list[StepUse] = []
    why: list[str | None] = []
    blank = _no_device_data(launches, linked, kernels, num)
    typical = float(np.median(kernels[~blank])) if kernels is not None and (~blank).any() else 0.0
    for i in range(num):
        phase = next((name for name, ns in marked.items() if ns[i] >= MARKED_SHARE * duration[i] > 0), None)
        is_edge = i in (0, num - 1)
        said = left_out.get(int(steps.number[i])) if num > 1 else None
        if said is not None:
            use.append(said[0])
            why.append(said[1])
        elif blank[i]:
            use.append("no_device_data")
            why.append("device data missing: launches were recorded, their kernels were not")
        elif i == num - 1 > 0 and _is_stub(duration) and (launches is None or launches[i] == 0):
            use.append("partial")
            why.append("the loop ended: nothing but the start of a step was recorded")
        elif (
            num > 1
            and kernels is not None
            and launches is not None
            and linked is not None
            and kernels[i] < PARTIAL_SHARE * typical
            and (linked[i] < PARTIAL_SHARE * launches[i] or (is_edge and not _recurs(kernels, blank, i)))
        ):
            use.append("partial")
            why.append(f"{int(kernels[i])} device activities, the median step has {typical:.0f}")
        elif phase is not None:
            use.append("marked")
            why.append(phase)
        elif is_recompiling[i]:
            use.append("marked")
            why.append("compile")
        elif has_compile[i] and median is not None and duration[i] > WARM_UP_FACTOR * median:
            use.append("warm_up")
            why.append(f"compilation or autotuning, and {duration[i] / median:.1f} times the median step")
        elif has_compile[i] and num > 1:
            use.append("marked")
            why.append("compile")
        else:
            use.append("counted")
            why.append(None)
    return StepUses(tuple(use), tuple(why), int(is_again.sum()) if len(calm) else None)


def _is_stub(duration: I64) -> bool:
    """Whether the last step is only what is left when the loader is exhausted after the last full step."""
    return bool(duration[-1] < STUB_SHARE * np.median(duration[:-1]))


def _recurs(kernels: I64, blank: npt.NDArray[np.bool_], i: int) -> bool:
    """Whether steps in the middle have as few device activities: then it is another kind of step, not a
    cut one."""
    inner = kernels[1:-1][~blank[1:-1]]
    return bool((np.abs(inner - kernels[i]) <= (1 - PARTIAL_SHARE) * kernels[i]).any())


def _no_device_data(
    launches: I64 | None, linked: I64 | None, kernels: I64 | None, num: int
) -> npt.NDArray[np.bool_]:
    """Steps that launched work of which (nearly) nothing was recorded."""
    if launches is None or linked is None or kernels is None:
        return np.zeros(num, dtype=bool)
    return (launches > 0) & (linked < 0.10 * launches)


@dataclass(frozen=True, slots=True)
class Windows:
    """One window a step, in step order; `kind` says of which clock they are."""

    kind: Literal["host", "device"]
    start_ns: I64
    end_ns: I64


def host_windows(steps: Steps) -> Windows:
    """The host tiles."""
    return Windows("host", steps.start_ns, steps.end_ns)


def windows(steps: Steps, activities: Activities, owner: I64) -> Windows:
    """Host tiles where nearly all owned work stays in them, else device windows.

    `activities` are those of one device, `owner` the step position of each or -1.
    """
    owned = owner >= 0
    at = owner[owned]
    start, end = activities.start_ns[owned], activities.end_ns[owned]
    inside = np.maximum(np.minimum(end, steps.end_ns[at]) - np.maximum(start, steps.start_ns[at]), 0)
    total = int((end - start).sum())
    outside = total - int(inside.sum())
    if total == 0 or outside < HOST_WINDOW_SHARE * total:
        return host_windows(steps)
    has = activities.launch_row >= 0
    smallest = np.iinfo(np.int64).min
    order = np.argsort(np.where(has, activities.called_ns, smallest), kind="stable")
    # Work issued between two recorded steps, by one that was not, moves no boundary.
    known = (owner >= 0) | activities.is_before_trace | (has & (activities.called_ns < steps.start_ns[0]))
    order = order[known[order]]
    launch = np.where(has, activities.called_ns, smallest)[order]
    reach = np.maximum.accumulate(activities.end_ns[order])

    def latest_end(before_ns: I64) -> I64:
        count = np.searchsorted(launch, before_ns, side="left")
        return np.where(count > 0, reach[np.maximum(count - 1, 0)], smallest)

    bound = latest_end(steps.end_ns)
    first = np.empty(len(steps), dtype=np.int64)
    first[0] = max(int(latest_end(steps.start_ns[:1])[0]), int(steps.start_ns[0]))
    if len(steps) > 1:
        first[1:] = np.where(steps.follows[1:], bound[:-1], np.maximum(bound[:-1], steps.start_ns[1:]))
    # The walk forbids going back: a step that launched nothing has an empty window.
    first = np.maximum.accumulate(first)
    last = np.maximum(bound, first)
    return Windows("device", first, last)
