"""AMD's device-metrics-exporter: per cent, megabytes, microjoules; a prefix `amd_` that may be configured
away.

A partition other than the first has no sensors of the whole card and reports 0 for them; an index of max-uint
and a UUID of zeros mean "not available" (device-metrics-exporter#233).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepscope.model.sample import Owner, Telemetry, TimeKind
from stepscope.model.signal import SIGNALS
from stepscope.sources.blank import UINT16_MAX, UINT32_MAX
from stepscope.sources.exporter import add_by_table, exact_times, last_ns, rate
from stepscope.sources.field import MEBI, MEGA, MICRO, PERCENT, Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import device, lowered
from stepscope.sources.source import MetricSource

FORMAT = "amd-exporter"
FIELDS: dict[str, Field] = {
    "gpu_gfx_activity": Field("compute_busy_ratio", PERCENT),
    "gpu_umc_activity": Field("memory_busy_ratio", PERCENT),
    "gpu_prof_sm_active": Field("sm_active_ratio", PERCENT),
    "gpu_prof_occupancy_percent": Field("sm_occupancy_ratio", PERCENT),
    "gpu_prof_tensor_active_percent": Field("tensor_active_ratio", PERCENT),
    "gpu_package_power": Field("power_watts"),
    "gpu_average_package_power": Field("power_watts", rank=1),
    "gpu_power_usage": Field("power_watts", rank=2),
    "gpu_energy_consumed": Field("energy_joules_total", MICRO),
    "gpu_junction_temperature": Field("temperature_celsius"),
    "gpu_edge_temperature": Field("temperature_celsius", rank=1),
    "gpu_memory_temperature": Field("memory_temperature_celsius"),
    "gpu_used_vram": Field("memory_used_bytes", MEBI),
    "gpu_free_vram": Field("memory_free_bytes", MEBI),
    "gpu_total_vram": Field("memory_total_bytes", MEBI),
    "pcie_bandwidth": Field("pcie_bytes_per_second", MEGA / 8),
    "pcie_replay_count": Field("pcie_replay_total"),
    "gpu_ecc_correct_total": Field("ecc_corrected_total"),
    "gpu_ecc_uncorrect_total": Field("ecc_uncorrected_total"),
}
"""Memory in MB that is MiB; PCIe in Mb/s, both directions together."""
CLOCKS = {
    "system": Field("sm_clock_hertz", MEGA),
    "gpu_clock_type_system": Field("sm_clock_hertz", MEGA),
    "memory": Field("memory_clock_hertz", MEGA),
    "gpu_clock_type_memory": Field("memory_clock_hertz", MEGA),
}
"""Of `gpu_clock`, by its label `clock_type`; a card with several engines has one series each
(`clock_index`)."""
LINKS = {
    "gpu_xgmi_link_tx": "nvlink_tx_bytes_per_second",
    "gpu_xgmi_link_rx": "nvlink_rx_bytes_per_second",
}
"""KB since the driver was loaded, one series a link."""


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    gathering = Gathering(FORMAT)
    plain = [metric for metric in metrics if _bare(metric.name) != "gpu_clock" or not _is_clock(metric)]
    add_by_table(gathering, map(_without_max, plain), _field, _owner)
    _clocks(gathering, [metric for metric in metrics if _is_clock(metric)])
    if time != "none":
        _links(gathering, metrics)
    return gathering.telemetry(name, time, end_ns=last_ns(metrics))


def _bare(name: str) -> str:
    return name.lower().removeprefix("amd_")


def _without_max(metric: Metric) -> Metric:
    """A max-uint of 16 or 32 bits is no measurement, nor is an energy of 0 since the driver was loaded:
    guests and small parts have no such counter (amdsmi#38)."""
    is_energy = _bare(metric.name) == "gpu_energy_consumed"
    is_max = metric.value == 0 if is_energy else np.isin(metric.value, (UINT16_MAX, UINT32_MAX))
    return replace(metric, value=np.where(is_max, np.nan, metric.value)) if is_max.any() else metric


def _field(metric: Metric) -> Field | None:
    field = FIELDS.get(_bare(metric.name))
    partition = device(metric.labels, is_nvidia=False).mig
    if field and SIGNALS[field.signal].is_whole_device and partition not in (None, "0"):
        return None
    return field


def _owner(metric: Metric) -> Owner:
    """A single partition, 0, is the whole device."""
    owner = device(metric.labels, is_nvidia=False)
    lower = lowered(metric.labels)
    is_whole = owner.mig == "0" and lower.get("gpu_compute_partition_type", "spx").lower() in ("spx", "none")
    return replace(owner, mig=None) if is_whole else owner


def _is_clock(metric: Metric) -> bool:
    return (
        _bare(metric.name) == "gpu_clock" and lowered(metric.labels).get("clock_type", "").lower() in CLOCKS
    )


def _clocks(gathering: Gathering, metrics: Sequence[Metric]) -> None:
    """The mean of a card's engines."""
    groups: dict[tuple[Owner, Field], list[Metric]] = {}
    for metric in metrics:
        gathering.num_samples += len(metric)
        field = CLOCKS[lowered(metric.labels)["clock_type"].lower()]
        groups.setdefault((_owner(metric), field), []).append(_without_max(metric))
    for (owner, field), group in groups.items():
        at_ns = np.concatenate([metric.at_ns for metric in group])
        value = np.concatenate([metric.value for metric in group])
        known = np.isfinite(value)
        times, place = np.unique(at_ns[known], return_inverse=True)
        mean = np.bincount(place, value[known]) / np.maximum(np.bincount(place), 1)
        gathering.add(owner, field, group[0].name, times, mean[: len(times)])
        gathering.missing(group[0].name, field.signal, "blank", int((~known).sum()), owner)


def _links(gathering: Gathering, metrics: Sequence[Metric]) -> None:
    for metric in metrics:
        signal = LINKS.get(_bare(metric.name))
        if signal and len(metric) > 1:
            lower = lowered(metric.labels)
            part = lower.get("link_index") or lower.get("index") or "0"
            times, value = rate(gathering, *exact_times(metric))
            gathering.add(_owner(metric), Field(signal, 1e3, part=part), metric.name, times, value)


def _claims(name: str) -> bool:
    bare = _bare(name)
    return bare in FIELDS or bare in LINKS or name.startswith(("amd_gpu_", "amd_pcie_")) or bare in _ALSO


_ALSO = frozenset(
    "gpu_clock gpu_free_gtt gpu_used_gtt gpu_total_gtt gpu_nodes_total gpu_health gpu_voltage".split()
)

SOURCE = MetricSource(format=FORMAT, title="AMD device-metrics-exporter", claims=_claims, read=read)
