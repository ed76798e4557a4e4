"""A trace in columns: a dense core of spans and sparse side tables, NumPy arrays throughout.

One `Trace` is one file. Every table is a frozen struct of equally long arrays; a side table has a
`row` column (int32) that points into the core, ascending. Times are int64 nanoseconds. Strings are
interned: `…_id` columns point into `names`, `cats` or `texts`. In a side table an absent number is
`ABSENT` (the smallest int64 or int32 of the column's type) and an absent id is -1; neither leaves
this module's users as a value: they are turned into `None` or left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
I32 = npt.NDArray[np.int32]
F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]

ABSENT_I64 = int(np.iinfo(np.int64).min)
ABSENT_I32 = int(np.iinfo(np.int32).min)


@dataclass(frozen=True, slots=True)
class Spans:
    """The core: complete events (`ph` X, and B/E pairs joined), in file order.

    `index` is the event's position in its file's event array, every phase counted from 0.
    `ts_ns` is wall time where the trace is anchored (`Trace.anchor`), else the trace's own time.
    `dur_ns` may be zero or negative as written: judging it is the health report's business.
    """

    ts_ns: I64
    dur_ns: I64
    name_id: I32
    cat_id: I32
    track_id: I32
    index: I32


@dataclass(frozen=True, slots=True)
class Correlations:
    """`correlation` of host calls and device activities alike: links a launch with its work."""

    row: I32
    correlation: I64


@dataclass(frozen=True, slots=True)
class Ops:
    """What was recorded of a call's arguments. A row where any of these was written."""

    row: I32
    external_id: I64
    sequence: I64
    fwd_thread: I64
    dims_id: I32  # texts: "Input Dims" as written, white space removed
    types_id: I32  # texts: "Input type"
    concrete_id: I32  # texts: "Concrete Inputs"
    strides_id: I32  # texts: "Input Strides"
    stack_id: I32  # texts: "Call stack", unquoted
    module_id: I32  # texts: "Module Hierarchy", unquoted


@dataclass(frozen=True, slots=True)
class Python:
    """Python frames: ids link callee and caller."""

    row: I32
    python_id: I64
    parent_id: I64
    module_id: I64


@dataclass(frozen=True, slots=True)
class Gpu:
    """Rows that name a device or a stream (device activities, and host calls that name them)."""

    row: I32
    device: I32
    stream: I64
    bytes: I64
    grid: I32  # (n, 3)
    block: I32  # (n, 3)
    registers: I32
    shared_bytes: I64
    occupancy: F32  # estimated, ratio 0..1; NaN where absent
    warps_per_sm: F32
    blocks_per_sm: F32
    graph_id: I64
    graph_node_id: I64


@dataclass(frozen=True, slots=True)
class Comms:
    """What the framework recorded of a collective, on its kernel or on its host call."""

    row: I32
    collective_id: I32  # texts
    dtype_id: I32  # texts
    group_id: I32  # texts: process group name
    group_desc_id: I32  # texts
    ranks_id: I32  # texts
    in_nelems: I64
    out_nelems: I64
    group_size: I64
    sequence: I64
    src_rank: I64
    dst_rank: I64


@dataclass(frozen=True, slots=True)
class Syncs:
    """Arguments of synchronisation rows (`cuda_sync`)."""

    row: I32
    wait_stream: I64
    wait_correlation: I64
    wait_event: I64


@dataclass(frozen=True, slots=True)
class Instants:
    """Instant events other than memory events."""

    ts_ns: I64
    name_id: I32
    cat_id: I32
    track_id: I32
    index: I32


@dataclass(frozen=True, slots=True)
class Memory:
    """Allocator events (`[memory]` instants)."""

    ts_ns: I64
    track_id: I32
    index: I32
    bytes: I64
    address: I64
    device_type: I32
    device: I32
    total_allocated: I64
    total_reserved: I64


@dataclass(frozen=True, slots=True)
class Flows:
    """Flow events: `phase` is ord("s"), ord("t") or ord("f")."""

    ts_ns: I64
    id: I64
    track_id: I32
    cat_id: I32
    phase: U8


@dataclass(frozen=True, slots=True)
class Track:
    """One (pid, tid): a host thread, a device stream, or a profiler's own row.

    Numeric strings are numbers. A label such as "stream 7" or "Traces" stays text.
    """

    pid: int | str
    tid: int | str
    process_name: str | None = None
    thread_name: str | None = None
    process_labels: str | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """What was lost or bent while reading, and where.

    `code` is a health code (`truncated`, `malformed_events`, `bad_timestamp`, `mixed_writers`, …);
    `count` how many events; `first_byte` the offset in the (decompressed) text of the first, `None` where
    unknown; `bytes` how much text was given up.
    """

    code: str
    count: int
    detail: str
    first_byte: int | None = None
    bytes: int = 0
    is_cut: bool = False
    """The events behind that byte are missing. Profilers write host rows first and device rows last, in no
    order of time: nobody knows which steps they are of."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One trace file (or one member of an archive) in columns."""

    name: str
    spans: Spans
    correlations: Correlations
    ops: Ops
    python: Python
    gpu: Gpu
    comms: Comms
    syncs: Syncs
    instants: Instants
    memory: Memory
    flows: Flows
    names: list[str]
    cats: list[str]
    texts: list[str]
    tracks: list[Track]
    metadata: Mapping[str, Any]
    """Top-level keys of the file other than the events."""
    anchor: str
    """`base`: baseTimeNanoseconds was added; `epoch`: `ts` were wall time already; `none`."""
    losses: tuple[Loss, ...] = ()
    num_events: int = 0
    """Events of every phase that were kept."""
    num_bytes: int = 0
    """Size of the file on disk."""
    sha256: str | None = None
    native: bool = False
