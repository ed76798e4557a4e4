"""A memory snapshot in columns: what the allocator holds, and what it did before.

Equally long NumPy arrays, times in int64 nanoseconds since the epoch, sizes in bytes. An absent number is
`ABSENT_I64`, an absent stack -1; neither leaves this module's users as a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import ABSENT_I64, I32, I64

I8 = npt.NDArray[np.int8]


class State(IntEnum):
    """What a block is."""

    ACTIVE = 0
    PENDING = 1
    """Freed by its owner, and another stream may still use it."""
    FREE = 2


class Action(IntEnum):
    """What an entry of the history did."""

    ALLOC = 0
    FREE = 1
    """Really freed: a request to free waits for other streams first."""
    SEGMENT_ALLOC = 2
    SEGMENT_FREE = 3
    SEGMENT_MAP = 4
    SEGMENT_UNMAP = 5
    OOM = 6


@dataclass(frozen=True, slots=True)
class Segments:
    """What was asked of the driver."""

    address: I64
    bytes: I64
    device: I32
    is_expandable: npt.NDArray[np.bool_]
    stream: I64
    """Whose requests it serves; absent where not recorded."""
    is_private: npt.NDArray[np.bool_]
    """Whether it is of a pool of its own (a CUDA graph's, a `MemPool`'s)."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """What segments are divided into. `segment` points into the segments, `stack` into the stacks."""

    address: I64
    bytes: I64
    requested_bytes: I64
    state: I8
    segment: I32
    stack: I32


@dataclass(frozen=True, slots=True)
class History:
    """Entries in the order in which they happened, device by device.

    `bytes` is what was asked for; `device_free_bytes` what the driver reported free at a failure; `stream`
    whose request it was, absent where not recorded.
    """

    device: I32
    action: I8
    address: I64
    bytes: I64
    device_free_bytes: I64
    ts_ns: I64
    stack: I32
    stream: I64


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot. `stacks` are frames as `file:line function`, innermost first."""

    name: str
    segments: Segments
    blocks: Blocks
    history: History
    stacks: tuple[tuple[str, ...], ...]
    settings: Mapping[str, str]
    """The allocator's settings, as texts."""
    num_odd: int = 0
    """Entries that could not be understood and were left out."""

    @property
    def num_entries(self) -> int:
        """Blocks and entries of the history."""
        return len(self.blocks.address) + len(self.history.action)

    @property
    def times_ns(self) -> tuple[int, ...]:
        """The first and the last time of the history; empty where it has none."""
        known = self.history.ts_ns[self.history.ts_ns != ABSENT_I64]
        return (int(known.min()), int(known.max())) if len(known) else ()
