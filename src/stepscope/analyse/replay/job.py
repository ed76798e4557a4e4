"""Programs of any number of ranks played together: how well that reproduces the run, and what a change would
win."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.replay.graph import CycleError, Graph, critical_edges, graph, play
from stepscope.analyse.replay.program import (
    BASE,
    COMMUNICATION,
    IMBALANCE,
    NEVER,
    OVERLAP,
    PARTS,
    STRAGGLER,
    Program,
)
from stepscope.analyse.replay.straggler import levelled
from stepscope.model import report
from stepscope.model.trace import I64

MOST_ERROR = 0.05
"""A replay that misses a rank's step by more predicts nothing."""
LEAST_KNOWN = 0.5
"""Less of the time of the steps explained predicts nothing either."""
GOOD_ERROR = 0.02
"""Beyond this a replay is read with care."""
MOST_UNEXPLAINED = 0.10
"""Waits of the device that nothing recorded explains, of the time of the steps: beyond, likewise."""
MOST_PATH = 40
"""Rows of the critical path."""


@dataclass(frozen=True, slots=True)
class _Joined:
    """The graph of all ranks. `rank_of` edges: the position of the program; `rest` as in `Program`; `first`
    and `first_edge` where each program's nodes and edges begin; `carried_ns` what communication of each
    takes, all of its steps together, on the stream that has most of it."""

    graph: Graph
    weight: I64
    begin: I64
    rank_of: I64
    rest: I64
    first: list[int]
    first_edge: list[int]
    carried_ns: list[int]


def replay(
    programs: Sequence[object],
    instances: Sequence[I64] | None = None,
    start_ns: Sequence[I64] | None = None,
    end_ns: Sequence[I64] | None = None,
) -> report.Replay | None:
    """What the replay of these ranks' programs says; `None` where no rank has one.

    Of each rank, parallel to its communication activities by start: the matched collective (-1 for none) and
    its corrected start and end. Without them ranks do not wait for each other.
    """
    at = [i for i, each in enumerate(programs) if isinstance(each, Program)]
    played = [each for each in programs if isinstance(each, Program)]
    if not played:
        return None
    table = None
    if instances is not None and start_ns is not None and end_ns is not None:
        table = ([instances[i] for i in at], [start_ns[i] for i in at], [end_ns[i] for i in at])
    why = None
    if any(each.status == "withheld" for each in played):
        why = "what the device waited for is not known: the accounting withholds its causes too"
    num_steps = len(_common(played)[1])
    try:
        scenarios, joined, ranks = _join(played, table)
        value = play(joined.graph, joined.weight, joined.begin)
    except CycleError as error:
        return report.Replay(status="withheld", error_share=1.0, num_steps=num_steps, why=str(error))
    first, numbers = _common(played)
    error_share = max(
        _error(p, value[0], offset, begin, len(numbers))
        for p, offset, begin in zip(played, joined.first, first, strict=True)
    )
    unexplained = max(each.unexplained_share for each in played)
    if why is None and 1 - unexplained < LEAST_KNOWN:
        why = f"for {100 * unexplained:.0f} % of the time the device waited for what was not recorded"
    if why is None and error_share > MOST_ERROR:
        why = f"the untouched replay misses a step by {100 * error_share:.0f} %"
    if why is not None:
        return report.Replay(status="withheld", error_share=error_share, num_steps=num_steps, why=why)
    of_rank = np.array(
        [
            _period(p, value, offset, begin, len(numbers))
            for p, offset, begin in zip(played, joined.first, first, strict=True)
        ]
    )
    period = of_rank.mean(axis=0)
    # Nobody waits for communication, but it needs its time; ranks go on together all the same.
    overlap = scenarios.index(OVERLAP)
    carried = max(ns / len(p.step) for p, ns in zip(played, joined.carried_ns, strict=True))
    together = of_rank[:, overlap].max() if table is not None else period[overlap]
    period[overlap] = min(max(together, carried), period[0])
    what_if = []
    for i, name in enumerate(scenarios):
        if i == 0 or np.array_equal(joined.weight[i], joined.weight[0]):
            continue
        what_if.append(
            report.WhatIf(
                remove=name,
                step_ns=round(period[0]),
                predicted_ns=round(period[i]),
                gain_share=float(1 - period[i] / period[0]) if period[0] else 0.0,
                ranks=ranks if name == STRAGGLER else (),
            )
        )
    doubt = _doubt(played, error_share)
    return report.Replay(
        status="ok" if doubt is None else "degraded",
        why=doubt,
        error_share=error_share,
        num_steps=num_steps,
        what_if=tuple(sorted(what_if, key=lambda each: (-each.gain_share, each.remove))),
        critical_path=_path(played, joined, value[0]),
    )


