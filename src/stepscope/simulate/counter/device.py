"""A device's own state on the grid: how active, how hot, how fast, how full, with what power and errors.

Activity is what the rank's kernels, copies and exchanges did (`meter`); the rest follows from it and from
what its plans say of clocks, limits and neighbours. A ratio is per cycle of the clock that the device had.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.simulate.config import START_NS
from stepscope.simulate.counter.meter import BIN_NS, EXCHANGE_BLOCKS, EXCHANGE_WARPS, F64, I64
from stepscope.simulate.counter.timeline import LOADED_NS, STARTED_NS, Draw, Timeline
from stepscope.simulate.gpu import FULL_POWER_SHARE, IDLE_POWER_SHARE, POWER_OF_CLOCK, Gpu
from stepscope.simulate.memory import Footprint, footprint

BIN_S = BIN_NS / 1e9
IDLE_MHZ, IDLE_MEMORY_MHZ = 345, 1593
CLOCK_STEP_MHZ = 15
"""Clocks come in steps of that."""
IDLE_REASON = 0x1
# What each activity adds to the dynamic power, in units of what large matrix products draw: those come to
# about 1, kernels that stream memory to 0.6, an exchange that spins to 0.16. Public measurements of boards
# under such loads lie there: 90 %, 55–60 % and 20–25 % of the limit.
POWER_WEIGHTS = {"busy": 0.14, "sm_active": 0.10, "dram": 0.42, "tensor": 1.09, "fp32": 0.60}
AMBIENT_CELSIUS, RISE_CELSIUS = 31.0, 42.0
"""Of the air, and of a chip at its power limit above it."""
THERMAL_NS, DRIVEN_NS = 18e9, 6e9
"""Time constants: of a heat sink, and of one whose cooling has failed."""
LEAD_NS = 25_000_000_000
"""A device that will throttle is getting hot for so long before."""
CONTROL_BYTES = 12e6
"""Bytes per second and direction over PCIe beside any copy: launches, events, statistics."""
FOREIGN = {"sm_active": 0.95, "occupancy": 0.25, "tensor": 0.55, "dram": 0.25, "fp32": 0.03, "integer": 0.06}
"""What another process's kernels do while they have the device: matrix products."""
FOREIGN_MEMORY_SHARE = 0.18
MEMORY_TEMPERATURE_ABOVE = 6.0


COUNTED = (
    "energy_total", "throttled_power_total", "throttled_thermal_total", "throttled_application_total",
    "link_errors_total", "ecc_errors_total",
)  # fmt: skip
HELD = ("temperature", "remapped", "leaked", "unused")
"""What a device keeps from one stretch of its time to the next: what it has counted, and what it was last."""


@dataclass(frozen=True, slots=True)
class State:
    """One device, an array a quantity, all on the timeline's grid.

    Ratios 0..1; rates per second; `reasons` bits; counters (`…_total`) at the end of each bin.
    """

    rank: int
    gpu: Gpu
    of: dict[str, F64]
    footprint: Footprint
    last: dict[str, float]
    """What goes on after it: `COUNTED` without rounding, and `HELD`."""


