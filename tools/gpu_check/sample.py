"""Reads the device's counters beside the work: GPM where the device has it, else NVML's basic values.

The driver's module is an argument (`pynvml`, or anything with its functions), and so are the clocks. Values
are kept in the units of `stepscope.model.signal`; what the driver does not give is not in the reading.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stepscope.sources.nvml_field import CALLS, GPM

PERIOD_NS = 100_000_000
"""The floor of GPM: two samples nearer to each other give no values."""
PROCESS_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Reading:
    """One look. Values of `ratios` average over the `window_ns` before `wall_ns`; `values` are of the
    instant, or over the driver's own window. `mono_ns` is the same moment by CLOCK_MONOTONIC, `took_ns` how
    long the look took."""

    wall_ns: int
    mono_ns: int
    took_ns: int
    window_ns: int | None
    ratios: Mapping[str, float]
    values: Mapping[str, float]
    processes: tuple[tuple[int, int | None], ...] | None = None
    """(pid, bytes or `None`) of each process on the device; `None` where it was not asked."""


class Device:
    """One device by the driver's module. `reads_gpm` says which of the two it is."""

    def __init__(self, nvml: Any, handle: Any, wall: Callable[[], int], mono: Callable[[], int]) -> None:
        self.nvml, self.handle, self.wall, self.mono = nvml, handle, wall, mono
        self.reads_gpm = self._has_gpm()
        self._samples = [nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()] if self.reads_gpm else []
        self._before_ns: int | None = None
        self._asked_ns: int | None = None

    def _has_gpm(self) -> bool:
        try:
            return bool(self.nvml.nvmlGpmQueryDeviceSupport(self.handle).isSupportedDevice)
        except (self.nvml.NVMLError, AttributeError):  # a driver or a binding that knows nothing of it
            return False

    def name(self) -> str:
        """The model, as the driver prints it."""
        return _text(self.nvml.nvmlDeviceGetName(self.handle))

    def uuid(self) -> str:
        """`GPU-…`."""
        return _text(self.nvml.nvmlDeviceGetUUID(self.handle))

    def driver(self) -> str:
        """The driver's version."""
        return _text(self.nvml.nvmlSystemGetDriverVersion())

    def read(self) -> Reading:
        """One look at all there is. The first has no ratios: they need a window."""
        before_wall, before_mono = self.wall(), self.mono()
        window_ns, ratios = self._gpm(before_mono)
        sampled_ns = self.mono()
        moment = (sampled_ns - before_mono) // 2
        values = self._basics()
        processes = None
        if self._asked_ns is None or before_mono - self._asked_ns >= PROCESS_NS:
            self._asked_ns = before_mono
            processes = self.processes()
        return Reading(
            before_wall + moment, before_mono + moment, self.mono() - before_mono,
            window_ns, ratios, values, processes,
        )  # fmt: skip

    def processes(self) -> tuple[tuple[int, int | None], ...] | None:
        """(pid, bytes) of each process that computes on the device; `None` where the driver does not say."""
        try:
            found = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        except self.nvml.NVMLError:
            return None
        return tuple((int(each.pid), each.usedGpuMemory or None) for each in found)

    def _gpm(self, now_ns: int) -> tuple[int | None, dict[str, float]]:
        if not self.reads_gpm:
            return None, {}
        if self._before_ns is not None and now_ns - self._before_ns < PERIOD_NS:
            return None, {}
        nvml = self.nvml
        older, newer = self._samples
        nvml.nvmlGpmSampleGet(self.handle, newer)
        before, self._before_ns = self._before_ns, now_ns
        self._samples = [newer, older]
        if before is None:
            return None, {}
        asked = nvml.c_nvmlGpmMetricsGet_t()
        asked.version = nvml.NVML_GPM_METRICS_GET_VERSION
        asked.numMetrics = len(GPM)
        asked.sample1, asked.sample2 = older, newer
        for place, row in enumerate(GPM.values()):
            asked.metrics[place].metricId = row.id
        nvml.nvmlGpmMetricsGet(asked)
        found = {}
        for place, row in enumerate(GPM.values()):
            metric = asked.metrics[place]
            if metric.nvmlReturn == nvml.NVML_SUCCESS and metric.value == metric.value:
                found[row.field.signal] = metric.value * row.field.factor
        return now_ns - before, found

    def _basics(self) -> dict[str, float]:
        found = {}
        for call, of in BASICS.items():
            field = CALLS[call]
            try:
                found[field.signal] = float(of(self.nvml, self.handle)) * field.factor
            except (self.nvml.NVMLError, AttributeError):
                continue
        return found

    def end(self) -> None:
        """Give the samples back."""
        for each in self._samples:
            self.nvml.nvmlGpmSampleFree(each)
        self._samples = []


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


BASICS: dict[str, Callable[[Any, Any], Any]] = {
    "nvmlDeviceGetUtilizationRates.gpu": lambda n, h: n.nvmlDeviceGetUtilizationRates(h).gpu,
    "nvmlDeviceGetUtilizationRates.memory": lambda n, h: n.nvmlDeviceGetUtilizationRates(h).memory,
    "nvmlDeviceGetMemoryInfo_v2.used": lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).used,
    "nvmlDeviceGetMemoryInfo_v2.free": lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).free,
    "nvmlDeviceGetMemoryInfo_v2.reserved": lambda n, h: (
        n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).reserved
    ),
    "nvmlDeviceGetMemoryInfo_v2.total": lambda n, h: n.nvmlDeviceGetMemoryInfo(h, n.nvmlMemory_v2).total,
    "nvmlDeviceGetPowerUsage": lambda n, h: n.nvmlDeviceGetPowerUsage(h),
    "nvmlDeviceGetEnforcedPowerLimit": lambda n, h: n.nvmlDeviceGetEnforcedPowerLimit(h),
    "nvmlDeviceGetTemperature": lambda n, h: n.nvmlDeviceGetTemperature(h, n.NVML_TEMPERATURE_GPU),
    "nvmlDeviceGetClockInfo.sm": lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_SM),
    "nvmlDeviceGetClockInfo.memory": lambda n, h: n.nvmlDeviceGetClockInfo(h, n.NVML_CLOCK_MEM),
    "nvmlDeviceGetMaxClockInfo.sm": lambda n, h: n.nvmlDeviceGetMaxClockInfo(h, n.NVML_CLOCK_SM),
    "nvmlDeviceGetCurrentClocksEventReasons": lambda n, h: n.nvmlDeviceGetCurrentClocksEventReasons(h),
    "nvmlDeviceGetCurrPcieLinkGeneration": lambda n, h: n.nvmlDeviceGetCurrPcieLinkGeneration(h),
    "nvmlDeviceGetCurrPcieLinkWidth": lambda n, h: n.nvmlDeviceGetCurrPcieLinkWidth(h),
}
"""PCIe throughput is not among them: it blocks for 20 ms a direction. GPM has it for nothing."""
