"""Numbers of one device, from its counters alone. What was not measured is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from stepscope.analyse.telemetry.table import Rows, Samples
from stepscope.model.hardware import Hardware, hardware_of
from stepscope.model.sample import F64
from stepscope.model.signal import POWER_BRAKE_REASON, POWER_CAP_REASON, THERMAL_REASONS
from stepscope.model.trace import I64

LOADED = 0.5
"""A device that is busy for half of a reading's window is under load: its clocks and links can be judged."""
LEAST_ROWS = 3
"""Fewer readings under load are too few for a share."""
QUIET = 0.05
"""Busy for less is hardly busy (the specification's alarm: a five-minute mean under 5 %)."""
FIVE_MINUTES_NS = 300 * 1_000_000_000
ALIKE = 1e-9
"""Means that differ by less are one: sums of floats are not exact."""
HELD_SHARE = 0.2
"""Of the most memory in use: with less a job is starting, or over."""

_MEANS = {
    "compute_busy_mean": ("compute_busy_ratio", "graphics_engine_active_ratio"),
    "sm_active_mean": ("sm_active_ratio",),
    "sm_occupancy_mean": ("sm_occupancy_ratio",),
    "tensor_active_mean": ("tensor_active_ratio",),
    "dram_active_mean": ("dram_active_ratio",),
    "fp32_active_mean": ("fp32_active_ratio",),
    "memory_busy_mean": ("memory_busy_ratio",),
}
"""Number -> the signals that give it, the best first."""


def numbers(samples: Samples, rows: Rows, run: Rows | None = None) -> dict[str, float]:
    """Everything that the readings `rows` of one device say, by feature's name. What shows over time alone
    (growth of memory, quiet minutes, counts of errors) is of the readings `run`; `None`: of the same."""
    chosen, whole = samples.take(rows), samples.take(rows if run is None else run)
    if not len(chosen):
        return {}
    hardware = hardware_of(samples.owner.model)
    found: dict[str, float] = {"telemetry_samples": float(len(chosen))}
    for name, signals in _MEANS.items():
        found |= _mean(name, chosen.column(*signals))
    for part in (_power, _clocks, _temperature, _links):
        found |= part(chosen, hardware)
    for part in (_busy, _memory, _health):
        found |= part(whole, hardware)
    return {name: value for name, value in found.items() if np.isfinite(value)}


def busy(samples: Samples) -> F64:
    """How busy each reading was: kernels resident, by the best signal there is."""
    return samples.column("compute_busy_ratio", "graphics_engine_active_ratio", "sm_active_ratio")


def loaded(samples: Samples) -> Rows:
    """The readings under load; without any signal of load, those with more than idle power."""
    value = busy(samples)
    if np.isnan(value).all():
        power = samples.column("power_watts")
        if np.isnan(power).all():
            return np.zeros(len(samples), dtype=bool)
        low, high = np.nanpercentile(power, (5, 95))
        # Power that hardly varies may be that of rest as well as that of load.
        return np.asarray((power > (low + high) / 2) & (high > 1.3 * low), dtype=bool)
    with np.errstate(invalid="ignore"):
        return np.asarray(value >= LOADED, dtype=bool)


def _mean(name: str, column: F64) -> dict[str, float]:
    known = column[~np.isnan(column)]
    return {name: float(known.mean())} if len(known) else {}


def _share(name: str, column: F64, holds: Callable[[F64], Rows]) -> dict[str, float]:
    known = column[~np.isnan(column)]
    return {name: float(holds(known).mean())} if len(known) >= LEAST_ROWS else {}


