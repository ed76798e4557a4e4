"""Activities of one device as its streams hold them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64

NO_WORK = -(2**60)
"""When a stream was free that had no work before."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Activities of one device in order of (stream, start). `launch_ns` counts where `has_launch`.

    `stream` numbers streams from 0, `label` (streams,) are the numbers that they were recorded with;
    `free_ns` (streams,) is when earlier work of each ended, `NO_WORK` for none; `is_first` marks the first
    activity of its launch.
    """

    stream: I64
    start_ns: I64
    end_ns: I64
    launch_ns: I64
    has_launch: npt.NDArray[np.bool_]
    part: I32
    is_first: npt.NDArray[np.bool_]
    free_ns: I64
    label: I64

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def opens(self) -> npt.NDArray[np.bool_]:
        """The first of each stream."""
        first = np.ones(len(self), dtype=bool)
        first[1:] = self.stream[1:] != self.stream[:-1]
        return first

    @property
    def issued_ns(self) -> I64:
        """When each was launched, or else began."""
        return np.where(self.has_launch, self.launch_ns, self.start_ns)

    def before_ns(self) -> I64:
        """When the activity before each on its stream ended."""
        before = np.empty(len(self), dtype=np.int64)
        before[1:] = self.end_ns[:-1]
        opens = self.opens
        before[opens] = self.free_ns[self.stream[opens]]
        return before
