"""Calls of NVML: how each is asked and which rows of `sources.nvml_field.CALLS` it answers. A table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Answer = list[tuple[str, float]]


class Call(NamedTuple):
    """`ask(library, handle)` gives (row of `CALLS`, number) pairs. `is_fixed`: asked once a minute. Of a MIG
    instance only what `is_of_instance` says is asked."""

    name: str
    ask: Callable[[Any, Any], Answer]
    is_fixed: bool = False
    is_of_instance: bool = False


def _one(name: str, *, is_fixed: bool = False) -> Call:
    return Call(name, lambda nvml, handle: [(name, float(getattr(nvml, name)(handle)))], is_fixed)


def _utilization(nvml: Any, handle: Any) -> Answer:
    said = nvml.nvmlDeviceGetUtilizationRates(handle)
    name = "nvmlDeviceGetUtilizationRates"
    return [(f"{name}.gpu", float(said.gpu)), (f"{name}.memory", float(said.memory))]


def _busy(name: str) -> Call:
    return Call(name, lambda nvml, handle: [(name, float(getattr(nvml, name)(handle)[0]))])


def _memory(nvml: Any, handle: Any) -> Answer:
    said = nvml.nvmlDeviceGetMemoryInfo(handle, nvml.nvmlMemory_v2)
    return [
        (f"nvmlDeviceGetMemoryInfo_v2.{part}", float(getattr(said, part)))
        for part in ("used", "free", "reserved", "total")
    ]


def _clock(name: str, *, is_fixed: bool = False) -> Call:
    def ask(nvml: Any, handle: Any) -> Answer:
        call = getattr(nvml, name)
        return [
            (f"{name}.sm", float(call(handle, nvml.NVML_CLOCK_SM))),
            (f"{name}.memory", float(call(handle, nvml.NVML_CLOCK_MEM))),
        ]

    return Call(name, ask, is_fixed)


def _temperature(nvml: Any, handle: Any) -> Answer:
    name = "nvmlDeviceGetTemperature"
    return [(name, float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)))]


def _threshold(part: str, constant: str) -> Call:
    name = f"nvmlDeviceGetTemperatureThreshold.{part}"

    def ask(nvml: Any, handle: Any) -> Answer:
        return [(name, float(nvml.nvmlDeviceGetTemperatureThreshold(handle, getattr(nvml, constant))))]

    return Call(name, ask, is_fixed=True)


def _violation(part: str, constant: str) -> Call:
    name = f"nvmlDeviceGetViolationStatus.{part}"

    def ask(nvml: Any, handle: Any) -> Answer:
        said = nvml.nvmlDeviceGetViolationStatus(handle, getattr(nvml, constant))
        return [(name, float(said.violationTime))]

    return Call(name, ask)


BASICS: tuple[Call, ...] = (
    Call("nvmlDeviceGetUtilizationRates", _utilization),
    _busy("nvmlDeviceGetEncoderUtilization"),
    _busy("nvmlDeviceGetDecoderUtilization"),
    Call("nvmlDeviceGetMemoryInfo_v2", _memory, is_of_instance=True),
    _one("nvmlDeviceGetPowerUsage"),
    _one("nvmlDeviceGetEnforcedPowerLimit"),
    _one("nvmlDeviceGetTotalEnergyConsumption"),
    Call("nvmlDeviceGetTemperature", _temperature),
    _clock("nvmlDeviceGetClockInfo"),
    _one("nvmlDeviceGetCurrentClocksEventReasons"),
    _one("nvmlDeviceGetPerformanceState"),
    _violation("power", "NVML_PERF_POLICY_POWER"),
    _violation("thermal", "NVML_PERF_POLICY_THERMAL"),
    _violation("sync_boost", "NVML_PERF_POLICY_SYNC_BOOST"),
    _violation("board_limit", "NVML_PERF_POLICY_BOARD_LIMIT"),
    _violation("low_utilization", "NVML_PERF_POLICY_LOW_UTILIZATION"),
    _violation("reliability", "NVML_PERF_POLICY_RELIABILITY"),
    _one("nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("nvmlDeviceGetCurrPcieLinkWidth"),
    _one("nvmlDeviceGetPcieReplayCounter"),
    # ── once a minute ──
    _one("nvmlDeviceGetPowerManagementDefaultLimit", is_fixed=True),
    _threshold("slowdown", "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN"),
    _threshold("shutdown", "NVML_TEMPERATURE_THRESHOLD_SHUTDOWN"),
    _clock("nvmlDeviceGetMaxClockInfo", is_fixed=True),
    _one("nvmlDeviceGetMaxPcieLinkGeneration", is_fixed=True),
    _one("nvmlDeviceGetMaxPcieLinkWidth", is_fixed=True),
)
