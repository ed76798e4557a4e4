"""What each operation of a timeline waits for, as a graph to play.

* A worker does one thing after another: an operation begins once the last one that ended before it has ended,
  and computation never overtakes computation. The pause between is a *gap*.
* What is received is needed by the pass of the same number, and what a pass computes is what is sent.
* A transfer ends so much later than all its peers have begun; until then it waits. The recorded duration
holds
  both: `transfer_ns` is the end less the latest begin. Sends and receives that begin and end together are one
  batch, which waits for the peers of all.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.analyse.pipeline.operation import Operation, operation
from stepscope.analyse.replay.graph import NOT_YET, CycleError, Graph, graph
from stepscope.model.table import Timeline
from stepscope.model.trace import I64

CLOCK_NS = 250_000
"""By so much an operation may seem to begin before the one that it waits for has ended: starts are 32-bit
seconds in published tables (4 us at one minute), and clocks of ranks differ by up to 150 us in them."""

_OF_OP, _GAP, _ORDER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The graph of all steps, and what its weights are made of. Operation i begins at node 2i and ends at
    2i+1.

    `transfer_ns`: of computation its duration; `wait_ns`: what it waited for its peers. `gap_ns`: the pause
    before it, `begin_ns` when the first of a worker begins, from the start of its step, NOT_YET elsewhere.
    """

    graph: Graph
    transfer_ns: I64
    wait_ns: I64
    gap_ns: I64
    begin_ns: I64
    edge_type: I64
    edge_op: I64
    num_contradicted: int
    """What was received before it was sent: clocks or numbers are wrong there."""
    num_alone: int
    """Sends and receives of which the other side is not recorded."""

    def weights(self, transfer_ns: I64, *, with_gaps: bool) -> I64:
        """Weights of the edges for these durations of operations."""
        gaps = self.gap_ns[self.edge_op] if with_gaps else 0
        is_gap = self.edge_type == _GAP
        return np.where(self.edge_type == _OF_OP, transfer_ns[self.edge_op], np.where(is_gap, gaps, 0))

    def begins(self, *, with_gaps: bool) -> I64:
        """When nodes happen at the earliest."""
        return self.begin_ns if with_gaps else np.where(self.begin_ns == NOT_YET, NOT_YET, 0)


class _Edges:
    def __init__(self) -> None:
        self.parts: list[tuple[I64, I64, int, I64]] = []

    def add(self, source: npt.ArrayLike, target: npt.ArrayLike, kind: int, op: npt.ArrayLike) -> None:
        src, dst, of = (np.asarray(each, dtype=np.int64) for each in (source, target, op))
        self.parts.append((src, dst, kind, of))

    def column(self, place: int) -> I64:
        return np.concatenate([part[place] for part in self.parts])

    def kinds(self) -> I64:
        return np.concatenate([np.full(len(part[0]), part[2], dtype=np.int64) for part in self.parts])


def dependencies(timeline: Timeline) -> Dependencies:
    """The graph of a timeline. Raises CycleError where what is recorded contradicts itself.

    Where clocks are off by so much that their slack closes a circle, what happened later is not waited for.
    """
    try:
        return _dependencies(timeline, CLOCK_NS)
    except CycleError:
        return _dependencies(timeline, 0)


def _dependencies(timeline: Timeline, slack_ns: int) -> Dependencies:
    start, end = timeline.start_ns, timeline.start_ns + timeline.duration_ns
    num = len(timeline)
    known = [operation(name) for name in timeline.kinds]
    lane = _numbered(timeline.step, timeline.rank)
    before = _before(start, end, lane, slack_ns)
    has_before = np.flatnonzero(before >= 0)
    gap = np.where(before >= 0, start - end[before], 0)
    edges = _Edges()
    edges.add(2 * before[has_before] + 1, 2 * has_before, _GAP, has_before)
    _in_order(edges, timeline, known, lane, before, slack_ns)
    own, gates, num_nodes, odd = _talks(edges, timeline, known, lane, slack_ns)
    latest = start.copy()
    np.maximum.at(latest, gates[0], start[gates[1]])
    transfer = np.maximum(end - latest, 0)
    alone = np.flatnonzero(~own)
    edges.add(2 * alone, 2 * alone + 1, _OF_OP, alone)
    talking = np.flatnonzero(own)
    edges.add(2 * talking, 2 * talking + 1, _ORDER, talking)
    begin = np.full(num_nodes, NOT_YET, dtype=np.int64)
    first = np.flatnonzero(before < 0)
    begin[2 * first] = start[first] - _first_of(timeline.step, start)[first]
    return (
        Dependencies(
            graph=graph(num_nodes, edges.column(0), edges.column(1)),
            transfer_ns=np.where(own, transfer, end - start),
            wait_ns=np.where(own, np.minimum(latest, end) - start, 0),
            gap_ns=gap,
            begin_ns=begin,
            edge_type=edges.kinds(),
            edge_op=edges.column(3),
            num_contradicted=odd[0],
            num_alone=odd[1],
        )
        if num
        else _nothing()
    )


