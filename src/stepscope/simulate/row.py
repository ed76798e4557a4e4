"""What happened on one rank, a row each."""

from __future__ import annotations

from typing import Any, NamedTuple

# Kinds of rows.
ROW_OP, ROW_NODE, ROW_MARK, ROW_CALL, ROW_KERNEL, ROW_COPY, ROW_RECORD, ROW_EXCHANGE, ROW_GC = range(9)


class Row(NamedTuple):
    """One thing that happened. `track` is a thread (0 main, 1 autograd) or, of what the device does, a
    stream.

    `what` is the op, the kernel, the exchange or a name; `external` and `correlation` the profiler's
    numbers, 0 where it has none; `place` the number of an op's node among all of the run, -1 without one;
    `num_bytes` of a copy.
    """

    kind: int
    track: int
    start_ns: int
    end_ns: int
    what: Any
    external: int
    correlation: int
    place: int = -1
    num_bytes: int = 0
