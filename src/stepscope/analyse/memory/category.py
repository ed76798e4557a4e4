"""What memory alive at the peak is for: an estimate, by the phase in which it was allocated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.memory.series import Series
from stepscope.model import report
from stepscope.model.interval import Intervals, union
from stepscope.model.trace import ABSENT_I64, I32, I64, Trace
from stepscope.trace.category import Kind, is_of
from stepscope.trace.step import Steps

PHASES: tuple[tuple[report.MemoryKind, str], ...] = (
    ("optimizer_state", "Optimizer.step"),
    ("gradients", "autograd::engine::evaluate_function"),
)
"""Rows whose names begin so are of that phase, the first that holds an allocation wins. PyTorch writes both
by itself, whatever the model."""


def categories(
    trace: Trace, kinds: I32, series: Series, steps: Steps, peak: int
) -> tuple[report.MemoryCategory, ...]:
    """The peak (place `peak` of the series) by kind, largest first.

    Empty where it cannot be told: changes without totals or addresses, no marked step before the peak, or no
    row of a backward pass or of an optimizer's step.
    """
    if series.basis != "totals" or (series.address == ABSENT_I64).any() or steps.thread is None:
        return ()
    first_step = int(steps.start_ns.min())
    inside = {kind: _phase(trace, kinds, prefix) for kind, prefix in PHASES}
    if int(series.ts_ns[peak]) < first_step or not all(inside.values()):
        return ()
    alive = alive_at(series, peak)
    when, track, size = series.ts_ns[alive], series.track_id[alive], series.bytes[alive]
    left = np.ones(len(alive), dtype=bool)
    found: dict[report.MemoryKind, int] = {}

    def take(kind: report.MemoryKind, mask: npt.NDArray[np.bool_]) -> None:
        nonlocal left
        found[kind] = found.get(kind, 0) + int(size[mask & left].sum())
        left &= ~mask

    whole = int(series.allocated[peak])
    # What is held and was not seen being allocated was there before the recording.
    found["before"] = max(0, whole - int(size.sum()))
    take("before", when < first_step)
    for kind, _ in PHASES:
        mask = np.zeros(len(alive), dtype=bool)
        for each, spans in inside[kind].items():
            mask |= (track == each) & _holds(spans, when)
        take(kind, mask)
    in_step = _holds(union(steps.start_ns, steps.end_ns), when)
    take("activations", in_step & (track == steps.thread))
    take("other", left)
    return tuple(
        report.MemoryCategory(kind=kind, bytes=held, share=min(1.0, held / whole))
        for kind, held in sorted(found.items(), key=lambda each: -each[1])
        if held > 0 and whole > 0
    )


def alive_at(series: Series, peak: int) -> npt.NDArray[np.intp]:
    """Places of the allocations up to and with `peak` whose memory was not freed by then."""
    address = series.address[: peak + 1]
    order = np.argsort(address, kind="stable")
    is_last = np.append(np.diff(address[order]) != 0, True)
    last = order[is_last]
    return np.sort(last[series.bytes[last] > 0])


def _phase(trace: Trace, kinds: I32, prefix: str) -> dict[int, Intervals]:
    """When rows whose names begin so were open, by thread."""
    named = np.array([name.startswith(prefix) for name in trace.names] or [False], dtype=bool)
    row = np.flatnonzero(named[trace.spans.name_id] & is_of(kinds, Kind.OP, Kind.ANNOTATION))
    track = trace.spans.track_id[row]
    start, end = trace.spans.ts_ns[row], trace.spans.ts_ns[row] + trace.spans.dur_ns[row]
    return {each: union(start[track == each], end[track == each]) for each in np.unique(track).tolist()}


def _holds(spans: Intervals, when: I64) -> npt.NDArray[np.bool_]:
    """Which instants lie within the intervals, both ends included: old profilers write whole microseconds."""
    if not len(spans):
        return np.zeros(len(when), dtype=bool)
    at = np.searchsorted(spans.start, when, side="right") - 1
    held: npt.NDArray[np.bool_] = (at >= 0) & (when <= spans.end[np.maximum(at, 0)])
    return held
