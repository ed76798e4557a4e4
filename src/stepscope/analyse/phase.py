"""Which part of a training step launched each activity: forward, backward, recomputation or optimizer.

Only what the trace shows is used: autograd's own rows, sequence numbers and the optimizer's annotations. A
trace that has none of them (inference, device rows alone) has no phases.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from stepscope.analyse.nest import innermost
from stepscope.analyse.node import Flags, Numbered, is_dispatched, is_node_name, makers, numbered
from stepscope.model.interval import Intervals, join, subtract, union
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


# torch.optim annotates every step of its own; zero_grad and the loader lie between phases.
_OPTIMIZER = re.compile(r"Optimizer\.step#.+")
_BETWEEN = re.compile(r"Optimizer\.zero_grad#.+|enumerate\(DataLoader\)#.+")
# A node that the framework made of an op: what it does is ops, one at least.
_MADE_OF_OP = re.compile(r"[A-Z]\w*Backward\d+")
_UNMARKED = -1


@dataclass(frozen=True, slots=True)
class _Names:
    """By the id of a name: the phase that its rows mark while they are open (`_UNMARKED`: none), and what a
    row of this name is."""

    marks: I8
    is_node: Flags
    is_built_in: Flags
    is_aten: Flags
    is_formula: Flags
    is_dispatched: Flags


def _names(trace: Trace, rows: Mapping[int, HostRows]) -> _Names:
    """Only names of ops and annotations are looked at: of a trace with stacks a small part."""
    size = max(len(trace.names), 1)
    present = np.zeros(size, dtype=bool)
    for of in rows.values():
        present[of.name_id[(of.kind == Kind.OP) | (of.kind == Kind.ANNOTATION)]] = True
    marks = np.full(size, _UNMARKED, dtype=np.int8)
    flags = np.zeros((5, size), dtype=bool)
    for which in np.flatnonzero(present).tolist():
        name = trace.names[which]
        is_aten = name.startswith("aten::")
        is_node = is_node_name(name)
        if is_node:
            marks[which] = Phase.BACKWARD
        elif _OPTIMIZER.fullmatch(name):
            marks[which] = Phase.OPTIMIZER
        elif _BETWEEN.fullmatch(name):
            marks[which] = Phase.OTHER
        flags[:, which] = (
            is_node,
            is_node and _MADE_OF_OP.fullmatch(name) is not None,
            is_aten,
            is_aten and "_backward" in name,
            is_dispatched(name),
        )
    return _Names(marks, *flags)


def phases(trace: Trace, rows: Mapping[int, HostRows], thread: I32, launch_ns: I64) -> I8 | None:
    """The phase of each activity by its launch: one `Phase` each; `None` where the trace marks none.

    `thread` is the launching track (-1: none, then OTHER) and `launch_ns` when. Of the rows that mark a phase
    and are open then on that thread the innermost decides: an optimizer may step in a hook of the backward
    pass, and a closure of the optimizer holds a forward and a backward pass.

    * recomputation: in an op of the backward pass that autograd records for a backward pass of its own (it
      has a sequence number, and no forward thread): a checkpointed region run again. Where gradients of
      gradients are taken every op of the backward pass has one, and none is called recomputation.
    * forward: from the first to the last op whose node the backward pass runs, between two rows that mark
      something, and before a backward pass. Where no node names its op, any op that autograd records counts,
      and a trace may end before the backward pass.
    """
    names = _names(trace, rows)
    marked = {
        track: (names.marks[of.name_id] != _UNMARKED)
        & ((of.kind == Kind.OP) | ((of.kind == Kind.ANNOTATION) & ~names.is_node[of.name_id]))
        for track, of in rows.items()
    }
    backward = join(*_when(rows, marked, names, Phase.BACKWARD))
    optimizer = join(*_when(rows, marked, names, Phase.OPTIMIZER))
    if not len(backward) and not len(optimizer):
        return None
    ops = numbered(trace, rows)
    made_by = makers(trace, ops)
    is_known = bool((made_by >= 0).any())
    forward_op = _made(ops, made_by, names) if is_known else ~ops.is_node
    between = join(*_when(rows, marked, names, Phase.OTHER))
    barriers = _Barriers.of(backward, optimizer, between)
    is_double = _is_double(trace, rows, marked, names, ops, backward)
    result = np.full(len(thread), Phase.OTHER, dtype=np.int8)
    for track in np.unique(thread[thread >= 0]).tolist():
        if track not in rows:
            continue
        mine = np.flatnonzero(thread == track)
        at, of = launch_ns[mine], rows[track]
        row = innermost(of, marked[track], at)
        mark = np.where(row >= 0, names.marks[trace.spans.name_id[np.maximum(row, 0)]], Phase.OTHER)
        found = mark.astype(np.int8)
        passes = barriers.lies_in_forward(_open(ops, forward_op & (ops.track == track)), at, not is_known)
        found[passes & ((row < 0) | (mark == Phase.OPTIMIZER))] = Phase.FORWARD
        if not is_double:
            again = _open(ops, ~ops.is_node & (ops.track == track))
            found[(mark == Phase.BACKWARD) & _inside(again, at)] = Phase.RECOMPUTE
        result[mine] = found
    return result


def optimizer_steps(trace: Trace, rows: Mapping[int, HostRows]) -> Intervals:
    """When any thread is in the step of an optimizer."""
    found = []
    for of in rows.values():
        may = (of.kind == Kind.ANNOTATION) | (of.kind == Kind.OP)
        ids = [n for n in np.unique(of.name_id[may]).tolist() if _OPTIMIZER.fullmatch(trace.names[n])]
        mask = may & np.isin(of.name_id, ids)
        found.append(union(of.start_ns[mask], of.end_ns[mask], is_sorted=True))
    return join(*found)


def _when(
    rows: Mapping[int, HostRows], marked: Mapping[int, Flags], names: _Names, phase: Phase
) -> list[Intervals]:
    """When a row that marks this phase is open, by thread."""
    found = []
    for track, of in rows.items():
        mask = marked[track] & (names.marks[of.name_id] == phase)
        found.append(union(of.start_ns[mask], of.end_ns[mask], is_sorted=True))
    return found


def _open(ops: Numbered, chosen: Flags) -> Intervals:
    return union(ops.start_ns[chosen], ops.end_ns[chosen])


def _made(ops: Numbered, made_by: npt.NDArray[np.int64], names: _Names) -> Flags:
    """Ops with the number of a node that the backward pass runs: the makers, and what leads up to them, as
    frozen layers do. A function of Python has a number without autograd too: it must be the maker itself.
    """
    result = np.zeros(len(ops), dtype=bool)
    maker = np.unique(made_by[made_by >= 0])
    result[maker] = True
    for track in np.unique(ops.track[maker]).tolist():
        mine = np.flatnonzero((ops.track == track) & ~ops.is_node & names.is_dispatched[ops.name_id])
        result[mine[np.isin(ops.number[mine], ops.number[maker[ops.track[maker] == track]])]] = True
    return result


@dataclass(frozen=True, slots=True)
class _Barriers:
    """Rows of all threads that no forward pass reaches across: sorted and disjoint.

    `is_before_backward`: of this row and those after it, the first that is backward pass or optimizer is the
    backward pass.
    """

    start: I64
    end: I64
    is_before_backward: Flags

    @staticmethod
    def of(backward: Intervals, optimizer: Intervals, between: Intervals) -> _Barriers:
        """A closure (an optimizer's row with a backward pass inside) parts nothing before that pass ended."""
        at = np.searchsorted(backward.start, optimizer.end, side="left") - 1
        last = np.append(backward.end, np.iinfo(np.int64).min)[at]
        optimizer = subtract(union(np.maximum(optimizer.start, last), optimizer.end), backward)
        between = subtract(subtract(between, optimizer), backward)
        sets = (backward, optimizer, between)
        start = np.concatenate([each.start for each in sets])
        order = np.argsort(start, kind="stable")
        which = np.repeat(np.arange(3), [len(each) for each in sets])[order]
        # The next row that is no mere break, found from behind.
        place = np.where(which == 2, len(which), np.arange(len(which)))
        following = np.minimum.accumulate(place[::-1])[::-1]
        return _Barriers(
            start[order],
            np.concatenate([each.end for each in sets])[order],
            np.append(which == 0, False)[following],
        )

    def lies_in_forward(self, ops: Intervals, at: I64, may_end: bool) -> Flags:
        """Whether one of the ops has begun since the last barrier, and one ends before the next, which is a
        backward pass (`may_end`: or the end of the trace)."""
        if not len(ops):
            return np.zeros(len(at), dtype=bool)
        far = np.iinfo(np.int64)
        place = np.searchsorted(self.start, at, side="right")
        last_end = np.append(np.int64(far.min), self.end)[place]
        next_start = np.append(self.start, np.int64(far.max))[place]
        is_followed = np.append(self.is_before_backward, may_end)[place]
        begun = np.searchsorted(ops.start, at, side="right") - 1
        has_begun = (begun >= 0) & (ops.start[np.maximum(begun, 0)] >= last_end)
        open_ = np.searchsorted(ops.end, at, side="right")
        ends = np.append(ops.end, np.int64(far.max))[open_]
        result: Flags = has_begun & (ends <= next_start) & (open_ < len(ops)) & (last_end <= at) & is_followed
        return result


def _is_double(
    trace: Trace,
    rows: Mapping[int, HostRows],
    marked: Mapping[int, Flags],
    names: _Names,
    ops: Numbered,
    backward: Intervals,
) -> bool:
    """Whether formulas of the backward pass are recorded for yet another one (`create_graph=True`).

    A checkpointed region runs again in one node, before that node's formula, which is not recorded. Where
    graphs of the backward pass are made, nodes have nothing but recorded ops.
    """
    recorded = ~ops.is_node & _inside(backward, ops.start_ns)
    if not recorded.any():
        return False
    if names.is_formula[ops.name_id[recorded]].any():
        return True
    pure = mixed = 0
    for track in np.unique(ops.track[recorded]).tolist():
        of = rows[track]
        mine = recorded & (ops.track == track)
        bare = names.is_aten[of.name_id] & (of.kind == Kind.OP) & ~_inside(_open(ops, mine), of.start_ns)
        with_recorded = np.unique(innermost(of, marked[track], ops.start_ns[mine]))
        with_bare = np.unique(innermost(of, marked[track], of.start_ns[bare]))
        for row in np.setdiff1d(with_recorded, [-1]).tolist():
            if names.is_built_in[trace.spans.name_id[row]]:
                is_pure = row not in with_bare
                pure, mixed = pure + is_pure, mixed + (not is_pure)
    return pure > mixed


def _inside(when: Intervals, at: I64) -> Flags:
    """Whether each instant lies in the set."""
    if not len(when):
        return np.zeros(len(at), dtype=bool)
    place = np.searchsorted(when.start, at, side="right") - 1
    return (place >= 0) & (at < when.end[np.maximum(place, 0)])


__all__ = ["Phase", "optimizer_steps", "phases"]
