"""gpud's metrics: GPM in per cent, not in ratios; collected for 5 s of every minute."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepscope.model.sample import Owner, Telemetry, TimeKind
from stepscope.sources.exporter import add_by_table, last_ns, starts_with
from stepscope.sources.field import MEGA, MILLI, PERCENT, Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import device
from stepscope.sources.source import MetricSource

FORMAT = "gpud"
_GPM = re.compile(r"accelerator_nvidia_gpm_(?:gpu_)?(\w+?)_percent")
GPM: dict[str, str] = {
    "graphics_util": "graphics_engine_active_ratio",
    "sm_util": "sm_active_ratio",
    "sm_occupancy": "sm_occupancy_ratio",
    "int_util": "int_active_ratio",
    "integer_util": "int_active_ratio",
    "any_tensor_util": "tensor_active_ratio",
    "dfma_tensor_util": "tensor_fp64_active_ratio",
    "hmma_tensor_util": "tensor_fp16_active_ratio",
    "imma_tensor_util": "tensor_int8_active_ratio",
    "dram_bw_util": "dram_active_ratio",
    "fp64_util": "fp64_active_ratio",
    "fp32_util": "fp32_active_ratio",
    "fp16_util": "fp16_active_ratio",
}
"""By what stands between the prefix and `_percent`."""
FIELDS: dict[str, Field] = {
    "accelerator_nvidia_utilization_gpu_util_percent": Field("compute_busy_ratio", PERCENT),
    "accelerator_nvidia_utilization_memory_util_percent": Field("memory_busy_ratio", PERCENT),
    "accelerator_nvidia_temperature_current_celsius": Field("temperature_celsius"),
    "accelerator_nvidia_power_current_usage_milli_watts": Field("power_watts", MILLI),
    "accelerator_nvidia_power_enforced_limit_milli_watts": Field("power_limit_watts", MILLI),
    "accelerator_nvidia_memory_used_bytes": Field("memory_used_bytes"),
    "accelerator_nvidia_memory_free_bytes": Field("memory_free_bytes"),
    "accelerator_nvidia_memory_total_bytes": Field("memory_total_bytes"),
    "accelerator_nvidia_memory_reserved_bytes": Field("memory_reserved_bytes"),
    "accelerator_nvidia_clock_speed_graphics_mhz": Field("sm_clock_hertz", MEGA),
    "accelerator_nvidia_clock_speed_memory_mhz": Field("memory_clock_hertz", MEGA),
}


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    gathering = Gathering(FORMAT)
    add_by_table(gathering, metrics, _field, _owner)
    return gathering.telemetry(name, time, end_ns=last_ns(metrics))


def _field(metric: Metric) -> Field | None:
    found = _GPM.fullmatch(metric.name)
    if found:
        signal = GPM.get(found[1])
        return Field(signal, PERCENT) if signal else None
    return FIELDS.get(metric.name)


def _owner(metric: Metric) -> Owner:
    return device(metric.labels)


SOURCE = MetricSource(format=FORMAT, title="gpud", claims=starts_with("accelerator_nvidia_"), read=read)
