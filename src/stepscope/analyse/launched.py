"""Who launched each activity: the innermost op, the part of the step, and what it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.analyse.compute import kinds_of
from stepscope.analyse.group import alike, named
from stepscope.analyse.nest import innermost
from stepscope.analyse.phase import I8, phases
from stepscope.model.trace import I32, Trace
from stepscope.trace.category import Kind
from stepscope.trace.link import Activities
from stepscope.trace.nesting import HostRows

BOOKKEEPING = frozenset({"record_param_comms"})
"""Ops that only write down another op's arguments."""


@dataclass(frozen=True, slots=True)
class Launched:
    """One entry an activity. `op_row` is the core row of the innermost op on the launching thread, -1 where
    none was open; `phase` a `Phase`, `None` where the trace marks none; `kind` a place in `COMPUTE_KINDS`."""

    thread: I32
    op_row: I32
    phase: I8 | None
    kind: I8

    def take(self, mask: npt.NDArray[np.bool_]) -> Launched:
        """Of the chosen activities, in the same order."""
        phase = None if self.phase is None else self.phase[mask]
        return Launched(self.thread[mask], self.op_row[mask], phase, self.kind[mask])


def launched(trace: Trace, activities: Activities, rows: Mapping[int, HostRows], thread: I32) -> Launched:
    """Whom each activity belongs to; `thread` is the launching track, -1 for none."""
    op_row = np.full(len(activities), -1, dtype=np.int32)
    silent = named(trace, BOOKKEEPING.__contains__)
    for track in np.unique(thread).tolist():
        if track in rows:
            mine, of = thread == track, rows[track]
            is_op = (of.kind == Kind.OP) & ~silent[of.name_id]
            op_row[mine] = innermost(of, is_op, activities.launch_ns[mine])
    phase = phases(trace, rows, thread, activities.launch_ns)
    return Launched(thread, op_row, phase, kinds_of(trace, activities, phase, _transposes(trace, op_row)))


def _transposes(trace: Trace, op_row: I32) -> npt.NDArray[np.bool_]:
    """Copies whose two operands have one shape and one type, and other strides: they only move elements."""
    ops = trace.ops
    result = np.zeros(len(op_row), dtype=bool)
    if not len(ops.row) or not (ops.strides_id >= 0).any():
        return result
    is_copy = named(trace, "aten::copy_".__eq__)
    mine = np.flatnonzero((op_row >= 0) & is_copy[trace.spans.name_id[np.maximum(op_row, 0)]])
    place = np.searchsorted(ops.row, op_row[mine])
    place = np.minimum(place, len(ops.row) - 1)
    known = ops.row[place] == op_row[mine]
    mine, place = mine[known], place[known]
    first, which = alike(ops.dims_id[place], ops.types_id[place], ops.strides_id[place])
    texts = (
        [trace.texts[ids[at]] if ids[at] >= 0 else "" for ids in (ops.dims_id, ops.types_id, ops.strides_id)]
        for at in place[first].tolist()
    )
    moves = np.array([_is_transpose(*each) for each in texts], dtype=bool)
    result[mine] = moves[which]
    return result


def _is_transpose(dims: str, types: str, strides: str) -> bool:
    """Whether the first two operands differ in their strides alone, and a real axis changes its place."""
    shapes, kinds, steps = _two(dims), _two(types), _two(strides)
    if shapes is None or kinds is None or steps is None or shapes[0] != shapes[1] or kinds[0] != kinds[1]:
        return False
    if not all(_is_numbers(each) for each in (*shapes, *steps)):
        return False
    order = [_axes(shapes[0], each) for each in steps]
    return None not in order and order[0] != order[1]


def _is_numbers(value: object) -> bool:
    """Whether this is a list of whole numbers: an argument may be a list of tensors, or nonsense."""
    return isinstance(value, list) and all(type(each) is int for each in value)


def _axes(shape: list[int], strides: list[int]) -> list[int] | None:
    """Axes longer than one from the slowest to the fastest; `None` where an axis is broadcast (stride 0)."""
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if len(strides) != len(shape) or any(strides[axis] == 0 for axis in axes):
        return None
    return sorted(axes, key=lambda axis: -strides[axis])


def _two(text: str) -> tuple[Any, Any] | None:
    try:
        found = msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return None
    return (found[0], found[1]) if isinstance(found, list) and len(found) >= 2 else None