def _busy(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    column = busy(s)
    known = ~np.isnan(column)
    value = column[known]
    if len(value) >= LEAST_ROWS:
        low, high = np.percentile(value, (5, 95))
        found |= {"compute_busy_p5": float(low), "compute_busy_p95": float(high)}
        found["compute_busy_quiet_share"] = float((value < QUIET).mean())
        found["compute_busy_five_minutes"] = _least_mean(s.at_ns[known], value)[0]
    active = s.column("sm_active_ratio")
    active = active[~np.isnan(active)]
    if len(active) >= LEAST_ROWS:
        low, high = np.percentile(active, (5, 95))
        found["sm_active_swing"] = float(high - low) / 2
    occupancy = s.column("sm_occupancy_ratio")
    both = ~np.isnan(occupancy) & ~np.isnan(s.column("sm_active_ratio"))
    with np.errstate(invalid="ignore"):
        both &= s.column("sm_active_ratio") > QUIET
    if both.any():
        found["occupancy_while_active"] = float(
            occupancy[both].sum() / s.column("sm_active_ratio")[both].sum()
        )
    return found


def least_five_minutes(samples: Samples, rows: Rows) -> Rows:
    """Of these readings those of the five minutes in which the device was used least, the last where several
    are alike; all where they are fewer, or use is not measured."""
    value = busy(samples)
    known = np.flatnonzero(rows & ~np.isnan(value))
    if not len(known):
        return rows
    _, first, past = _least_mean(samples.at_ns[known], value[known])
    found = np.zeros(len(samples), dtype=bool)
    found[known[first:past]] = True
    return found


def _least_mean(at_ns: I64, value: F64) -> tuple[float, int, int]:
    """The least mean over any five minutes, over all where they are fewer; with its first reading and the
    one past its last."""
    if len(value) < 2 or at_ns[-1] - at_ns[0] < FIVE_MINUTES_NS:
        return float(value.mean()), 0, len(value)
    summed = np.concatenate(([0.0], np.cumsum(value)))
    last = np.searchsorted(at_ns, at_ns + FIVE_MINUTES_NS, side="left")
    first = np.flatnonzero(at_ns + FIVE_MINUTES_NS <= at_ns[-1] + 1)
    mean = (summed[last[first]] - summed[first]) / np.maximum(last[first] - first, 1)
    chosen = first[np.flatnonzero(mean <= mean.min() + ALIKE)[-1]]
    return float(mean.min()), int(chosen), int(last[chosen])


def _power(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    power = s.column("power_watts")
    known = power[~np.isnan(power)]
    if not len(known):
        return found
    found["power_watts_mean"] = float(known.mean())
    limit = s.column("power_limit_watts")
    limits = limit[~np.isnan(limit)]
    rated = hardware.tdp_watts if hardware is not None else None
    most = float(np.median(limits)) if len(limits) else rated
    if most:
        # A limit may change while the job runs: each reading has its own.
        own = np.where(np.isnan(limit), most, limit)[~np.isnan(power)]
        found["power_limit_share"] = float((known / np.maximum(own, 1.0)).mean())
        under = power[loaded(s) & ~np.isnan(power)]
        if len(under) >= LEAST_ROWS:
            found["power_limit_share_loaded"] = float(np.median(under)) / most
    if len(limits) and rated:
        found["power_limit_rated_share"] = float(np.median(limits)) / rated
    return found


def memory_present(s: Samples) -> float | None:
    """Device memory present, bytes: as stated, else as the parts sum up to; `None` where neither is known."""
    total = s.column("memory_total_bytes")
    if not np.isnan(total).all():
        return float(np.nanmax(total))
    used, free = s.column("memory_used_bytes"), s.column("memory_free_bytes")
    both = ~np.isnan(used) & ~np.isnan(free)
    if not both.any():
        return None
    reserved = s.column("memory_reserved_bytes")
    kept = float(np.nanmax(reserved)) if not np.isnan(reserved).all() else 0.0
    return float(np.median((used + free)[both])) + kept


def _memory(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    used = s.column("memory_used_bytes")
    known = ~np.isnan(used)
    present = memory_present(s)
    if known.any() and present:
        found["memory_used_share"] = float(used[known].max()) / present
        if not _is_at_rest(s):
            found |= _growth(used[known] / present)
    elif s.has("memory_used_ratio"):
        share = s.column("memory_used_ratio")
        found["memory_used_share"] = float(np.nanmax(share))
        found |= _growth(share[~np.isnan(share)])
    if known.any():
        found["memory_used_bytes_max"] = float(used[known].max())
    return found


def _is_at_rest(s: Samples) -> bool:
    """Whether the device never works: then what fills its memory is a job that starts."""
    value = busy(s)
    return bool((~np.isnan(value)).any()) and float(np.nanmax(value)) < 2 * QUIET


def with_reference(s: Samples, hertz: float | None) -> Samples:
    """The samples with the highest clock that devices of its model were seen at, where none is stated."""
    if hertz is None or s.has("sm_clock_max_hertz") or not s.has("sm_clock_hertz"):
        return s
    column = np.full(len(s), hertz)
    return replace(s, columns={**s.columns, "sm_clock_max_hertz": column})


def _growth(share: F64) -> dict[str, float]:
    """How much memory in use grew, and how steadily: the share of tenths that are fuller than the one
    before. Jumps: the largest rise between two neighbouring readings. Before a job has its memory, and after
    it gave it back, is another matter."""
    held = np.flatnonzero(share >= HELD_SHARE * share.max(initial=0.0))
    share = share[held[0] : held[-1] + 1] if len(held) else share
    if len(share) < 20:
        return {}
    tenths = [float(np.median(part)) for part in np.array_split(share, 10)]
    rises = np.diff(tenths)
    return {
        "memory_growth_share": tenths[-1] - tenths[0],
        "memory_growth_steadiness": float((rises > 1e-4).mean()),
        # What the first steps allocate is no jump.
        "memory_jump_share": float(np.diff(share[len(share) // 10 :]).max(initial=0.0)),
    }


def _reason_share(s: Samples, bits: int, counters: tuple[str, ...], under: Rows) -> float | None:
    """Share of the time under load with one of these clock event reasons: by the driver's own time counters
    where they are read, which miss nothing, else by the bits as sampled; `None` where neither is."""
    shares = []
    for name in counters:
        rate = s.column(name)
        known = under & ~np.isnan(rate)
        if known.sum() >= LEAST_ROWS:
            shares.append(min(float(rate[known].mean()), 1.0))
    mask = s.column("clock_event_reasons")
    known = under & ~np.isnan(mask)
    if known.sum() >= LEAST_ROWS:
        shares.append(float(((mask[known].astype(np.int64) & bits) != 0).mean()))
    return max(shares) if shares else None


_REASONS: Mapping[str, tuple[int, tuple[str, ...]]] = {
    "thermal_throttled_share": (
        THERMAL_REASONS,
        (
            "throttle_thermal_seconds_total",
            "throttle_hardware_thermal_seconds_total",
            "throttle_software_thermal_seconds_total",
        ),
    ),
    "power_capped_share": (POWER_CAP_REASON, ("throttle_power_seconds_total",)),
    "power_braked_share": (POWER_BRAKE_REASON, ("throttle_hardware_power_brake_seconds_total",)),
    "application_clock_share": (0x2, ()),
}


def _clocks(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    under = loaded(s)
    for name, (bits, counters) in _REASONS.items():
        share = _reason_share(s, bits, counters, under)
        if share is not None:
            found[name] = share
    clock = s.column("sm_clock_hertz")
    known = under & ~np.isnan(clock)
    if known.sum() < LEAST_ROWS:
        return found
    value = clock[known]
    most = s.column("sm_clock_max_hertz")
    stated = float(np.nanmax(most)) if not np.isnan(most).all() else None
    middle = float(np.median(value))
    if stated:
        found["sm_clock_share"] = middle / stated
        found["clock_loss_share"] = max(0.0, 1.0 - float(value.mean()) / stated)
    low, high = np.percentile(value, (5, 95))
    found["clock_spread_share"] = float(high - low) / middle if middle else float("nan")
    found |= _dropped(s, known, clock, stated)
    return found


def _dropped(s: Samples, known: Rows, clock: F64, stated: float | None) -> dict[str, float]:
    """How far the clock under load falls while a thermal, power or brake reason is set, against the load
    without one, else against the highest clock; and how it ramps after rest."""
    found: dict[str, float] = {}
    mask = s.column("clock_event_reasons")
    told = known & ~np.isnan(mask)
    reasons = THERMAL_REASONS | POWER_BRAKE_REASON | POWER_CAP_REASON | 0x8
    held = np.zeros(len(s), dtype=bool)
    held[told] = (mask[told].astype(np.int64) & reasons) != 0
    free = told & ~held
    reference = float(np.median(clock[free])) if free.sum() >= LEAST_ROWS else stated
    if held.sum() >= LEAST_ROWS and reference:
        found["clock_drop_share"] = max(0.0, 1.0 - float(np.median(clock[held])) / reference)
    value = busy(s)
    with np.errstate(invalid="ignore"):
        rested = np.flatnonzero(known[1:] & (value[:-1] < QUIET)) + 1
    if len(rested) >= LEAST_ROWS:
        steady = np.median(clock[known])
        found["clock_ramp_share"] = max(0.0, 1.0 - float(np.median(clock[rested])) / float(steady))
    return found


def _temperature(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    value = s.column("temperature_celsius")
    if np.isnan(value).all():
        return found
    found["temperature_celsius_max"] = float(np.nanmax(value))
    limit = s.column("slowdown_temperature_celsius")
    if not np.isnan(limit).all():
        found["temperature_margin_celsius"] = float(np.nanmin(limit)) - found["temperature_celsius_max"]
    return found


def _links(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, sent, received, both, rate in (
        (
            "nvlink",
            "nvlink_tx_bytes_per_second",
            "nvlink_rx_bytes_per_second",
            "nvlink_bytes_per_second",
            hardware.link_bytes_per_second if hardware else None,
        ),
        (
            "pcie",
            "pcie_tx_bytes_per_second",
            "pcie_rx_bytes_per_second",
            "pcie_bytes_per_second",
            hardware.pcie_bytes_per_second if hardware else None,
        ),
    ):
        one = np.fmax(s.column(sent), s.column(received))
        if np.isnan(one).all():
            one = s.column(both) / 2
        known = one[~np.isnan(one)]
        if not len(known):
            continue
        found[f"{name}_bytes_per_second_mean"] = float(known.mean())
        if rate:
            found[f"{name}_link_share"] = float(known.mean()) / rate
            found[f"{name}_peak_link_share"] = float(known.max()) / rate
    from_host = s.column("pcie_rx_bytes_per_second")
    known = from_host[~np.isnan(from_host)]
    if len(known) and hardware and hardware.pcie_bytes_per_second:
        found["pcie_receive_link_share"] = float(known.mean()) / hardware.pcie_bytes_per_second
    return found | _bus(s)


def _bus(s: Samples) -> dict[str, float]:
    """Generations and lanes of PCIe that are missing under load, as a share of the rate that there could be:
    each generation doubles it."""
    under = loaded(s)
    gen, gen_max = s.column("pcie_link_gen"), s.column("pcie_link_gen_max")
    width, width_max = s.column("pcie_link_width"), s.column("pcie_link_width_max")
    lost = 0.0
    is_known = False
    for now, most, weight in ((gen, gen_max, 1.0), (width, width_max, 0.0)):
        known = under & ~np.isnan(now) & ~np.isnan(most)
        if known.sum() >= LEAST_ROWS:
            is_known = True
            have, could = float(np.median(now[known])), float(np.median(most[known]))
            lost += (could - have) if weight else (np.log2(could / have) if have > 0 and could > 0 else 0.0)
    return {"pcie_rate_lost_share": 1.0 - 2.0 ** -max(lost, 0.0)} if is_known else {}


def _health(s: Samples, hardware: Hardware | None) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, signal in (
        ("nvlink_errors_grown", "nvlink_error_total"),
        ("pcie_replays_grown", "pcie_replay_total"),
        ("ecc_uncorrected_grown", "ecc_uncorrected_total"),
        ("ecc_corrected_grown", "ecc_corrected_total"),
    ):
        if signal in s.grown:
            found[name] = s.grown[signal]
    remapped = [s.last[n] for n in _REMAPPED if n in s.last]
    if remapped:
        found["rows_remapped"] = float(sum(remapped))
    for name in ("row_remap_pending", "row_remap_failed"):
        column = s.column(name)
        if not np.isnan(column).all():
            found[name] = float(np.nanmax(column))
    return found


_REMAPPED = ("row_remap_correctable_total", "row_remap_uncorrectable_total")
