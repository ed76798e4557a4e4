"""What a source would show of what a trace saw: the mean over the window that a reading describes.

A reading at t describes `[t − lag − window, t − lag)`. Means come from cumulated columns, two look-ups each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.activity import Activity
from stepscope.model.sample import F64
from stepscope.model.trace import I64

SOURCE = 0
"""In `Link.windows_ns`: the source's own window, as declared or inferred."""
SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Link:
    """What a signal shows of a trace.

    `parts` are alternatives, the first that the trace has counts; a signal is a sum of its columns, each with
    a gain of its own, and an offset. Gains are not negative unless `is_signed`. Signals of a smaller `tier`
    are asked first, the others where those say nothing.
    """

    parts: tuple[tuple[str, ...], ...]
    windows_ns: tuple[int, ...] = (SOURCE,)
    tier: int = 0
    is_signed: bool = False


_WORK = (("compute", "communication"), ("busy",))
# NVML: "the past sample period … may be between 1 second and 1/6 second, depending on the product".
_NVML_NS = (SOURCE, SECOND_NS, SECOND_NS // 2, SECOND_NS // 6)
# NVML: a mean over one second from Ampere on, instantaneous on GA100 and before (arXiv 2312.02741: 25 to 100
# ms).
_POWER_NS = (SOURCE, SECOND_NS, SECOND_NS // 10)
LINKS: dict[str, Link] = {
    "compute_busy_ratio": Link((("busy",),), _NVML_NS),
    "graphics_engine_active_ratio": Link((("busy",),)),
    "sm_active_ratio": Link(_WORK),
    "tensor_active_ratio": Link((("tensor",), ("compute",))),
    "dram_active_ratio": Link(_WORK),
    "memory_busy_ratio": Link(_WORK, _NVML_NS),
    "pcie_rx_bytes_per_second": Link((("copy_to_device_bytes",),)),
    "pcie_tx_bytes_per_second": Link((("copy_to_host_bytes",),)),
    "pcie_bytes_per_second": Link((("copy_to_device_bytes", "copy_to_host_bytes"),)),
    "nvlink_tx_bytes_per_second": Link((("peer_bytes",), ("communication",))),
    "nvlink_rx_bytes_per_second": Link((("peer_bytes",), ("communication",))),
    "nvlink_bytes_per_second": Link((("peer_bytes",), ("communication",))),
    # The board filters its power and the clock follows load by rules of its own: both lag by themselves.
    "power_watts": Link(_WORK, _POWER_NS, tier=1),
    "sm_clock_hertz": Link((("busy",),), (SECOND_NS // 50,), tier=2, is_signed=True),
}
"""Signal -> what it shows; signals that are not here say nothing of when."""


def columns(activity: Activity, link: Link) -> tuple[str, ...]:
    """The parts of a trace that a signal shows; empty where the trace has none of its alternatives."""
    for parts in link.parts:
        # A trace of one rank has no communication at all: that column says nothing, the other does.
        held = tuple(part for part in parts if part in activity.parts)
        if held:
            return held
    return ()


@dataclass(frozen=True, slots=True)
class Past:
    """One column of a trace, cumulated: `total[n]` is the sum of its cells before `start_ns + n·cell_ns`."""

    start_ns: int
    cell_ns: int
    total: F64

    @property
    def end_ns(self) -> int:
        """End of the last cell."""
        return self.start_ns + (len(self.total) - 1) * self.cell_ns

    def before(self, offset_ns: F64) -> F64:
        """The sum of the column before `start_ns + offset_ns`; inside a cell in proportion."""
        place = np.clip(offset_ns / self.cell_ns, 0, len(self.total) - 1)
        low = np.minimum(place.astype(np.intp), len(self.total) - 2)
        part = place - low
        sums: F64 = self.total[low] * (1.0 - part) + self.total[low + 1] * part
        return sums

    def means(self, end_ns: I64, windows_ns: Sequence[int], lag_ns: I64) -> list[F64]:
        """Mean a nanosecond over `[end − lag − window, end − lag)`, a table for each window: (readings,
        lags).

        NaN (here only, never handed on) where the window is not all within the trace.
        """
        # From the trace's start on: float64 keeps those offsets to the nanosecond, epoch times not.
        high = (end_ns - self.start_ns)[:, None].astype(np.float64) - lag_ns[None, :].astype(np.float64)
        reach = self.before(high)
        is_before_end = high <= self.end_ns - self.start_ns
        tables = []
        for window in windows_ns:
            low = high - window
            mean = (reach - self.before(low)) / window
            tables.append(np.where(is_before_end & (low >= 0), mean, np.nan))
        return tables


def past(activity: Activity, part: str) -> Past:
    """One column of a trace, cumulated."""
    return Past(activity.start_ns, activity.cell_ns, np.append(0.0, np.cumsum(activity.parts[part])))


def predicted(activity: Activity, part: str, at_ns: I64, lag_ns: int, window_ns: int) -> np.ma.MaskedArray[
    tuple[int], np.dtype[np.float64]
]:  # fmt: skip
    """What readings at `at_ns` would show of a part: a ratio, or bytes a second; masked outside the trace."""
    mean = past(activity, part).means(at_ns, [window_ns], np.array([lag_ns], dtype=np.int64))[0][:, 0]
    scale = 1e9 if part.endswith("_bytes") else 1.0
    return np.ma.masked_invalid(mean * scale)


def activity_of_steps(step_start_ns: I64, step_end_ns: I64, cell_ns: int = 10_000_000) -> Activity | None:
    """What step marks alone say: busy inside a step, nothing between steps; `None` without steps.

    Steps that follow one another without a pause give a steady line, from which no lag follows.
    """
    if not len(step_start_ns):
        return None
    start, end = int(step_start_ns[0]), int(step_end_ns.max())
    num = -(-(end - start) // cell_ns)
    edges = start + cell_ns * np.arange(num + 1, dtype=np.int64)
    covered = _covered_before(step_start_ns, step_end_ns, edges)
    return Activity(
        start_ns=start,
        cell_ns=cell_ns,
        parts={"busy": np.diff(covered)},
        step_start_ns=step_start_ns,
        step_end_ns=step_end_ns,
    )


def _covered_before(start: I64, end: I64, at: I64) -> npt.NDArray[np.float64]:
    """How much of sorted, disjoint intervals lies before each instant."""
    total = np.append(0, np.cumsum(end - start))
    index = np.searchsorted(start, at, side="right")
    over = np.where(index > 0, np.maximum(end[np.maximum(index - 1, 0)] - at, 0), 0)
    return (total[index] - over).astype(np.float64)
