"""Events and what each waits for: a graph whose longest paths are the times at which events happen.

An event happens when all that it waits for has happened, each so much later as its edge says: the value of a
node is the greatest of (value of the source + weight) over its incoming edges. Removing a cause is the same
graph with other weights, so that many scenarios are played at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I64

NOT_YET = np.iinfo(np.int64).min // 4
"""The time of what waits for nothing that happens: far before any sum of weights."""


class CycleError(ValueError):
    """Events wait for each other in a circle: the recorded dependencies contradict themselves."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Nodes 0 … num_nodes-1; edges in the order in which they were given, and the order in which to play
    them.

    `order` are edge positions sorted by the level of their target; `bounds` where each level begins in it,
    with the end; `heads` where each target begins in `order`, level by level, and `targets` which node that
    is.
    """

    num_nodes: int
    source: I64
    target: I64
    order: I64
    level_edges: tuple[tuple[int, int], ...]
    level_heads: tuple[tuple[int, int], ...]
    heads: I64
    targets: I64


def graph(num_nodes: int, source: npt.ArrayLike, target: npt.ArrayLike) -> Graph:
    """The graph of these edges. Raises CycleError where events wait for each other in a circle."""
    src, dst = np.asarray(source, dtype=np.int64), np.asarray(target, dtype=np.int64)
    level = _levels(num_nodes, src, dst)
    order = np.lexsort((dst, level[dst])) if len(dst) else np.empty(0, dtype=np.int64)
    by_target = dst[order]
    is_head = np.ones(len(order), dtype=bool)
    is_head[1:] = by_target[1:] != by_target[:-1]
    heads = np.flatnonzero(is_head).astype(np.int64)
    edge_level, head_level = level[by_target], level[by_target[heads]]
    num_levels = int(level.max(initial=0)) + 1
    edges = np.searchsorted(edge_level, np.arange(1, num_levels + 1)).tolist()
    starts = np.searchsorted(head_level, np.arange(1, num_levels + 1)).tolist()
    return Graph(
        num_nodes,
        src,
        dst,
        order.astype(np.int64),
        tuple(pairwise(edges)),
        tuple(pairwise(starts)),
        heads,
        by_target[heads],
    )


def _levels(num_nodes: int, source: I64, target: I64) -> I64:
    """The longest number of edges from any start to each node."""
    level = np.zeros(num_nodes, dtype=np.int64)
    waiting = np.bincount(target, minlength=num_nodes)
    order = np.argsort(source, kind="stable")
    out = target[order]
    begin = np.searchsorted(source[order], np.arange(num_nodes + 1))
    ready = np.flatnonzero(waiting == 0)
    seen = 0
    depth = 0
    while len(ready):
        level[ready] = depth
        seen += len(ready)
        counts = begin[ready + 1] - begin[ready]
        total = int(counts.sum())
        if total == 0:
            break
        at = np.repeat(begin[ready] - np.append(0, np.cumsum(counts)[:-1]), counts) + np.arange(total)
        reached = out[at]
        np.subtract.at(waiting, reached, 1)
        reached = np.unique(reached)
        ready = reached[waiting[reached] == 0]
        depth += 1
    if seen < num_nodes:
        raise CycleError(f"{num_nodes - seen} of {num_nodes} events wait for each other in a circle")
    return level


def play(graph: Graph, weight: npt.ArrayLike, begin: npt.ArrayLike | None = None) -> I64:
    """When each node happens: (scenarios, nodes).

    `weight` (scenarios, edges) in the order of the edges; `begin` (nodes,) or (scenarios, nodes) is when a
    node happens at the earliest, 0 for nodes without incoming edges where it is not given.
    """
    weights = np.atleast_2d(np.asarray(weight, dtype=np.int64))
    value = np.full((weights.shape[0], graph.num_nodes), NOT_YET, dtype=np.int64)
    if begin is None:
        has_source = np.zeros(graph.num_nodes, dtype=bool)
        has_source[graph.target] = True
        value[:, ~has_source] = 0
    else:
        value[:] = begin
    source, ordered = graph.source[graph.order], weights[:, graph.order]
    for (low, high), (first, last) in zip(graph.level_edges, graph.level_heads, strict=True):
        if low == high:
            continue
        arrival = value[:, source[low:high]] + ordered[:, low:high]
        nodes = graph.targets[first:last]
        latest = np.maximum.reduceat(arrival, graph.heads[first:last] - low, axis=1)
        value[:, nodes] = np.maximum(value[:, nodes], latest)
    return value


def critical_edges(graph: Graph, weight: I64, value: I64, end: int) -> I64:
    """Edges of the path that decides when `end` happens, first to last; of one scenario."""
    by_target = np.argsort(graph.target, kind="stable")
    begin = np.searchsorted(graph.target[by_target], np.arange(graph.num_nodes + 1))
    path: list[int] = []
    node = end
    while True:
        mine = by_target[begin[node] : begin[node + 1]]
        if not len(mine):
            break
        slack = value[node] - (value[graph.source[mine]] + weight[mine])
        best = int(np.argmin(slack))
        if slack[best] != 0:  # it began by itself
            break
        path.append(int(mine[best]))
        node = int(graph.source[mine[best]])
    return np.array(path[::-1], dtype=np.int64)
