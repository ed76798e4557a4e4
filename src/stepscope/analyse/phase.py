"""Which part of a training step launched each activity: forward, backward, recomputation or optimizer.

Only what the trace shows is used: autograd's own rows, sequence numbers and the optimizer's annotations. A
trace that has none of them (inference, device rows alone) has no phases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import named
from stepscope.model.interval import NOTHING, Intervals, intersect, join, union
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.nesting import HostRows

I8 = npt.NDArray[np.int8]


class Phase(IntEnum):
    """A part of the step; OTHER is what lies in none (input, gradient clipping, communication)."""

    OTHER = 0
    FORWARD = 1
    BACKWARD = 2
    RECOMPUTE = 3
    OPTIMIZER = 4


# Rows that mark a phase for as long as they are open, by their whole name.
_MARKS: tuple[tuple[Phase, frozenset[Kind], re.Pattern[str]], ...] = (
    # torch.optim annotates every step; zero_grad is no part of it.
    (Phase.OPTIMIZER, frozenset({Kind.ANNOTATION, Kind.OP}), re.compile(r"Optimizer\.step#.+")),
    # The engine's row around every node; before 2022 only the node itself.
    (Phase.BACKWARD, frozenset({Kind.OP}), re.compile(r"autograd::engine::evaluate_function: .+")),
    (Phase.BACKWARD, frozenset({Kind.OP}), re.compile(r"(?!aten::)[A-Za-z_:]*[A-Za-z]Backward\d*")),
    (Phase.BACKWARD, frozenset({Kind.OP}), re.compile(r"torch::autograd::AccumulateGrad")),
)


def phases(trace: Trace, rows: Mapping[int, HostRows], thread: I32, launch_ns: I64) -> I8 | None:
    """The phase of each activity by its launch: one `Phase` each; `None` where the trace marks none.

    `thread` is the launching track (-1: none, then OTHER) and `launch_ns` when.

    * optimizer, backward: the launch lies in a row of `_MARKS` on its thread.
    * recomputation: in an op of the backward pass that autograd records for a backward pass of its own (it
      has a sequence number, and no forward thread): a checkpointed region run again. Where gradients of
      gradients are taken every op of the backward pass has one, and none is called recomputation.
    * forward: from the first to the last op with a sequence number between two of the above.
    """
    marked = {track: _marked(trace, of) for track, of in rows.items()}
    backward = {track: found[Phase.BACKWARD] for track, found in marked.items()}
    optimizer = {track: found[Phase.OPTIMIZER] for track, found in marked.items()}
    if not any(len(each) for each in (*backward.values(), *optimizer.values())):
        return None
    tracked = {track: _tracked(trace, of) for track, of in rows.items()}
    again = {} if _is_double(trace, rows, backward) else _again(tracked, backward)
    result = np.full(len(thread), Phase.OTHER, dtype=np.int8)
    barriers = join(*backward.values(), *optimizer.values())
    for track in np.unique(thread[thread >= 0]).tolist():
        mine = np.flatnonzero(thread == track)
        at = launch_ns[mine]
        found = np.where(
            _forward(tracked.get(track, NOTHING), barriers, at), np.int8(Phase.FORWARD), np.int8(Phase.OTHER)
        )
        for phase, when in (
            (Phase.OPTIMIZER, optimizer),
            (Phase.BACKWARD, backward),
            (Phase.RECOMPUTE, again),
        ):
            found = np.where(_inside(when.get(track, NOTHING), at), np.int8(phase), found)
        result[mine] = found
    return result


def optimizer_steps(trace: Trace, rows: Mapping[int, HostRows]) -> Intervals:
    """When any thread is in the step of an optimizer."""
    return join(*(_marked(trace, of)[Phase.OPTIMIZER] for of in rows.values()))


def _marked(trace: Trace, rows: HostRows) -> dict[Phase, Intervals]:
    """When a row that marks a phase is open."""
    kinds = rows.kind
    found: dict[Phase, list[npt.NDArray[np.bool_]]] = {Phase.OPTIMIZER: [], Phase.BACKWARD: []}
    present = np.unique(rows.name_id).tolist()
    for phase, allowed, pattern in _MARKS:
        ids = [name for name in present if pattern.fullmatch(trace.names[name])]
        if ids:
            found[phase].append(np.isin(rows.name_id, ids) & np.isin(kinds, [int(kind) for kind in allowed]))
    return {
        phase: join(*(union(rows.start_ns[mask], rows.end_ns[mask], is_sorted=True) for mask in masks))
        for phase, masks in found.items()
    }


def _sequences(trace: Trace, rows: HostRows) -> tuple[I64, I64]:
    """Sequence number and forward thread of each row; negative where none was recorded."""
    at = np.searchsorted(trace.ops.row, rows.row)
    at = np.minimum(at, max(len(trace.ops.row) - 1, 0))
    if not len(trace.ops.row):
        nothing = np.full(len(rows), -1, dtype=np.int64)
        return nothing, nothing
    has = (trace.ops.row[at] == rows.row) & (rows.kind == Kind.OP)
    return np.where(has, trace.ops.sequence[at], -1), np.where(has, trace.ops.fwd_thread[at], -1)


def _is_tracked(trace: Trace, rows: HostRows) -> npt.NDArray[np.bool_]:
    sequence, forward_thread = _sequences(trace, rows)
    # A node of the backward pass repeats its forward op's number and names that op's thread.
    is_node = named(trace, _NODE.match)[rows.name_id]
    result: npt.NDArray[np.bool_] = (sequence >= 0) & (forward_thread <= 0) & ~is_node
    return result


_NODE = re.compile(r"autograd::engine|torch::autograd|(?!aten::)[A-Za-z_:]*[A-Za-z]Backward\d*$")


def _tracked(trace: Trace, rows: HostRows) -> Intervals:
    """When an op is open that autograd records for a backward pass."""
    mask = _is_tracked(trace, rows)
    return union(rows.start_ns[mask], rows.end_ns[mask], is_sorted=True)


def _again(tracked: Mapping[int, Intervals], backward: Mapping[int, Intervals]) -> dict[int, Intervals]:
    return {track: intersect(tracked[track], when) for track, when in backward.items()}


def _is_double(trace: Trace, rows: Mapping[int, HostRows], backward: Mapping[int, Intervals]) -> bool:
    """Whether formulas of the backward pass are recorded for yet another one (`create_graph=True`)."""
    is_formula = named(trace, lambda name: name.startswith("aten::") and "_backward" in name)
    for track, of in rows.items():
        formula = np.flatnonzero(is_formula[of.name_id])
        if not len(formula) or not len(backward[track]):
            continue
        tracked = formula[_is_tracked(trace, of)[formula]]
        if _inside(backward[track], of.start_ns[tracked]).any():
            return True
    return False


def _inside(when: Intervals, at: I64) -> npt.NDArray[np.bool_]:
    """Whether each instant lies in the set."""
    if not len(when):
        return np.zeros(len(at), dtype=bool)
    place = np.searchsorted(when.start, at, side="right") - 1
    return (place >= 0) & (at < when.end[np.maximum(place, 0)])


def _forward(tracked: Intervals, barriers: Intervals, at: I64) -> npt.NDArray[np.bool_]:
    """Whether a tracked op has begun since the last barrier, and one ends before the next."""
    if not len(tracked):
        return np.zeros(len(at), dtype=bool)
    far = np.iinfo(np.int64)
    place = np.searchsorted(barriers.start, at, side="right")
    last_end = np.append(np.int64(far.min), barriers.end)[place]
    next_start = np.append(barriers.start, np.int64(far.max))[place]
    begun = np.searchsorted(tracked.start, at, side="right") - 1
    has_begun = (begun >= 0) & (tracked.start[np.maximum(begun, 0)] >= last_end)
    open_ = np.searchsorted(tracked.end, at, side="right")
    ends = np.append(tracked.end, np.int64(far.max))[open_]
    return has_begun & (ends <= next_start) & (open_ < len(tracked)) & (last_end <= at)


__all__ = ["Phase", "optimizer_steps", "phases"]
