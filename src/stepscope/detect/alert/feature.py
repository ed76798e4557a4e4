"""Numbers that level conditions look at: columns over devices, one second after another, NaN where unknown.

What needs the recent past (shares of ten seconds, means of five minutes, growth) is kept here in rings.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stepscope.detect.seen.column import wider
from stepscope.detect.seen.second import PLACE, Flags, Second
from stepscope.model.sample import F64
from stepscope.model.signal import POWER_BRAKE_REASON, POWER_CAP_REASON, THERMAL_REASONS
from stepscope.model.trace import I64

LOAD = 0.5
"""Busy for so much of the second: a clock or a link that is low at idle is meant to be."""
SLOWED = 0.97
"""Of the highest clock: below it the clock is lowered. Clocks hunt by 1 to 2 %."""
LOCKED = 0.95
CAPPED = 0.97
"""Of the limit as shipped."""
SHORT, MINUTE, LONG = 10, 60, 300
LEAST_SHORT, LEAST_LONG = 8, 240
"""Known seconds in the ring below which it says nothing."""
HIGH, LOW, PART = 0.70, 0.10, 0.05
"""Saw-tooth: p95 at or above HIGH and p5 below LOW, which is a twentieth of the seconds on either side."""
SLOTS, SLOT_S = 8, 10
"""Eighty seconds of memory, by tens of seconds."""
RISING = 6
"""Of seven differences."""
FAST_S, SLOW_S = 60.0, 1800.0
LEAST_SLOW_S = 600
"""Seconds of work after which the slow mean says what is usual."""
REMAPS = ("row_remap_correctable_total", "row_remap_uncorrectable_total")
LINKS = ("nvlink_error_total", "pcie_replay_total")


class Features:
    """`look` takes a second and gives the columns; `grown` is by how much counters grew in it, over all
    devices: 0 where a counter was seen first, or began anew."""

    def __init__(self) -> None:
        self._size = 0
        self._counter: F64 = np.empty((len(PLACE), 0))
        self._ring: dict[str, F64] = {}
        self._mean: dict[str, F64] = {}
        self._most: dict[str, F64] = {}
        self.grown: dict[str, F64] = {}
        self.fit(16)

    def look(self, second: Second, has_steady_work: Flags) -> Mapping[str, F64]:
        """Features by name. `has_steady_work` (devices,): its job's steps advance, outside of evaluation,
        checkpoint and start-up."""
        self.fit(second.value.shape[1])
        rows, at = second.rows, second.second
        self.grown = {name: self._growth(second, name) for name in COUNTED}
        busy, memory = second.of("compute_busy_ratio"), _memory(second)
        lowered, why = _lowered(second), self._why(second)
        with np.errstate(invalid="ignore"):
            margin = second.of("slowdown_temperature_celsius") - second.of("temperature_celsius")
        links = self.grown["nvlink_error_total"] + self.grown["pcie_replay_total"]
        is_counted = ~np.isnan(second.of("nvlink_error_total")) | ~np.isnan(second.of("pcie_replay_total"))
        return {
            "memory_used_ratio": memory,
            "memory_growth_ratio": self._growing(rows, at, memory, has_steady_work),
            "temperature_margin_celsius": margin,
            "temperature_celsius": second.of("temperature_celsius"),
            "thermal_slowdown_share": self._share("thermal", rows, at, _both(lowered, why["thermal"])),
            "power_brake_share": self._share("brake", rows, at, _both(lowered, why["brake"])),
            "power_cap_share": self._share("cap", rows, at, _both(lowered, why["cap"])),
            "clock_lock_share": self._share("lock", rows, at, _locked(second, why["any"])),
            "row_remap_pending": second.of("row_remap_pending"),
            "row_remap_failed": second.of("row_remap_failed"),
            "pcie_share": self._pcie(second),
            "link_errors_per_minute": np.where(is_counted, self._sum("links", rows, at, links), np.nan),
            "compute_busy_ratio": busy,
            "compute_busy_mean_ratio": self._average(rows, at, busy),
            "saw_tooth": self._saw_tooth(rows, at, busy, has_steady_work),
            "busy_power_fall_ratio": self._fall(rows, busy, second.of("power_watts")),
        }

    def clear(self, rows: I64) -> None:
        """These devices are new, or another job's now: nothing of before counts."""
        for ring in self._ring.values():
            ring[:, rows] = np.nan
        for mean in self._mean.values():
            mean[rows] = np.nan
        self._counter[:, rows] = np.nan

    # ── counters ──

    def _growth(self, second: Second, name: str) -> F64:
        place, rows = PLACE[name], second.rows
        fresh = second.is_fresh[place][rows]
        new, old = second.value[place][rows], self._counter[place][rows]
        grown = np.zeros(self._size)
        with np.errstate(invalid="ignore"):
            is_more = fresh & (new > old)  # of the first value `old` is NaN; after a reset it is less
        grown[rows] = np.where(is_more, new - old, 0.0)
        self._counter[place, rows] = np.where(fresh, new, old)
        return grown

    def _why(self, second: Second) -> dict[str, F64]:
        """Whether a reason of a kind is set: 1, 0, NaN where nothing tells."""
        mask = second.of("clock_event_reasons")
        bits = np.where(np.isnan(mask), 0, mask).astype(np.int64)

        def set_(wanted: int) -> F64:
            return np.where(np.isnan(mask), np.nan, ((bits & wanted) != 0).astype(np.float64))

        throttled = second.of("throttle_thermal_seconds_total")
        counted = np.where(np.isnan(throttled), np.nan, self.grown["throttle_thermal_seconds_total"] > 0.1)
        limit = second.of("power_limit_watts")
        # Where nobody tells what was shipped, the highest that was seen is the least that it can be.
        shipped = np.fmax(second.of("power_limit_default_watts"), self._highest("power_limit_watts", second))
        with np.errstate(invalid="ignore"):
            is_less = np.where(np.isnan(limit + shipped), np.nan, limit < CAPPED * shipped)
        return {
            "thermal": np.fmax(set_(THERMAL_REASONS), counted),
            "brake": set_(POWER_BRAKE_REASON),
            "cap": _both(set_(POWER_CAP_REASON), is_less),
            "any": set_(THERMAL_REASONS | POWER_BRAKE_REASON | POWER_CAP_REASON | 0x8),
        }

    def _highest(self, name: str, second: Second) -> F64:
        """The highest that was ever seen of a device."""
        rows = second.rows
        most = self._most.setdefault(name, np.full(self._size, np.nan))
        most[rows] = np.fmax(most[rows], second.of(name)[rows])
        return most

    def _pcie(self, second: Second) -> F64:
        """Share of its own speed; 1 while it is not under load, NaN where the link is not told."""
        gen, width = second.of("pcie_link_gen"), second.of("pcie_link_width")
        most_gen = np.fmax(second.of("pcie_link_gen_max"), self._highest("pcie_link_gen", second))
        most_width = np.fmax(second.of("pcie_link_width_max"), self._highest("pcie_link_width", second))
        busy = second.of("compute_busy_ratio")
        with np.errstate(invalid="ignore", divide="ignore"):
            share = width / most_width * 2.0 ** (gen - most_gen)
            shown = np.where(np.isnan(busy), np.nan, np.where(busy >= LOAD, share, 1.0))
        return np.where(np.isnan(share), np.nan, shown)

    # ── rings ──

    def _write(self, name: str, length: int, rows: I64, at: I64, values: F64) -> F64:
        """The ring (length, devices) with these devices' seconds in it."""
        ring = self._ring.get(name)
        if ring is None:
            ring = self._ring[name] = np.full((length, self._size), np.nan)
        ring[at % length, rows] = values[rows]
        return ring

    def _share(self, name: str, rows: I64, at: I64, is_so: F64) -> F64:
        """Mean over the last 10 s, of those that are known."""
        ring = self._write(name, SHORT, rows, at, is_so)
        return _mean(ring, LEAST_SHORT)

    def _sum(self, name: str, rows: I64, at: I64, values: F64) -> F64:
        found: F64 = np.nansum(self._write(name, MINUTE, rows, at, values), axis=0)
        return found

    def _average(self, rows: I64, at: I64, busy: F64) -> F64:
        return _mean(self._write("busy", LONG, rows, at, busy), LEAST_LONG)

    def _saw_tooth(self, rows: I64, at: I64, busy: F64, is_steady: Flags) -> F64:
        ring = self._write("steady", LONG, rows, at, np.where(is_steady, busy, np.nan))
        known = (~np.isnan(ring)).sum(axis=0)
        with np.errstate(invalid="ignore"):
            high, low = (ring >= HIGH).sum(axis=0), (ring < LOW).sum(axis=0)
        is_so = (high >= PART * known) & (low >= PART * known)
        return np.where(known >= LEAST_LONG, is_so.astype(np.float64), np.nan)

    def _growing(self, rows: I64, at: I64, memory: F64, is_steady: Flags) -> F64:
        """By how much memory grew in eighty seconds, where it did in nearly each ten of them; 0 where it did
        not."""
        length = SLOTS
        ring = self._ring.get("memory")
        if ring is None:
            ring = self._ring["memory"] = np.full((length, self._size), np.nan)
        slot = at // SLOT_S % length
        is_first = at % SLOT_S == 0
        held = np.where(is_first, np.nan, ring[slot, rows])
        ring[slot, rows] = np.fmax(held, np.where(is_steady[rows], memory[rows], np.nan))
        order = (slot[:, None] + 1 + np.arange(length)) % length
        series = ring[order, rows[:, None]]
        steps = np.diff(series, axis=1)
        with np.errstate(invalid="ignore"):
            is_rising = (steps > 0).sum(axis=1) >= RISING
        grown = np.where(is_rising, series[:, -1] - series[:, 0], 0.0)
        found = np.full(self._size, np.nan)
        found[rows] = np.where(np.isnan(series).any(axis=1), np.nan, grown)
        return found

    def _fall(self, rows: I64, busy: F64, power: F64) -> F64:
        """The smaller of how far both fell: mean of a minute against that of half an hour, as a share."""
        age = self._mean.setdefault("age", np.full(self._size, np.nan))
        age[rows] = np.where(np.isnan(busy[rows]), age[rows], np.nan_to_num(age[rows]) + 1)
        falls = [self._fallen(name, rows, x) for name, x in (("busy", busy), ("power", power))]
        both: F64 = np.minimum(*falls)
        return np.where(age >= LEAST_SLOW_S, both, np.nan)

    def _fallen(self, name: str, rows: I64, values: F64) -> F64:
        means = []
        for seconds in (FAST_S, SLOW_S):
            mean = self._mean.setdefault(f"{name}{seconds:g}", np.full(self._size, np.nan))
            old, new = mean[rows], values[rows]
            moved = np.where(np.isnan(old), new, old + (new - old) / seconds)
            mean[rows] = np.where(np.isnan(new), old, moved)
            means.append(np.where(np.isnan(values), np.nan, mean))
        with np.errstate(invalid="ignore", divide="ignore"):
            fallen: F64 = 1.0 - means[0] / means[1]
        return fallen

    def fit(self, size: int) -> None:
        """Make room for so many devices."""
        if size <= self._size:
            return
        self._counter = wider(self._counter, size, np.nan)
        self._ring = {name: wider(ring, size, np.nan) for name, ring in self._ring.items()}
        self._mean = {name: wider(mean, size, np.nan) for name, mean in self._mean.items()}
        self._most = {name: wider(most, size, np.nan) for name, most in self._most.items()}
        self._size = size


