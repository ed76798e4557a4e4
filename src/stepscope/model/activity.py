"""What a device did, in equal cells of time: the trace's side of the join with telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stepscope.model.sample import F64
from stepscope.model.trace import I64

ACTIVITY_PARTS = (
    "busy",  # any compute or communication kernel resident: what NVML's utilisation counts
    "compute",
    "communication",
    "copy",
    "matrix",  # products, convolutions, attention: what the clock of the multiprocessors bounds
    "idle_input",  # idle.input
)
"""Columns of `Activity.parts`: nanoseconds in the cell."""


@dataclass(frozen=True, slots=True)
class Activity:
    """One device over its trace. Cell `n` is `[start_ns + n·cell_ns, start_ns + (n + 1)·cell_ns)`, on the
    trace's own wall clock. `parts` maps names of `ACTIVITY_PARTS` to a column; one that the trace cannot tell
    is absent. `estimated_occupancy` is the trace's own estimate weighted over kernels, `None` without one.
    """

    start_ns: int
    cell_ns: int
    parts: Mapping[str, F64] = field(default_factory=dict)
    estimated_occupancy: float | None = None
    step_start_ns: I64 | None = None
    """Device windows of counted steps, as in the accounting; `None` without steps."""
    step_end_ns: I64 | None = None
    step_number: I64 | None = None

    @property
    def end_ns(self) -> int:
        """End of the last cell."""
        num = max((len(column) for column in self.parts.values()), default=0)
        return self.start_ns + num * self.cell_ns
