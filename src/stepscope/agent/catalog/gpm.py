"""GPM of Hopper and newer: how busy multiprocessors, tensor cores, memory and links were, over exactly the
time between two looks.

Two samples at least 100 ms apart; calls one at a time; each metric has an answer of its own. The clock is
read before and after each sample, and its middle is the sample's time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.agent.context import Context
from stepscope.agent.device import DeviceKey
from stepscope.agent.nvml import REASON, Driver, Handle
from stepscope.agent.possible import is_possible
from stepscope.agent.source import Kind, NotHere, Reading, Sample, Source
from stepscope.model.signal import SIGNALS
from stepscope.sources.nvml_field import GPM

LEAST_NS = 100_000_000
"""The driver's own refresh: closer samples give zeros."""


@dataclass(slots=True)
class _Pair:
    """Two samples of a device, the older of which is used for the next; `at_*` are of the newest."""

    old: Any
    new: Any
    at_mono_ns: int
    at_real_ns: int


class GpmSource:
    """Every device and MIG instance that has GPM."""

    name = "gpm"

    def __init__(self, context: Context, driver: Driver) -> None:
        self._context, self._driver = context, driver
        self._pairs: dict[DeviceKey, _Pair] = {}
        self._has: dict[DeviceKey, bool] = {}
        self._generation = 0
        self._asked: Any = None

    def read(self) -> Sequence[Reading]:
        driver = self._driver
        readings: dict[int, Reading] = {}
        with driver.pass_() as handles:
            if self._generation != driver.generation:
                self._generation = driver.generation
                kept = {each.device.key for each in handles}
                self._pairs = {key: pair for key, pair in self._pairs.items() if key in kept}
                self._has = {}
            mine = [each for each in handles if self._has_gpm(each)]
            for handle in mine:
                self._device(handle, readings)
        if not mine:
            raise NotHere("no device has GPM (Hopper and newer have)")
        return list(readings.values())

    def close(self) -> None:
        self._pairs.clear()

    def _has_gpm(self, handle: Handle) -> bool:
        key = handle.device.key
        if key not in self._has:
            nvml, whole = self._driver.library, handle.parent if handle.is_instance else handle.raw
            said = self._driver.call(
                handle, "nvmlGpmQueryDeviceSupport", lambda: nvml.nvmlGpmQueryDeviceSupport(whole)
            )
            self._has[key] = said is not None and bool(said.isSupportedDevice)
        return self._has[key]

    def _device(self, handle: Handle, readings: dict[int, Reading]) -> None:
        clock, key = self._context.clock, handle.device.key
        pair = self._pairs.get(key)
        if pair is not None and clock.mono_ns() - pair.at_mono_ns < LEAST_NS:
            return
        if pair is None:
            nvml = self._driver.library
            both = [
                self._driver.call(handle, "nvmlGpmSampleAlloc", nvml.nvmlGpmSampleAlloc) for _ in range(2)
            ]
            if None in both:
                return
            pair, is_first = _Pair(both[0], both[1], 0, 0), True
        else:
            is_first = False
        before_mono, before_real = clock.mono_ns(), clock.real_ns()
        if not self._sample(handle, pair.old):
            self._pairs.pop(key, None)
            return
        at_mono = (before_mono + clock.mono_ns()) // 2
        at_real = (before_real + clock.real_ns()) // 2
        window_ns = at_mono - pair.at_mono_ns
        self._pairs[key] = _Pair(pair.new, pair.old, at_mono, at_real)
        if is_first:
            return
        # devices are read one after another: those whose windows are alike share a reading
        reading = readings.setdefault(
            window_ns // 10_000_000, Reading(at_real, window_ns=window_ns, lag_ns=0)
        )
        self._metrics(handle, pair.new, pair.old, at_real, reading)

    def _sample(self, handle: Handle, into: Any) -> bool:
        nvml = self._driver.library

        def ask() -> bool:
            if handle.is_instance:
                nvml.nvmlGpmMigSampleGet(handle.parent, handle.instance, into)
            else:
                nvml.nvmlGpmSampleGet(handle.raw, into)
            return True

        return self._driver.call(handle, "nvmlGpmSampleGet", ask) is not None

    def _metrics(self, handle: Handle, first: Any, second: Any, at_ns: int, reading: Reading) -> None:
        nvml = self._driver.library
        if self._asked is None:
            self._asked = nvml.c_nvmlGpmMetricsGet_t()  # 19 kB: made once
        asked = self._asked
        ids = [
            number
            for number, row in GPM.items()
            if not (handle.is_instance and SIGNALS[row.field.signal].is_whole_device)
            and _key(number) not in handle.silent
        ]
        if not ids:
            return
        asked.version, asked.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, len(ids)
        asked.sample1, asked.sample2 = first, second
        for place, number in enumerate(ids):
            asked.metrics[place].metricId = number
        if self._driver.call(handle, "nvmlGpmMetricsGet", lambda: nvml.nvmlGpmMetricsGet(asked)) is None:
            reading.missing["nvmlGpmMetricsGet", handle.silent.get("nvmlGpmMetricsGet", "blank")] += 1
            return
        for place, number in enumerate(ids):
            said, row = asked.metrics[place], GPM[number]
            if said.nvmlReturn:
                why = REASON.get(said.nvmlReturn, "blank")
                reading.missing[row.name, why] += 1
                if why != "blank":
                    handle.silent[_key(number)] = why
                continue
            value = said.value * row.field.factor
            if is_possible(row.field.signal, value):
                reading.samples.append(Sample(handle.owner, row.field.signal, value, (), at_ns))
            else:
                reading.missing[row.name, "out_of_range"] += 1


def _key(number: int) -> str:
    return f"gpm.{number}"


def _make(context: Context) -> Sequence[Source]:
    driver = context.driver()
    return [GpmSource(context, driver)] if driver is not None else []


SOURCE = Kind(
    name="gpm",
    title="NVIDIA GPM",
    gives="SM, tensor, pipe, memory, PCIe and NVLink activity of Hopper and newer, over exactly the time "
    "between two looks",
    make=_make,
    least_ns=LEAST_NS,
)