def state_of(timeline: Timeline, rank: int, before: State | None = None) -> State:
    """The device of a rank; `before` is its state in the stretch of time that ends where this one begins."""
    config = timeline.cluster.config
    gpu, draw = config.device, timeline.draw(22, rank)
    since = {} if before is None else before.last
    of = _activity(timeline, rank, gpu)
    is_on = (timeline.middle_ns >= START_NS - STARTED_NS) & (timeline.middle_ns < timeline.stop_ns)
    # Locks and limits are set by people, and are there without steps too.
    now, always = timeline.planned(rank, "reasons", 0.0), timeline.held(rank, "reasons")
    is_set = np.isin(always, (0.0, 0x2))
    clock = np.where(is_set, timeline.held(rank, "clock"), timeline.planned(rank, "clock", 1.0))
    reasons: I64 = np.where(is_set, always, now).astype(np.int64)
    limit = timeline.held(rank, "power_limit")
    of["sm_mhz"] = _clock(gpu, clock, reasons, is_on, draw)
    of["memory_mhz"] = np.where(is_on, float(gpu.memory_mhz), float(min(gpu.memory_mhz, IDLE_MEMORY_MHZ)))
    of["reasons"] = np.where(is_on, reasons, IDLE_REASON).astype(np.float64)
    of["tensor"] = np.clip(of["tensor"] / clock, 0.0, 1.0)
    _with_foreign(of, timeline.planned(rank, "foreign", 0.0))
    of["power"] = _power(gpu, of, clock, limit, draw)
    of["limit"] = gpu.tdp_watts * limit
    of["temperature"] = _temperature(timeline, rank, gpu, of["power"], draw, since.get("temperature"))
    of["memory_temperature"] = of["temperature"] + MEMORY_TEMPERATURE_ABOVE
    at_start = float(draw.uniform(2e8, 4e9))
    counted = {"energy_total": since.get("energy_total", at_start) + np.cumsum(of["power"]) * BIN_S}
    for name, bits in (("power", 0x4), ("thermal", 0x20 | 0x40), ("application", 0x2)):
        is_held = (of["reasons"].astype(np.int64) & bits) > 0
        total = f"throttled_{name}_total"
        counted[total] = since.get(total, 0.0) + BIN_NS * np.cumsum(is_held).astype(np.float64)
    for name in ("link_errors", "ecc_errors"):
        errors = BIN_S * np.cumsum(timeline.planned(rank, f"{name}_per_second", 0.0))
        counted[f"{name}_total"] = since.get(f"{name}_total", 0.0) + errors
    of |= {name: np.floor(values) if "errors" in name else values for name, values in counted.items()}
    held = {"remapped": _highest(timeline, rank, "num_remapped", since.get("remapped", 0.0))}
    of["remapped"] = held["remapped"]
    of["xid"] = np.where(of["remapped"] > 0, 63.0, 0.0)
    best = (gpu.pcie_gen, 16)
    step = timeline.step(rank)
    for name, column in (("pcie_gen", 0), ("pcie_width", 1)):
        values = [float((plan.pcie or best)[column]) for plan in timeline.cluster.plans[rank]]
        of[name] = np.array([*values, best[column]])[step]
    # A link rests at its lowest generation while nothing is on it.
    of["pcie_gen"] = np.where(is_on, of["pcie_gen"], 1.0)
    needs = footprint(config, rank)
    of["foreign_bytes"] = np.where(of["foreign"] > 0, FOREIGN_MEMORY_SHARE * gpu.memory_bytes, 0.0)
    # What was lost or cut up is not given back when the steps end.
    held |= {name: _highest(timeline, rank, name, since.get(name, 0.0)) for name in ("leaked", "unused")}
    lost = (held["leaked"], held["unused"])
    of["own_bytes"] = _used(timeline, rank, gpu, needs, of["foreign_bytes"], lost, draw)
    of["used_bytes"] = of["own_bytes"] + of["foreign_bytes"]
    held["temperature"] = of["temperature"]
    last = {name: float(values[-1]) for name, values in (counted | held).items()}
    return State(rank, gpu, of, needs, last)


def _highest(timeline: Timeline, rank: int, name: str, before: float) -> F64:
    """The most that a field of the plans has been."""
    found: F64 = np.maximum(np.maximum.accumulate(timeline.planned(rank, name, 0.0)), before)
    return found


def _activity(timeline: Timeline, rank: int, gpu: Gpu) -> dict[str, F64]:
    """Activity as shares of the device's peaks, and bytes per second."""
    of = {name: values.copy() for name, values in timeline.activity(rank).of.items()}
    of["tensor"] = of.pop("tensor_flops") / (gpu.peak_flops * BIN_S)
    of["dram"] = np.clip(of.pop("dram_bytes") / (gpu.memory_peak * BIN_S), 0.0, 0.95)
    for name in ("pcie_rx", "pcie_tx", "link_tx", "link_rx", "rdma_tx", "rdma_rx", "socket_tx", "socket_rx"):
        of[name] = of[name] / BIN_S
    for start, end in timeline.spins(rank):
        first, inside = timeline.covered(start, end)
        spin = slice(first, first + len(inside))
        of["busy"][spin] = np.maximum(of["busy"][spin], inside)
        sm = min(EXCHANGE_BLOCKS / gpu.num_sm, 1.0)
        of["sm_active"][spin] = np.maximum(of["sm_active"][spin], sm * inside)
        warps = EXCHANGE_BLOCKS * EXCHANGE_WARPS / (gpu.num_sm * gpu.warps_per_sm)
        of["occupancy"][spin] = np.maximum(of["occupancy"][spin], warps * inside)
    for way in ("pcie_rx", "pcie_tx"):
        of[way] = of[way] + CONTROL_BYTES * of["busy"]
    return of


