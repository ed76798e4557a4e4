"""Intel xpumd: OpenTelemetry's names for hardware (`hw_…`), in ratios, bytes, hertz, watts."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.sample import Owner, Telemetry, TimeKind
from stepscope.sources.exporter import add_by_table, exact_times, last_ns, rate, starts_with
from stepscope.sources.field import Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import device
from stepscope.sources.source import MetricSource

FORMAT = "intel-xpum"
Rows = tuple[tuple[dict[str, tuple[str, ...]], Field], ...]
FIELDS: dict[str, Rows] = {
    "hw_gpu_utilization_ratio": (
        ({"hw_gpu_task": ("all", "general", "")}, Field("compute_busy_ratio")),
        ({"hw_gpu_task": ("compute-all", "compute")}, Field("compute_busy_ratio", rank=1)),
    ),
    "hw_memory_bandwidth_utilization_ratio": (({}, Field("dram_active_ratio")),),
    "hw_memory_usage_bytes": (({"hw_memory_location": ("device", "")}, Field("memory_used_bytes")),),
    "hw_memory_size_bytes": (({"hw_memory_location": ("device", "")}, Field("memory_total_bytes")),),
    "hw_power_watts": (({"hw_sensor_location": ("card", "package", "gpu", "")}, Field("power_watts")),),
    "hw_energy_joules_total": (
        ({"hw_sensor_location": ("card", "package", "gpu", "")}, Field("energy_joules_total")),
    ),
    "hw_temperature_celsius": (
        ({"hw_sensor_location": ("gpu", "")}, Field("temperature_celsius")),
        ({"hw_sensor_location": ("global",)}, Field("temperature_celsius", rank=1)),
        ({"hw_sensor_location": ("memory",)}, Field("memory_temperature_celsius")),
    ),
    "hw_frequency_hertz": (
        ({"hw_frequency_domain": ("gpu", "")}, Field("sm_clock_hertz")),
        ({"hw_frequency_domain": ("memory",)}, Field("memory_clock_hertz")),
    ),
}
"""By name, then by labels: an absent label counts as empty."""
IO = "hw_gpu_io_bytes_total"
DIRECTIONS = {"receive": "pcie_rx_bytes_per_second", "transmit": "pcie_tx_bytes_per_second"}


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    gathering = Gathering(FORMAT)
    add_by_table(gathering, metrics, _field, _owner)
    for metric in metrics:
        signal = DIRECTIONS.get(metric.labels.get("network_io_direction", ""))
        if metric.name == IO and signal and len(metric) > 1 and time != "none":
            times, value = rate(gathering, *exact_times(metric))
            gathering.add(_owner(metric), Field(signal), metric.name, times, value)
    return gathering.telemetry(name, time, end_ns=last_ns(metrics))


def _field(metric: Metric) -> Field | None:
    for labels, field in FIELDS.get(metric.name, ()):
        if all(metric.labels.get(name, "").lower() in values for name, values in labels.items()):
            return field
    return None


def _owner(metric: Metric) -> Owner:
    return device(metric.labels, is_nvidia=False)


SOURCE = MetricSource(format=FORMAT, title="Intel xpumd", claims=starts_with("hw_"), read=read)
