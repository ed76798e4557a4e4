"""One second of devices: which signals are kept, whose a device is, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from stepscope.model import signal
from stepscope.model.batch import BatchOwner
from stepscope.model.sample import F64
from stepscope.model.trace import I64

Flags = npt.NDArray[np.bool_]
NS = 1_000_000_000

GAUGES = (
    "compute_busy_ratio", "sm_active_ratio", "tensor_active_ratio", "dram_active_ratio", "power_watts",
    "memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes", "memory_used_ratio",
    "temperature_celsius", "sm_clock_hertz",
    "clock_event_reasons", "pcie_link_gen", "pcie_link_width", "row_remap_pending", "row_remap_failed",
)  # fmt: skip
FIXED = (
    "memory_total_bytes", "power_limit_watts", "power_limit_default_watts", "slowdown_temperature_celsius",
    "sm_clock_max_hertz", "pcie_link_gen_max", "pcie_link_width_max",
)  # fmt: skip
COUNTERS = (
    "throttle_thermal_seconds_total", "ecc_uncorrected_total", "row_remap_correctable_total",
    "row_remap_uncorrectable_total", "nvlink_error_total", "pcie_replay_total", "xid",
)  # fmt: skip
SIGNALS = (*GAUGES, *FIXED, *COUNTERS)
PLACE: Mapping[str, int] = {name: place for place, name in enumerate(SIGNALS)}
_BOUNDS = tuple((signal.SIGNALS[name].least, signal.SIGNALS[name].most) for name in SIGNALS)
LEAST = tuple(-inf if least is None else least for least, _ in _BOUNDS)
MOST = tuple(inf if most is None else most for _, most in _BOUNDS)
"""What can be of each: beyond it a sample is none."""
FIRST_FIXED, FIRST_COUNTER = len(GAUGES), len(GAUGES) + len(FIXED)


@dataclass(frozen=True, slots=True)
class Whose:
    """Whose device it is now: `None` where samples do not say. `host` is where it is."""

    job: str | None = None
    run: str | None = None
    rank: int | None = None
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Second:
    """One second of every device that moved on. `rows` are theirs, `second` the second of each (they differ
    between hosts), `value` (signals, all devices) what is known, `is_fresh` (signals, all devices) whether it
    was measured in this very second."""

    rows: I64
    second: I64
    value: F64
    is_fresh: Flags

    def of(self, signal: str) -> F64:
        """A column over all devices."""
        found: F64 = self.value[PLACE[signal]]
        return found


def device_key(owner: BatchOwner, host: str) -> str:
    """As in `model.alarm.About.devices`."""
    own = owner.uuid or f"{owner.host or host}:{owner.index if owner.index is not None else owner.pci_bus_id}"
    return f"{own}/{owner.mig}" if owner.mig is not None else own