def _with_foreign(of: dict[str, F64], taken: F64) -> None:
    """Another process has the device for a share of our time, and whenever we leave it."""
    theirs = np.where(taken > 0, (1 - of["busy"]) + of["busy"] * taken, 0.0)
    for name in ("sm_active", "occupancy", "fp32", "integer"):
        of[name] = of[name] * (1 - taken) + FOREIGN[name] * theirs
    for name in ("tensor", "dram"):  # ours are spread over a longer time already
        of[name] = np.clip(of[name] + FOREIGN[name] * theirs, 0.0, 0.95)
    of["busy"] = np.where(taken > 0, 1.0, of["busy"])
    of["foreign"] = theirs


def _clock(gpu: Gpu, clock: F64, reasons: I64, is_on: npt.NDArray[np.bool_], draw: Draw) -> F64:
    """Megahertz. A device that is held by heat or power hunts around its mean; a locked one does not."""
    spread = np.where((reasons & (0x4 | 0x20 | 0x40)) > 0, 0.02, 0.0)
    hunts = clock * (1 + spread * draw.standard_normal(len(clock)))
    steps = np.rint(gpu.sm_mhz * hunts / CLOCK_STEP_MHZ) * CLOCK_STEP_MHZ
    shown: F64 = np.where(is_on, np.clip(steps, IDLE_MHZ, gpu.sm_mhz), float(IDLE_MHZ))
    return shown


def _power(gpu: Gpu, of: dict[str, F64], clock: F64, limit: F64, draw: Draw) -> F64:
    """Watts of the board."""
    load = sum((of[name] * weight for name, weight in POWER_WEIGHTS.items()), np.zeros(len(clock)))
    dynamic = (FULL_POWER_SHARE - IDLE_POWER_SHARE) * clock**POWER_OF_CLOCK * load
    share = gpu.idle_watts / gpu.tdp_watts + dynamic
    # A driver that must lower the clock gives all that the limit allows whenever there is work for it.
    is_held = (limit < 1) & (load > 0.45)
    share = np.where(is_held, limit * 0.975, np.minimum(share, limit))
    watts: F64 = gpu.tdp_watts * np.minimum(
        share * (1 + 0.01 * draw.standard_normal(len(share))), limit * 1.01
    )
    return watts


def _temperature(
    timeline: Timeline, rank: int, gpu: Gpu, power: F64, draw: Draw, before: float | None
) -> F64:
    """Degrees: a first-order lag behind the power, or behind where a fault drives it."""
    driven = timeline.planned(rank, "celsius", np.nan)
    driven = np.minimum(driven, gpu.slowdown_celsius - 1.0)
    lead = int(LEAD_NS // BIN_NS)
    for at in np.flatnonzero(~np.isnan(driven[1:]) & np.isnan(driven[:-1])) + 1:
        driven[max(at - lead, 0) : at] = driven[at]
    own = AMBIENT_CELSIUS + float(draw.uniform(0, 4)) + RISE_CELSIUS * power / gpu.tdp_watts
    wanted = np.where(np.isnan(driven), own, driven)
    rate = np.where(np.isnan(driven), BIN_NS / THERMAL_NS, BIN_NS / DRIVEN_NS)
    # Before the recording the device was as warm as its first second asks for.
    now, found = float(wanted[0]) if before is None else before, []
    for target, share in zip(wanted.tolist(), rate.tolist(), strict=True):
        now += (target - now) * share
        found.append(now)
    return np.array(found)


def _used(
    timeline: Timeline, rank: int, gpu: Gpu, needs: Footprint, theirs: F64, lost: tuple[F64, F64], draw: Draw
) -> F64:
    """Bytes that the rank's process uses."""
    at = timeline.middle_ns
    is_on = (at >= START_NS - STARTED_NS) & (at < timeline.stop_ns)
    used = np.where(is_on, float(needs.context_bytes), 0.0)
    used += np.where(is_on & (at >= START_NS - LOADED_NS), float(needs.state_bytes), 0.0)
    used += np.where(is_on & (at >= START_NS), float(needs.activation_bytes), 0.0)
    free = max(gpu.memory_bytes - needs.total_bytes, 0)
    leaked, unused = lost
    is_cut = timeline.planned(rank, "unused", 0.0) > 0
    wobble = np.where(is_cut, 1 - 0.06 * draw.random(len(at)), 1.0)
    used += np.where(is_on, np.minimum(leaked + unused * wobble, 1.0) * free, 0.0)
    total: F64 = np.minimum(used, gpu.memory_bytes - theirs)
    return total