def _doubt(programs: Sequence[Program], error_share: float) -> str | None:
    """Why the replay of a believed trace is to be read with care, `None` where there is no reason."""
    unexplained = max(each.unexplained_share for each in programs)
    if error_share > GOOD_ERROR:
        return f"the untouched replay misses a step by {100 * error_share:.1f} %"
    if unexplained > MOST_UNEXPLAINED:
        return (
            f"for {100 * unexplained:.0f} % of the time the device waited for what was not recorded: "
            "no change is predicted to shorten that"
        )
    if any(each.status == "degraded" for each in programs):
        return "the accounting's causes are in doubt"
    return None


def _common(programs: Sequence[Program]) -> tuple[list[int], I64]:
    """Where the steps that all ranks have begin in each, and their numbers; each rank's own without any."""
    numbers = programs[0].step
    for each in programs[1:]:
        numbers = numbers[np.isin(numbers, each.step)]
    if not len(numbers) or any((np.diff(each.step) != 1).any() for each in programs):
        shortest = min(len(each.step) for each in programs)
        return [0] * len(programs), programs[0].step[:shortest]
    return [int(np.searchsorted(each.step, numbers[0])) for each in programs], numbers


def _error(p: Program, value: I64, offset: int, begin: int, num: int) -> float:
    """The mean difference between replayed and recorded steps, of the mean recorded step."""
    nodes = (p.host_node if p.window == "host" else p.device_node) + offset
    replayed = np.diff(value[nodes])[begin : begin + num]
    recorded = p.recorded_ns[begin : begin + num]
    total = int(recorded.sum())
    return float(np.abs(replayed - recorded).sum() / total) if total > 0 else 1.0


