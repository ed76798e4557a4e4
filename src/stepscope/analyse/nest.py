"""Which row of a thread is innermost at an instant."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64
from stepscope.trace.nesting import HostRows


def innermost(rows: HostRows, chosen: npt.NDArray[np.bool_], at_ns: I64) -> I32:
    """Core row of the chosen row that is innermost on this thread at each instant, -1 where none is open."""
    return innermost_of(rows.start_ns[chosen], rows.end_ns[chosen], rows.row[chosen], at_ns)


def innermost_of(start: I64, end: I64, row: I32, at_ns: I64) -> I32:
    """The `row` of the interval that is innermost at each instant, -1 where none is open. They nest, and are
    sorted by (start, longest first).

    The innermost open one is the last started that has not ended: found by walking back over those that ended
    already, all instants at once.
    """
    # A row in which no instant lies can be no answer, nor hide one.
    asked = np.sort(at_ns)
    holds = np.searchsorted(asked, end, side="left") > np.searchsorted(asked, start, side="left")
    start, end, row = start[holds], end[holds], row[holds]
    if len(start) == 0:
        return np.full(len(at_ns), -1, dtype=np.int32)
    parent = parents(start, end)
    at = np.searchsorted(start, at_ns, side="right") - 1
    open_ = np.where(at >= 0, end[np.maximum(at, 0)] > at_ns, False)
    while True:
        lost = (at >= 0) & ~open_
        if not lost.any():
            break
        at = np.where(lost, parent[np.maximum(at, 0)], at)
        open_ = np.where(at >= 0, end[np.maximum(at, 0)] > at_ns, False)
    return np.where(at >= 0, row[np.maximum(at, 0)], -1).astype(np.int32)


def parents(start: I64, end: I64) -> npt.NDArray[np.int64]:
    """The nearest earlier-started interval that reaches beyond each one's start, -1 for none.

    One stack walk: ops are a fraction of all rows, and nesting has no vectorised form that survives
    crossing rows.
    """
    out = [-1] * len(start)
    stack: list[int] = []
    ends = end.tolist()
    for i, s in enumerate(start.tolist()):
        while stack and ends[stack[-1]] <= s:
            stack.pop()
        if stack:
            out[i] = stack[-1]
        stack.append(i)
    return np.array(out, dtype=np.int64)
