"""NVML's fields and GPM's metrics by id: what they are and in which unit. For whoever reads the driver
itself.

GPM is per cent of 0–100 and MiB/s (`nvmlGpmMetricId_t`), the average over exactly the time between two
samples.
"""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.sources.field import MEBI, MEGA, MILLI, NANO, PERCENT, Field


@dataclass(frozen=True, slots=True)
class GpmMetric:
    """`name` is the constant without `NVML_GPM_METRIC_`; `dcgm` the field of the same meaning."""

    id: int
    name: str
    field: Field
    dcgm: int | None = None


GPM: dict[int, GpmMetric] = {
    row.id: row
    for row in (
        GpmMetric(1, "GRAPHICS_UTIL", Field("graphics_engine_active_ratio", PERCENT), 1001),
        GpmMetric(2, "SM_UTIL", Field("sm_active_ratio", PERCENT), 1002),
        GpmMetric(3, "SM_OCCUPANCY", Field("sm_occupancy_ratio", PERCENT), 1003),
        GpmMetric(4, "INTEGER_UTIL", Field("int_active_ratio", PERCENT), 1016),
        GpmMetric(5, "ANY_TENSOR_UTIL", Field("tensor_active_ratio", PERCENT), 1004),
        GpmMetric(6, "DFMA_TENSOR_UTIL", Field("tensor_fp64_active_ratio", PERCENT), 1015),
        GpmMetric(7, "HMMA_TENSOR_UTIL", Field("tensor_fp16_active_ratio", PERCENT), 1014),
        GpmMetric(9, "IMMA_TENSOR_UTIL", Field("tensor_int8_active_ratio", PERCENT), 1013),
        GpmMetric(10, "DRAM_BW_UTIL", Field("dram_active_ratio", PERCENT), 1005),
        GpmMetric(11, "FP64_UTIL", Field("fp64_active_ratio", PERCENT), 1006),
        GpmMetric(12, "FP32_UTIL", Field("fp32_active_ratio", PERCENT), 1007),
        GpmMetric(13, "FP16_UTIL", Field("fp16_active_ratio", PERCENT), 1008),
        GpmMetric(20, "PCIE_TX_PER_SEC", Field("pcie_tx_bytes_per_second", MEBI), 1009),
        GpmMetric(21, "PCIE_RX_PER_SEC", Field("pcie_rx_bytes_per_second", MEBI), 1010),
        GpmMetric(60, "NVLINK_TOTAL_RX_PER_SEC", Field("nvlink_rx_bytes_per_second", MEBI), 1012),
        GpmMetric(61, "NVLINK_TOTAL_TX_PER_SEC", Field("nvlink_tx_bytes_per_second", MEBI), 1011),
    )
}
"""NVLink has RX first, PCIe TX: the ids, not the order, tell."""

CALLS: dict[str, Field] = {
    "nvmlDeviceGetUtilizationRates.gpu": Field("compute_busy_ratio", PERCENT),
    "nvmlDeviceGetUtilizationRates.memory": Field("memory_busy_ratio", PERCENT),
    "nvmlDeviceGetEncoderUtilization": Field("encoder_busy_ratio", PERCENT),
    "nvmlDeviceGetDecoderUtilization": Field("decoder_busy_ratio", PERCENT),
    "nvmlDeviceGetMemoryInfo_v2.used": Field("memory_used_bytes"),
    "nvmlDeviceGetMemoryInfo_v2.free": Field("memory_free_bytes"),
    "nvmlDeviceGetMemoryInfo_v2.reserved": Field("memory_reserved_bytes"),
    "nvmlDeviceGetMemoryInfo_v2.total": Field("memory_total_bytes"),
    "nvmlDeviceGetPowerUsage": Field("power_watts", MILLI),
    "nvmlDeviceGetEnforcedPowerLimit": Field("power_limit_watts", MILLI),
    "nvmlDeviceGetPowerManagementDefaultLimit": Field("power_limit_default_watts", MILLI),
    "nvmlDeviceGetTotalEnergyConsumption": Field("energy_joules_total", MILLI),
    "nvmlDeviceGetTemperature": Field("temperature_celsius"),
    "nvmlDeviceGetTemperatureThreshold.slowdown": Field("slowdown_temperature_celsius"),
    "nvmlDeviceGetTemperatureThreshold.shutdown": Field("shutdown_temperature_celsius"),
    "nvmlDeviceGetClockInfo.sm": Field("sm_clock_hertz", MEGA),
    "nvmlDeviceGetClockInfo.memory": Field("memory_clock_hertz", MEGA),
    "nvmlDeviceGetMaxClockInfo.sm": Field("sm_clock_max_hertz", MEGA),
    "nvmlDeviceGetMaxClockInfo.memory": Field("memory_clock_max_hertz", MEGA),
    "nvmlDeviceGetCurrentClocksEventReasons": Field("clock_event_reasons"),
    "nvmlDeviceGetPerformanceState": Field("performance_state"),
    "nvmlDeviceGetViolationStatus.power": Field("throttle_power_seconds_total", NANO),
    "nvmlDeviceGetViolationStatus.thermal": Field("throttle_thermal_seconds_total", NANO),
    "nvmlDeviceGetViolationStatus.sync_boost": Field("throttle_sync_boost_seconds_total", NANO),
    "nvmlDeviceGetViolationStatus.board_limit": Field("throttle_board_limit_seconds_total", NANO),
    "nvmlDeviceGetViolationStatus.low_utilization": Field("throttle_low_utilization_seconds_total", NANO),
    "nvmlDeviceGetViolationStatus.reliability": Field("throttle_reliability_seconds_total", NANO),
    "nvmlDeviceGetCurrPcieLinkGeneration": Field("pcie_link_gen"),
    "nvmlDeviceGetCurrPcieLinkWidth": Field("pcie_link_width"),
    "nvmlDeviceGetMaxPcieLinkGeneration": Field("pcie_link_gen_max"),
    "nvmlDeviceGetMaxPcieLinkWidth": Field("pcie_link_width_max"),
    "nvmlDeviceGetPcieReplayCounter": Field("pcie_replay_total"),
    "nvmlDeviceGetPcieThroughput.tx": Field("pcie_tx_bytes_per_second", 1e3),
    "nvmlDeviceGetPcieThroughput.rx": Field("pcie_rx_bytes_per_second", 1e3),
}
"""Calls of NVML, and what of their answer. PCIe throughput is KB/s over 20 ms and blocks as long, a direction
at a time: for eight devices a third of a second."""

FIELD_VALUES: dict[int, Field] = {
    185: Field("power_watts", MILLI),
    186: Field("power_watts", MILLI, rank=1),
}
"""`nvmlDeviceGetFieldValues`: 185 average, 186 instant power. 138 and 139 are cumulative KiB of NVLink
(TX, RX), a rate only over two readings: `NVLINK_KIB`."""
NVLINK_KIB: dict[int, str] = {138: "nvlink_tx_bytes_per_second", 139: "nvlink_rx_bytes_per_second"}
