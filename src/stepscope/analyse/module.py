"""Device time by module of the model: forward by the module's own frame, backward by autograd's numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from stepscope.analyse.group import alike, named
from stepscope.analyse.nest import innermost, parents
from stepscope.analyse.node import makers, numbered
from stepscope.analyse.operator import Calls
from stepscope.analyse.phase import Phase
from stepscope.model import report
from stepscope.model.trace import I32, Trace
from stepscope.trace.category import Kind
from stepscope.trace.nesting import HostRows

MAX_MODULES = 50
_MODULE = re.compile(r"nn\.Module: (.+)")


def module_table(calls: Calls, rows: Mapping[int, HostRows], rank: int | None) -> tuple[report.Module, ...]:
    """The hottest modules by the device time of all inside them; empty where no modules were recorded.

    Work of the backward pass belongs to the module of the forward op with the same sequence number. What
    belongs to no module is in no row.
    """
    trace = calls.trace
    is_module = named(trace, _MODULE.fullmatch)
    path_of: dict[int, tuple[str, ...]] = {}
    frames: dict[int, npt.NDArray[np.bool_]] = {}
    for track, of in rows.items():
        mask = is_module[of.name_id] & (of.kind == Kind.PYTHON)
        if mask.any():
            frames[track] = mask
            path_of |= _paths(trace, of, mask)
    if not frames:
        return ()
    module = np.full(len(calls.own_row), -1, dtype=np.int32)
    for track, mask in frames.items():
        mine = calls.who.thread == track
        module[mine] = innermost(rows[track], mask, calls.activities.launch_ns[mine])
    phase = calls.who.phase
    if phase is not None:
        back = (phase == Phase.BACKWARD) | (phase == Phase.RECOMPUTE)
        _from_root(module, path_of, back)
        module = np.where(back & (module < 0), _by_node(calls, rows, frames), module)
    return _rows(calls, module, path_of, rank)


def _paths(trace: Trace, rows: HostRows, mask: npt.NDArray[np.bool_]) -> dict[int, tuple[str, ...]]:
    """Core row of each module frame -> names from the outermost module to it."""
    row, name_id = rows.row[mask].tolist(), rows.name_id[mask].tolist()
    above = parents(rows.start_ns[mask], rows.end_ns[mask]).tolist()
    paths: list[tuple[str, ...]] = []
    for name, parent in zip(name_id, above, strict=True):
        own = trace.names[name].removeprefix("nn.Module: ")
        paths.append((*(paths[parent] if parent >= 0 else ()), own))
    return dict(zip(row, paths, strict=True))


def _by_node(calls: Calls, rows: Mapping[int, HostRows], frames: Mapping[int, npt.NDArray[np.bool_]]) -> I32:
    """The module's row of the forward op that made each activity's backward node, -1 where none is known."""
    result = np.full(len(calls.own_row), -1, dtype=np.int32)
    ops = numbered(calls.trace, rows)
    made_by = makers(calls.trace, ops)
    module = np.full(len(ops), -1, dtype=np.int32)
    for track, mask in frames.items():
        mine = np.flatnonzero(ops.track == track)
        module[mine] = innermost(rows[track], mask, ops.start_ns[mine])
    module_of_node = np.where(made_by >= 0, module[made_by], -1)
    node = np.flatnonzero(ops.is_node)
    for track in np.unique(calls.who.thread).tolist():
        if track not in rows:
            continue
        of, mine = rows[track], np.flatnonzero(calls.who.thread == track)
        its_nodes = node[ops.track[node] == track]
        row = innermost(of, np.isin(of.row, ops.row[its_nodes]), calls.activities.launch_ns[mine])
        at = np.minimum(np.searchsorted(ops.row, row), max(len(ops) - 1, 0))
        if len(ops):
            result[mine] = np.where(row >= 0, module_of_node[at], -1)
    return result


def _from_root(module: I32, path_of: dict[int, tuple[str, ...]], is_within: npt.NDArray[np.bool_]) -> None:
    """Give the frames of these activities the path that their outermost module has elsewhere.

    A checkpointed region that runs again is called by autograd and not by the modules around it. The profiler
    numbers modules, so that a name is one module.
    """
    again = {row for row in np.unique(module[is_within]).tolist() if row >= 0}
    above: dict[str, set[tuple[str, ...]]] = {}
    for row, path in path_of.items():
        if row not in again:
            for depth, name in enumerate(path):
                above.setdefault(name, set()).add(path[:depth])
    for row in again:
        known = above.get(path_of[row][0], set()) - {()}
        if len(known) == 1:
            path_of[row] = (*next(iter(known)), *path_of[row])


def _rows(
    calls: Calls, module: I32, path_of: Mapping[int, tuple[str, ...]], rank: int | None
) -> tuple[report.Module, ...]:
    phase = calls.who.phase
    place = phase if phase is not None else np.zeros(len(module), dtype=np.int8)
    first, kind_of = alike(module, place)
    sums = np.zeros(len(first), dtype=np.int64)
    np.add.at(sums, kind_of, calls.duration_ns)
    spent = Counter[tuple[tuple[str, ...], int]]()  # a module is called many times
    for row, which, ns in zip(module[first].tolist(), place[first].tolist(), sums.tolist(), strict=True):
        if row in path_of:
            spent[path_of[row], which] += ns
    own, whole = Counter[tuple[str, ...]](), Counter[tuple[str, ...]]()
    by_phase = Counter[tuple[tuple[str, ...], int]]()
    for (path, which), ns in spent.items():
        own[path] += ns
        for depth in range(1, len(path) + 1):
            whole[path[:depth]] += ns
            by_phase[path[:depth], which] += ns

    def part(path: tuple[str, ...], *wanted: Phase) -> int | None:
        return None if phase is None else sum(by_phase[path, int(each)] for each in wanted)

    hottest = sorted(whole, key=lambda path: (-whole[path], path))[:MAX_MODULES]
    return tuple(
        report.Module(
            rank=rank,
            path="/".join(path),
            device_ns=own[path],
            total_ns=whole[path],
            share=whole[path] / calls.total_ns if calls.total_ns else None,
            forward_ns=part(path, Phase.FORWARD),
            backward_ns=part(path, Phase.BACKWARD, Phase.RECOMPUTE),
        )
        for path in hottest
    )
