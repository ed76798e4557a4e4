"""Slices on lanes: a viewer's track holds slices that nest, recorded ones may overlap in any way."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterator

import numpy as np

from stepscope.model.trace import I64

MAX_NESTED = 16
"""So many lanes are tried for a place inside an open slice. What fits in none goes to lanes without nesting,
whose search is logarithmic: a hostile file cannot make the placing quadratic."""
_CHUNK = 100_000


def placed(start_ns: I64, end_ns: I64) -> list[array[int]]:
    """For each lane the slices' begins and ends in order of time: position `i` for a begin, `~i` for its end.

    On every lane slices are disjoint or nested; each slice is on exactly one lane, the first that has room.
    At equal times an end comes before a begin, an outer begin before an inner one. Never more lanes than
    slices. `end_ns` is at or after `start_ns`.
    """
    order = np.lexsort((np.arange(len(start_ns)), -end_ns, start_ns))
    nested: list[tuple[array[int], list[tuple[int, int]]]] = []
    flat: list[array[int]] = []
    free: list[tuple[int, int]] = []  # (end of its last slice, lane), for lanes without nesting
    for i, start, end in _rows(order, start_ns, end_ns):
        for events, stack in nested:
            while stack and stack[-1][0] <= start:
                events.append(~stack.pop()[1])
            if not stack or end <= stack[-1][0]:
                events.append(i)
                stack.append((end, i))
                break
        else:
            if len(nested) < MAX_NESTED:
                nested.append((array("q", [i]), [(end, i)]))
            elif free and free[0][0] <= start:
                _, lane = heapq.heapreplace(free, (end, free[0][1]))
                flat[lane].extend((i, ~i))
            else:
                heapq.heappush(free, (end, len(flat)))
                flat.append(array("q", [i, ~i]))
    for events, stack in nested:
        events.extend(~i for _, i in reversed(stack))
    return [*(events for events, _ in nested), *flat]


def _rows(order: np.ndarray, start_ns: I64, end_ns: I64) -> Iterator[tuple[int, int, int]]:
    """(position, start, end) in this order, made into Python's integers piece by piece."""
    for at in range(0, len(order), _CHUNK):
        piece = order[at : at + _CHUNK]
        yield from zip(piece.tolist(), start_ns[piece].tolist(), end_ns[piece].tolist(), strict=True)
