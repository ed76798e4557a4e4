"""Nodes of the backward pass, and the forward op that made each: autograd's numbers say which.

An op's number is that of the node which the thread makes next, so every op that makes none carries the number
of a later one: the maker is the last op with that number. Numbers count up in each thread of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.nesting import HostRows

Flags = npt.NDArray[np.bool_]

# The engine's row around every node; before 2022 only the node itself. The names of nodes that are made of an
# op end in `Backward` and a number, those of a Python function in `Backward`.
_ENGINE = "autograd::engine::evaluate_function: "
_NODE = re.compile(rf"{_ENGINE}.+|torch::autograd::.+|torch::jit::.+Backward|(?!aten::)[\w:]*\wBackward\d*")
_STEM = re.compile(rf"({_ENGINE})?(aten::)?(.+?)(Backward\d*)?")


def is_node_name(name: str) -> bool:
    """Whether an op's row of this name is a node of the backward pass, or the engine's row around one."""
    return _NODE.fullmatch(name) is not None


def is_dispatched(name: str) -> bool:
    """Whether an op is one of a library, with a namespace; a function of Python has none.

    A library's op has a number where autograd records it, a function of Python always.
    """
    return "::" in name


def stem(name: str) -> str:
    """What an op and its node have in common: `aten::native_batch_norm` and `NativeBatchNormBackward0`."""
    found = _STEM.fullmatch(name)
    return (found[3] if found else name).replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class Numbered:
    """Ops with a number, of all threads, sorted by core row. `is_node`: of the backward pass; the others
    would make one. `forward_thread` is the profiler's own number of the thread that made a node."""

    row: I32
    track: I32
    name_id: I32
    start_ns: I64
    end_ns: I64
    number: I64
    forward_thread: I64
    is_node: Flags

    def __len__(self) -> int:
        return len(self.row)


def numbered(trace: Trace, rows: Mapping[int, HostRows]) -> Numbered:
    """Ops with a number on these threads."""
    ops, spans = trace.ops, trace.spans
    is_op = np.zeros(len(spans.ts_ns), dtype=bool)
    for of in rows.values():
        is_op[of.row[of.kind == Kind.OP]] = True
    keep = np.flatnonzero((ops.sequence >= 0) & is_op[ops.row])
    row = ops.row[keep]
    name_id, start = spans.name_id[row], spans.ts_ns[row]
    forward_thread = ops.fwd_thread[keep]
    is_node = np.zeros(max(len(trace.names), 1), dtype=bool)
    for name in np.unique(name_id).tolist():
        is_node[name] = is_node_name(trace.names[name])
    return Numbered(
        row=row,
        track=spans.track_id[row],
        name_id=name_id,
        start_ns=start,
        end_ns=start + spans.dur_ns[row],
        number=ops.sequence[keep],
        forward_thread=forward_thread,
        # A node repeats its op's number and names that op's thread.
        is_node=is_node[name_id] | (forward_thread > 0),
    )


def makers(trace: Trace, of: Numbered) -> npt.NDArray[np.int64]:
    """Of each entry of `of`, the place of the op that made it: -1 of what is no node, and where none is
    recorded.

    A node names its op's thread by a number that stands on no other row: of the threads with ops, it is the
    one where most of these nodes find an op of their number and their name.
    """
    made_by = np.full(len(of), -1, dtype=np.int64)
    node = np.flatnonzero(of.is_node & (of.forward_thread > 0))
    op = np.flatnonzero(~of.is_node)
    if not len(node) or not len(op):
        return made_by
    stems = {name: stem(trace.names[name]) for name in np.unique(of.name_id).tolist()}
    known = {text: place for place, text in enumerate(sorted(set(stems.values())))}
    stem_of = np.zeros(len(trace.names), dtype=np.int64)
    for name, text in stems.items():
        stem_of[name] = known[text]
    last = {track: _last(of, op[of.track[op] == track]) for track in np.unique(of.track[op]).tolist()}
    for thread in np.unique(of.forward_thread[node]).tolist():
        mine = node[of.forward_thread[node] == thread]
        best = (0, 0)
        for ops in last.values():
            found = _find(of, ops, mine)
            hit = found >= 0
            alike = int((hit & (stem_of[of.name_id[found]] == stem_of[of.name_id[mine]])).sum())
            if (alike, int(hit.sum())) > best:
                best = (alike, int(hit.sum()))
                made_by[mine] = found
    return made_by


def _last(of: Numbered, op: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Of the ops of one thread, the last with each number, by number."""
    order = op[np.lexsort((of.start_ns[op], of.number[op]))]
    number = of.number[order]
    is_last: Flags = np.append(number[1:] != number[:-1], True)
    result: npt.NDArray[np.intp] = order[is_last]
    return result


def _find(of: Numbered, op: npt.NDArray[np.intp], node: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """The op with each node's number that began before it, -1 where there is none."""
    at = np.minimum(np.searchsorted(of.number[op], of.number[node]), len(op) - 1)
    found = op[at]
    is_it = (of.number[found] == of.number[node]) & (of.start_ns[found] < of.start_ns[node])
    result: npt.NDArray[np.int64] = np.where(is_it, found, -1).astype(np.int64)
    return result