COUNTED = ("throttle_thermal_seconds_total", "ecc_uncorrected_total", *REMAPS, *LINKS)


def _mean(ring: F64, least: int) -> F64:
    num = (~np.isnan(ring)).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.nansum(ring, axis=0) / num
    return np.where(num >= least, mean, np.nan)


def _both(one: F64, other: F64) -> F64:
    """1 where both hold, 0 where one is known not to, else NaN."""
    either_not = (one == 0) | (other == 0)
    return np.where(either_not, 0.0, np.where(np.isnan(one + other), np.nan, 1.0))


def _memory(second: Second) -> F64:
    used, free = second.of("memory_used_bytes"), second.of("memory_free_bytes")
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.fmax(used / second.of("memory_total_bytes"), used / (used + free))
    told = second.of("memory_used_ratio")
    return np.where(np.isnan(told), share, told)


def _under_load(second: Second, clock_share: F64, below: float) -> F64:
    busy = second.of("compute_busy_ratio")
    with np.errstate(invalid="ignore"):
        low = np.where(np.isnan(clock_share), np.nan, clock_share < below)
        load = np.where(np.isnan(busy), np.nan, busy >= LOAD)
    return _both(low, load)


def _clock(second: Second) -> F64:
    with np.errstate(invalid="ignore", divide="ignore"):
        share: F64 = second.of("sm_clock_hertz") / second.of("sm_clock_max_hertz")
    return share


def _lowered(second: Second) -> F64:
    return _under_load(second, _clock(second), SLOWED)


def _locked(second: Second, any_reason: F64) -> F64:
    return _both(_under_load(second, _clock(second), LOCKED), 1.0 - any_reason)
