"""What is kept of one rank's trace for the join with its peers: small tables, NumPy arrays.

A rank is read in a process of its own, and only this travels back: a few kilobytes a step whatever the size
of the trace. Times are nanoseconds on the rank's own clock until `stepscope.align` has corrected them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import NOTHING, Intervals
from stepscope.model.report import IDLE_CAUSES
from stepscope.model.trace import I32, I64

SEGMENT_PARTS = ("compute", "communication", "copy", *IDLE_CAUSES)
"""What the time before a collective consists of: columns of `CollectiveTable.segment`."""


@dataclass(frozen=True, slots=True)
class CollectiveTable:
    """Communication of one rank: a row a kernel (of a run without a device, a row a host operation), by
    start.

    Ids point into `PeerTable.texts`, -1 where nothing was recorded. `sequence`, `src`, `dst` are `ABSENT_I64`
    and `bytes`, `group_size` 0 where not recorded. `step` is the number of the step that issued it, -1 for
    none. `exposed_ns` is its own time that no computation hides.

    `segment` (rows, parts) splits the time from the end of the collective before it, whatever its stream, to
    its own start into `SEGMENT_PARTS`: what its rank did instead of arriving. All zero for the first one, and
    where the one before is still running.
    """

    kind_id: I32
    group_id: I32
    ranks_id: I32
    sequence: I64
    bytes: I64
    dtype_id: I32
    group_size: I64
    src: I64
    dst: I64
    device: I32
    stream: I64
    start_ns: I64
    end_ns: I64
    step: I64
    exposed_ns: I64
    segment: I64
    num_kernels: I64
    """Compute kernels that began in the segment."""

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def duration_ns(self) -> I64:
        """Length of each."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class StepTable:
    """Steps of one rank that are counted or marked, by start: `window` is the one that the accounting
    uses."""

    number: I64
    start_ns: I64
    end_ns: I64
    window_start_ns: I64
    window_end_ns: I64
    is_counted: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.number)


@dataclass(frozen=True, slots=True)
class KernelTable:
    """Compute kernels of the steps in scope by name, grid and block, the longest in sum first.

    `key` is the same on every rank for the same kernel of the same shape; `name_id` points into
    `PeerTable.texts`.
    """

    key: I64
    name_id: I32
    count: I64
    total_ns: I64

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, slots=True)
class Strip:
    """What a device did over its whole trace in equal cells: the part that took most of each, as a place in
    `MAP_PARTS`, -1 where nothing was recorded."""

    start_ns: int
    cell_ns: int
    cells: npt.NDArray[np.int8]


MAP_PARTS = ("compute", "wait", "communication", "copy", *IDLE_CAUSES)


@dataclass(frozen=True, slots=True)
class PeerTable:
    """One (rank, device) as its peers see it."""

    rank: int | None
    world_size: int | None
    device: int | None
    """`None` for the host of a run without a device."""
    host: str | None
    """A name for the machine it ran on, `None` where the trace does not tell. It is only compared."""
    anchor: str
    """As `Trace.anchor`: ranks without one share no axis until collectives give it."""
    texts: tuple[str, ...]
    collectives: CollectiveTable
    steps: StepTable
    kernels: KernelTable
    hidden: Intervals = NOTHING
    """When computation ran beside communication."""
    culprits: Mapping[str, str] = field(default_factory=dict)
    """Idle cause without `_ns` -> what ran on the host for most of it."""
    link_bytes_per_second: float | None = None
    """One direction of the device's link, `None` where the device is not in our table."""
    strip: Strip | None = None
    program: object | None = None
    """What `stepscope.analyse.replay` plays, parallel to the collectives; opaque here."""
    clock: str | None = None
    """A name for the clock that its times are exactly of, whoever took them; `None` where that is not known:
    then its collectives tell."""
    numbers: Mapping[str, float] = field(default_factory=dict)
