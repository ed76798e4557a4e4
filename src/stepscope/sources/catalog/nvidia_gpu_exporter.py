"""nvidia_gpu_exporter: nvidia-smi's fields with units in the names, already in ratios, bytes, hertz, watts.

Names, places and models of devices are on `nvidia_smi_gpu_info` alone; UUIDs lack their `GPU-`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stepscope.model.sample import Owner, Telemetry, TimeKind
from stepscope.sources.exporter import add_by_table, first_ns, last_ns, starts_with, xid_count
from stepscope.sources.field import Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import device, index, lowered, pci_bus_id
from stepscope.sources.source import MetricSource

FORMAT = "nvidia-gpu-exporter"

FIELDS: dict[str, Field] = {
    f"nvidia_smi_{name}": field
    for name, field in {
        "utilization_gpu_ratio": Field("compute_busy_ratio"),
        "utilization_memory_ratio": Field("memory_busy_ratio"),
        "utilization_encoder_ratio": Field("encoder_busy_ratio"),
        "utilization_decoder_ratio": Field("decoder_busy_ratio"),
        "memory_used_bytes": Field("memory_used_bytes"),
        "memory_free_bytes": Field("memory_free_bytes"),
        "memory_total_bytes": Field("memory_total_bytes"),
        "memory_reserved_bytes": Field("memory_reserved_bytes"),
        "mig_memory_used_bytes": Field("memory_used_bytes"),
        "mig_memory_free_bytes": Field("memory_free_bytes"),
        "mig_memory_total_bytes": Field("memory_total_bytes"),
        "mig_memory_reserved_bytes": Field("memory_reserved_bytes"),
        "power_draw_watts": Field("power_watts"),
        "power_draw_average_watts": Field("power_watts", rank=1),
        "power_draw_instant_watts": Field("power_watts", rank=2),
        "enforced_power_limit_watts": Field("power_limit_watts"),
        "power_limit_watts": Field("power_limit_watts", rank=1),
        "power_default_limit_watts": Field("power_limit_default_watts"),
        "energy_joules_total": Field("energy_joules_total"),
        "temperature_gpu": Field("temperature_celsius"),
        "temperature_memory": Field("memory_temperature_celsius"),
        "clocks_current_sm_clock_hz": Field("sm_clock_hertz"),
        "clocks_current_graphics_clock_hz": Field("sm_clock_hertz", rank=1),
        "clocks_current_memory_clock_hz": Field("memory_clock_hertz"),
        "clocks_max_sm_clock_hz": Field("sm_clock_max_hertz"),
        "clocks_max_memory_clock_hz": Field("memory_clock_max_hertz"),
        "clocks_event_reasons_active": Field("clock_event_reasons"),
        "clocks_throttle_reasons_active": Field("clock_event_reasons", rank=1),
        "clocks_event_reasons_counters_sw_power_cap_seconds": Field("throttle_power_seconds_total"),
        "clocks_event_reasons_counters_sync_boost_seconds": Field("throttle_sync_boost_seconds_total"),
        "clocks_event_reasons_counters_sw_thermal_slowdown_seconds": Field(
            "throttle_software_thermal_seconds_total"
        ),
        "clocks_event_reasons_counters_hw_thermal_slowdown_seconds": Field(
            "throttle_hardware_thermal_seconds_total"
        ),
        "clocks_event_reasons_counters_hw_power_brake_slowdown_seconds": Field(
            "throttle_hardware_power_brake_seconds_total"
        ),
        "pstate": Field("performance_state"),
        "pcie_link_gen_current": Field("pcie_link_gen"),
        "pcie_link_gen_gpucurrent": Field("pcie_link_gen", rank=1),
        "pcie_link_gen_max": Field("pcie_link_gen_max"),
        "pcie_link_width_current": Field("pcie_link_width"),
        "pcie_link_width_max": Field("pcie_link_width_max"),
        "pcie_throughput_tx_bytes_per_second": Field("pcie_tx_bytes_per_second"),
        "pcie_throughput_rx_bytes_per_second": Field("pcie_rx_bytes_per_second"),
        "ecc_errors_corrected_volatile_total": Field("ecc_corrected_total"),
        "ecc_errors_corrected_aggregate_total": Field("ecc_corrected_total", rank=1),
        "ecc_errors_uncorrected_volatile_total": Field("ecc_uncorrected_total"),
        "ecc_errors_uncorrected_aggregate_total": Field("ecc_uncorrected_total", rank=1),
        "remapped_rows_correctable": Field("row_remap_correctable_total"),
        "remapped_rows_uncorrectable": Field("row_remap_uncorrectable_total"),
        "remapped_rows_pending": Field("row_remap_pending"),
        "remapped_rows_failure": Field("row_remap_failed"),
        "retired_pages_single_bit_ecc_count": Field("retired_pages_total", part="sbe"),
        "retired_pages_double_bit_count": Field("retired_pages_total", part="dbe"),
        "compute_app_used_memory_bytes": Field("process_memory_bytes"),
    }.items()
}
INFO = "nvidia_smi_gpu_info"
XIDS = "nvidia_smi_xid_errors_total"
FAILURES = ("nvidia_smi_last_collect_success", "nvidia_smi_compute_apps_last_collect_success")


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    gathering = Gathering(FORMAT)
    for metric in metrics:
        if metric.name == INFO and len(metric):
            gathering.owner(_described(metric))
    add_by_table(gathering, metrics, lambda metric: FIELDS.get(metric.name), _owner)
    start_ns = first_ns(metrics)
    for metric in metrics:
        if metric.name == XIDS and len(metric):
            code = metric.labels.get("xid", "")
            if code.isascii() and code.isdigit() and len(code) < 6:
                owner = gathering.owner(_owner(metric))
                xid_count(gathering, owner, int(code), metric.at_ns, metric.value, start_ns)
        elif metric.name in FAILURES:
            num_failed = int((metric.value == 0).sum())
            gathering.note("telemetry_gap", num_failed, "the exporter says that it could not collect")
    return gathering.telemetry(name, time, end_ns=last_ns(metrics))


def _owner(metric: Metric) -> Owner:
    owner = device(metric.labels)
    pid = metric.labels.get("pid", "")
    if pid.isascii() and pid.isdigit():
        return replace(owner, kind="process", pid=int(pid), name=metric.labels.get("process_name") or None)
    return owner


def _described(metric: Metric) -> Owner:
    lower = lowered(metric.labels)
    return replace(
        device(metric.labels),
        index=index(lower, ("index",)),
        pci_bus_id=pci_bus_id(lower.get("pci_bus_id")),
        model=lower.get("name") or None,
    )


SOURCE = MetricSource(
    format=FORMAT, title="nvidia_gpu_exporter", claims=starts_with("nvidia_smi_"), read=read
)