def _period(p: Program, value: I64, offset: int, begin: int, num: int) -> npt.NDArray[np.float64]:
    """Mean step of each scenario: by the windows of the accounting, or by the other side (host or device)
    where that becomes the slower one.

    That other side lags behind or runs ahead only for so long, and first of all has to get there: it counts
    by what it needs beyond over all steps and over the second half of them, whichever is less.
    """
    one_nodes, other_nodes = (
        (p.host_node, p.device_node) if p.window == "host" else (p.device_node, p.host_node)
    )

    def mean(nodes: I64, first: int) -> npt.NDArray[np.float64]:
        span: npt.NDArray[np.float64] = (
            value[:, nodes[begin + num] + offset] - value[:, nodes[begin + first] + offset]
        ) / (num - first)
        return span

    def beyond(first: int) -> npt.NDArray[np.float64]:
        one, other = mean(one_nodes, first), mean(other_nodes, first)
        more: npt.NDArray[np.float64] = np.maximum(other - one - max(0.0, other[0] - one[0]), 0.0)
        return more

    extra = beyond(0)
    if num >= SETTLED_STEPS:
        extra = np.minimum(extra, beyond(num // 2))
    longer: npt.NDArray[np.float64] = mean(one_nodes, 0) + extra
    return longer


SETTLED_STEPS = 6
"""From so many steps on half of them are enough to measure by."""


def _join(
    programs: Sequence[Program], table: tuple[list[I64], list[I64], list[I64]] | None
) -> tuple[tuple[str, ...], _Joined, tuple[int, ...]]:
    """One graph; the names of the scenarios; the ranks whom `straggler` speeds up."""
    names = list(dict.fromkeys(name for each in programs for name in each.scenarios))
    scenarios = (BASE, *sorted(name for name in names if name != BASE))
    first = np.cumsum([0, *(each.num_nodes for each in programs)]).tolist()
    first_edge = np.cumsum([0, *(len(each.source) for each in programs)]).tolist()
    weight = np.concatenate([_rows(each, scenarios) for each in programs], axis=1)
    source = np.concatenate([each.source + at for each, at in zip(programs, first, strict=False)])
    target = np.concatenate([each.target + at for each, at in zip(programs, first, strict=False)])
    rest = np.concatenate([each.rest for each in programs]).astype(np.int64)
    rank_of = np.repeat(np.arange(len(programs)), np.diff(first_edge))
    shift = [_shift(each, table[1][i]) if table else 0 for i, each in enumerate(programs)]
    begin = np.concatenate(
        [
            np.where(each.begin > NEVER, each.begin + by, NEVER)
            for each, by in zip(programs, shift, strict=True)
        ]
    )
    taken = [each.untouched[each.own_edge] for each in programs]
    ranks: tuple[int, ...] = ()
    if table is not None and len(programs) > 1:
        matched, transfer = _matched(programs, table)
        lighter, ranks = levelled(programs, matched)
        even, _ = levelled(programs, matched, is_even=True)
        scenarios = (*scenarios, STRAGGLER, IMBALANCE)
        weight = np.concatenate([weight, lighter[None], even[None]])
        meet = len(begin) + np.arange(len(transfer))
        begin = np.append(begin, np.full(len(transfer), NEVER, dtype=np.int64))
        sources, targets, times, owners = [source], [target], [], [rank_of]
        for i, (each, of) in enumerate(zip(programs, matched, strict=True)):
            mine = np.flatnonzero(of >= 0)
            taken[i][mine] = transfer[of[mine]]
            weight[:, first_edge[i] + each.own_edge[mine]] = NEVER
            sources += [each.ready[mine] + first[i], meet[of[mine]]]
            targets += [meet[of[mine]], each.done[mine] + first[i]]
            times += [np.zeros(len(mine), dtype=np.int64), transfer[of[mine]]]
            owners.append(np.full(2 * len(mine), i))
        source, target, rank_of = (np.concatenate(each) for each in (sources, targets, owners))
        added = np.concatenate(times)
        weight = np.concatenate([weight, np.tile(added, (len(weight), 1))], axis=1)
        rest = np.append(rest, np.full(len(added), COMMUNICATION))
    made = graph(len(begin), source, target)
    carried = [
        int(np.bincount(each.collective_stream, weights=ns).max(initial=0))
        for each, ns in zip(programs, taken, strict=True)
    ]
    return (
        scenarios,
        _Joined(made, weight, begin, rank_of, rest, first[:-1], first_edge[:-1], carried),
        ranks,
    )


def _rows(p: Program, scenarios: Sequence[str]) -> I64:
    """Its weights under each scenario: those of the untouched one where it has no such."""
    row: I64 = p.weight()[[p.scenarios.index(name) if name in p.scenarios else 0 for name in scenarios]]
    return row


def _shift(p: Program, start_ns: I64) -> int:
    """How far its clock has to be moved."""
    if not len(p.collective_row):
        return 0
    return int(np.median(start_ns[p.collective_row] - p.collective_start_ns))


def _matched(
    programs: Sequence[Program], table: tuple[list[I64], list[I64], list[I64]]
) -> tuple[list[I64], I64]:
    """Of each program's collectives the place among those that two programs share at least, -1 for others;
    and the transfer of each of these, in nanoseconds."""
    instance, start, end = (np.concatenate(each) for each in table)
    of = [ids[each.collective_row] for each, ids in zip(programs, table[0], strict=True)]
    here, count = np.unique(np.concatenate(of), return_counts=True)
    shared = here[(count > 1) & (here >= 0)]
    at = np.searchsorted(shared, instance)
    known = (at < len(shared)) & (instance >= 0)
    known[known] = shared[at[known]] == instance[known]
    latest = np.full(len(shared), np.iinfo(np.int64).min)
    ends, shortest = (np.full(len(shared), np.iinfo(np.int64).max) for _ in range(2))
    np.maximum.at(latest, at[known], start[known])
    np.minimum.at(ends, at[known], end[known])
    np.minimum.at(shortest, at[known], (end - start)[known])
    transfer = np.clip(ends - latest, 0, np.maximum(shortest, 0))
    matched = []
    for ids in of:
        place = np.minimum(np.searchsorted(shared, ids), max(len(shared) - 1, 0))
        is_shared = (ids >= 0) & (shared[place] == ids) if len(shared) else np.zeros(len(ids), dtype=bool)
        matched.append(np.where(is_shared, place, -1))
    return matched, transfer


def _path(programs: Sequence[Program], joined: _Joined, value: I64) -> tuple[report.PathPart, ...]:
    """What the untouched run's longest path passes through, from the end of its last step back."""
    last = [
        int((p.host_node if p.window == "host" else p.device_node)[-1]) + offset
        for p, offset in zip(programs, joined.first, strict=True)
    ]
    end = last[int(np.argmax(value[last]))]
    edges = critical_edges(joined.graph, joined.weight[0], value, end)
    time = np.zeros((len(programs), len(PARTS)), dtype=np.int64)
    rest = joined.weight[0, edges].copy()
    for i, p in enumerate(programs):
        mine = np.flatnonzero(joined.rank_of[edges] == i)
        local = edges[mine] - joined.first_edge[i]
        place = np.full(len(p.source), -1, dtype=np.int64)
        own = local < len(p.source)
        own &= local >= 0
        place[local[own]] = mine[own]
        used = place[p.parts.edge] >= 0
        np.add.at(time[i], p.parts.part[used], p.parts.ns[used])
        np.subtract.at(rest, place[p.parts.edge[used]], p.parts.ns[used])
    np.add.at(time, (joined.rank_of[edges], joined.rest[edges]), rest)
    total = int(np.maximum(time, 0).sum())
    found = [
        report.PathPart(
            part=PARTS[part],
            time_ns=int(time[i, part]),
            share=float(time[i, part] / total),
            rank=programs[i].rank if len(programs) > 1 else None,
        )
        for i, part in np.argwhere(time > 0).tolist()
    ]
    return tuple(sorted(found, key=lambda each: (-each.time_ns, each.part, each.rank or 0))[:MOST_PATH])