def _nothing() -> Dependencies:
    none = np.empty(0, dtype=np.int64)
    return Dependencies(graph(0, none, none), none, none, none, none, none, none, 0, 0)


def _numbered(*columns: I64) -> I64:
    """For each row the number of its combination of values."""
    _, number = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
    return number.reshape(-1).astype(np.int64)


def _first_of(step: I64, start: I64) -> I64:
    """For each row the first start of its step."""
    _, place = np.unique(step, return_inverse=True)
    first = np.full(int(place.max(initial=0)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, place, start)
    return first[place]


def _before(start: I64, end: I64, lane: I64, slack_ns: int) -> I64:
    """For each operation the one of its worker that ended last before it began, -1 for none."""
    slack = np.clip((end - start) // 2, 0, slack_ns)
    over = end - slack
    order = np.lexsort((end, over, lane))
    bounds = np.searchsorted(lane[order], np.arange(int(lane.max(initial=-1)) + 2))
    result = np.full(len(start), -1, dtype=np.int64)
    by_lane = np.argsort(lane, kind="stable")
    for low, high in pairwise(bounds.tolist()):
        mine, ended = by_lane[low:high], order[low:high]
        result[mine] = np.searchsorted(over[ended], start[mine], side="right") - 1 + low
        result[mine[result[mine] < low]] = -1
    place = result  # in `order`
    lows = bounds[lane]
    for _ in range(len(start)):
        found = np.where(place >= 0, order[place], -1)
        # Itself, and what began later, or as early but comes later in the table, is no predecessor.
        later = (found >= 0) & (
            (start[found] > start) | ((start[found] == start) & (found >= np.arange(len(start))))
        )
        if not later.any():
            return found
        place = np.where(later, place - 1, place)
        place = np.where(later & (place < lows), -1, place)
    return np.where(place >= 0, order[place], -1)


def _in_order(
    edges: _Edges,
    timeline: Timeline,
    known: list[Operation],
    lane: I64,
    before: I64,
    slack_ns: int,
) -> None:
    """Computation after computation, and passes after and before what they receive and send."""
    start, end = timeline.start_ns, timeline.start_ns + timeline.duration_ns
    computes = np.array([row.part.startswith("compute") for row in known], dtype=bool)
    rows = np.flatnonzero(computes[timeline.kind])
    rows = rows[np.lexsort((rows, start[rows], lane[rows]))]
    a, b = rows[:-1], rows[1:]
    keep = (lane[a] == lane[b]) & (before[b] != a) & (end[a] <= start[b] + slack_ns)
    edges.add(2 * a[keep] + 1, 2 * b[keep], _ORDER, b[keep])
    place = {name: number for number, name in enumerate(timeline.kinds)}
    key = _numbered(lane, timeline.sequence)
    if timeline.chunk.any():
        return  # of interleaved schedules transfers do not tell their chunk
    for first, second in (
        ("forward-recv", "forward-compute"),
        ("forward-compute", "forward-send"),
        ("backward-recv", "backward-compute"),
        ("backward-compute", "backward-send"),
    ):
        if first not in place or second not in place:
            continue
        a, b = _matched(key, timeline.kind == place[first], timeline.kind == place[second])
        keep = (before[b] != a) & (end[a] <= start[b] + slack_ns) & (start[a] < start[b])
        edges.add(2 * a[keep] + 1, 2 * b[keep], _ORDER, b[keep])


def _matched(key: I64, is_left: npt.NDArray[np.bool_], is_right: npt.NDArray[np.bool_]) -> tuple[I64, I64]:
    """Rows of the left and of the right with the same key, the first of each key."""
    left, right = np.flatnonzero(is_left), np.flatnonzero(is_right)
    _, at_left, at_right = np.intersect1d(key[left], key[right], return_indices=True)
    return left[at_left], right[at_right]


def _talks(
    edges: _Edges,
    timeline: Timeline,
    known: list[Operation],
    lane: I64,
    slack_ns: int,
) -> tuple[npt.NDArray[np.bool_], tuple[I64, I64], int, tuple[int, int]]:
    """Edges of what waits for peers: which rows do, pairs of (row, row that it waits for), the number of
    nodes, and of oddities."""
    start, end = timeline.start_ns, timeline.start_ns + timeline.duration_ns
    num = len(timeline)
    num_nodes = 2 * num
    stages = int(timeline.stage.max(initial=0)) + 1
    waits: list[I64] = []
    on: list[I64] = []
    contradicted = alone = 0
    place = {name: number for number, name in enumerate(timeline.kinds)}
    passing = np.zeros(num, dtype=bool)
    for number, row in enumerate(known):
        if row.peers in ("next", "previous"):
            mine = timeline.kind == number
            passing |= mine
            other = timeline.kind == place.get(row.partner or "", -1)
            to = (timeline.stage + (1 if row.peers == "next" else -1)) % stages
            meets = _numbered(
                timeline.step,
                timeline.data_parallel_rank,
                np.where(mine, to, timeline.stage),
                timeline.sequence,
            )
            a, b = _matched(meets, mine, other)
            alone += int(mine.sum()) - len(a)
            if timeline.kinds[number].endswith("recv"):
                sound = start[b] <= end[a] + slack_ns  # nothing is received before it is sent
                contradicted += int((~sound).sum())
            else:
                # A send that does not end with its receive was buffered: it waits for nobody.
                sound = (start[b] <= end[a]) & (np.abs(end[a] - end[b]) <= CLOCK_NS)
            waits.append(a[sound])
            on.append(b[sound])
    rows = np.flatnonzero(passing)
    own = np.zeros(num, dtype=bool)
    own[rows] = True
    pairs: list[tuple[I64, I64]] = []
    if len(rows):
        batch = np.full(num, -1, dtype=np.int64)
        batch[rows] = _numbered(lane[rows], start[rows], end[rows])
        a, b = np.concatenate(waits), np.concatenate(on)
        num_nodes = _group(
            edges, num_nodes, batch[rows], rows, np.append(batch[rows], batch[a]), np.append(rows, b)
        )
        pairs.append(_crossed(batch, rows, a, b))
    for number, row in enumerate(known):
        if row.peers not in ("replicas", "ends", "all"):
            continue
        rows = np.flatnonzero(timeline.kind == number)
        parts = [timeline.step[rows], timeline.chunk[rows], timeline.sequence[rows]]
        if row.peers == "replicas":
            parts.append(timeline.stage[rows])
        if row.peers == "ends":
            parts.append(timeline.data_parallel_rank[rows])
        if not len(rows):
            continue
        group = _numbered(*parts)
        own[rows] = True
        num_nodes = _group(edges, num_nodes, group, rows, group, rows)
        latest = rows[np.lexsort((start[rows], group))]
        last = latest[np.searchsorted(np.sort(group), np.arange(int(group.max()) + 1), side="right") - 1]
        pairs.append((rows, last[group]))
    none = np.empty(0, dtype=np.int64)
    gates = (
        np.concatenate([pair[0] for pair in pairs]) if pairs else none,
        np.concatenate([pair[1] for pair in pairs]) if pairs else none,
    )
    return own, gates, num_nodes, (contradicted, alone)


def _group(
    edges: _Edges, num_nodes: int, member_group: I64, members: I64, gate_group: I64, gates: I64
) -> int:
    """A node a group: it happens once all its gates have begun, and its members end later by their
    transfer. The number of nodes with these."""
    edges.add(2 * gates, num_nodes + gate_group, _ORDER, gates)
    edges.add(num_nodes + member_group, 2 * members + 1, _OF_OP, members)
    return num_nodes + int(member_group.max(initial=-1)) + 1


def _crossed(batch: I64, rows: I64, a: I64, b: I64) -> tuple[I64, I64]:
    """Every row of a batch with every peer of the batch: through the latest peer would do, but batches are
    of one or two."""
    order = np.argsort(batch[rows], kind="stable")
    members, of = rows[order], batch[rows][order]
    low = np.searchsorted(of, batch[a], side="left")
    size = np.searchsorted(of, batch[a], side="right") - low
    at = np.repeat(low - np.append(0, np.cumsum(size)[:-1]), size) + np.arange(int(size.sum()))
    return members[at], np.repeat(b, size)
