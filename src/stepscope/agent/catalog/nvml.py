"""NVML's basics: utilisation, memory, power, clocks, temperature, throttling, PCIe, and who computes where.

One pass a device. What a device does not support is asked once. PCIe throughput blocks for 40 ms a device and
is a source of its own; sharper counters are GPM's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.agent.context import Context
from stepscope.agent.device import DeviceKey
from stepscope.agent.meter import Meter
from stepscope.agent.nvml import Driver, Handle
from stepscope.agent.nvml_call import BASICS
from stepscope.agent.possible import is_possible
from stepscope.agent.source import Kind, NotHere, Reading, Sample, Source
from stepscope.model.sample import Owner
from stepscope.sources.nvml_field import CALLS, NVLINK_KIB

FIXED_NS = 60_000_000_000
"""How often limits and the like are asked."""
ALL_LINKS = 0xFFFFFFFF
"""`scopeId` of the sum over links."""
_NOT_AVAILABLE = (1 << 64) - 1


class NvmlSource:
    """Every device and MIG instance, one after another."""

    name = "nvml"

    def __init__(self, context: Context, driver: Driver) -> None:
        self._context, self._driver = context, driver
        self._fixed_mono_ns: dict[DeviceKey, int] = {}
        self._meter = Meter()
        self._generation = 0

    def read(self) -> Sequence[Reading]:
        clock, driver = self._context.clock, self._driver
        reading = Reading(clock.real_ns())
        pids: dict[DeviceKey, frozenset[int]] = {}
        with driver.pass_() as handles:
            if self._generation != driver.generation:
                self._generation, self._fixed_mono_ns = driver.generation, {}
            for handle in handles:
                self._device(handle, reading)
                pids[handle.device.key] = self._processes(handle, reading)
        reading.events += driver.events()
        if not driver.handles:
            raise NotHere("the driver has no device")
        self._context.devices.put_pids(pids)
        self._meter.forget_unseen()
        return [reading]

    def close(self) -> None:
        self._driver.close()

    def _device(self, handle: Handle, reading: Reading) -> None:
        """Its values are of the middle of its own pass."""
        clock, driver, nvml = self._context.clock, self._driver, self._driver.library
        began_ns = clock.real_ns()
        now = clock.mono_ns()
        asks_fixed = now - self._fixed_mono_ns.get(handle.device.key, -FIXED_NS) >= FIXED_NS
        if asks_fixed:
            self._fixed_mono_ns[handle.device.key] = now
        found: list[tuple[str, float]] = []
        for call in BASICS:
            if handle.is_lost:
                break
            if (call.is_fixed and not asks_fixed) or (handle.is_instance and not call.is_of_instance):
                continue
            answer = driver.call(handle, call.name, call.ask, nvml, handle.raw)
            if answer is None:
                reading.missing[call.name, handle.silent.get(call.name, "blank")] += 1
                continue
            for row, number in answer:
                field = CALLS[row]
                value = number * field.factor
                if is_possible(field.signal, value):
                    found.append((field.signal, value))
                else:
                    reading.missing[row, "out_of_range"] += 1
        if not handle.is_instance:
            found += self._links(handle, now)
        at_ns = (began_ns + clock.real_ns()) // 2
        reading.samples += [Sample(handle.owner, signal, value, (), at_ns) for signal, value in found]

    def _links(self, handle: Handle, mono_ns: int) -> list[tuple[str, float]]:
        """NVLink's bytes, which are counted in KiB since the driver was loaded."""
        nvml, name = self._driver.library, "nvmlDeviceGetFieldValues.nvlink"
        if handle.is_lost:
            return []

        def ask() -> list[tuple[int, int]]:
            asked = [(number, ALL_LINKS) for number in NVLINK_KIB]
            said = nvml.nvmlDeviceGetFieldValues(handle.raw, asked)
            return [(each.fieldId, each.value.ullVal) for each in said if each.nvmlReturn == 0]

        answer = self._driver.call(handle, name, ask)
        if answer == []:
            handle.silent[name] = "not_supported"
        found = []
        for number, kib in answer or ():
            rate = self._meter.rate((handle.device.key, number), kib * 1024.0, mono_ns)
            if rate is not None:
                found.append((NVLINK_KIB[number], rate))
        return found

    def _processes(self, handle: Handle, reading: Reading) -> frozenset[int]:
        if handle.is_lost:
            return frozenset()
        nvml = self._driver.library
        said: list[Any] | None = self._driver.call(
            handle,
            "nvmlDeviceGetComputeRunningProcesses",
            nvml.nvmlDeviceGetComputeRunningProcesses,
            handle.raw,
        )
        owner = handle.owner
        for each in said or ():
            used = each.usedGpuMemory
            if used is not None and used != _NOT_AVAILABLE:
                whose = Owner("process", owner.uuid, owner.mig, owner.index, host=owner.host, pid=each.pid)
                reading.samples.append(Sample(whose, "process_memory_bytes", float(used)))
        return frozenset(each.pid for each in said or ())


def _make(context: Context) -> Sequence[Source]:
    driver = context.driver()
    return [NvmlSource(context, driver)] if driver is not None else []


SOURCE = Kind(
    name="nvml",
    title="NVIDIA driver (NVML)",
    gives="utilisation, memory, power, clocks, temperature, throttling, links of each device; processes",
    make=_make,
)
