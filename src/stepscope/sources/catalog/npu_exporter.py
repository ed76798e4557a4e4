"""Ascend npu-exporter: per cent, megabytes, and a time of its own on every sample (milliseconds).

It caches: utilisation is a second old at most, other groups up to a minute. −1 means that a reading failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stepscope.model.sample import Mark, Owner, Telemetry, TimeKind
from stepscope.sources.exporter import add_by_table, last_ns, starts_with
from stepscope.sources.field import MEBI, MEGA, PERCENT, Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import device
from stepscope.sources.source import MetricSource

FORMAT = "npu-exporter"
_MB_PER_MS = 1e9
_GIGA = 1e9
FIELDS: dict[str, Field] = {
    f"npu_chip_info_{name}": field
    for name, field in {
        "utilization": Field("compute_busy_ratio", PERCENT),
        "overall_utilization": Field("compute_busy_ratio", PERCENT, rank=1),
        "cube_utilization": Field("tensor_active_ratio", PERCENT),
        "vector_utilization": Field("vector_active_ratio", PERCENT),
        "hbm_bandwidth_utilization": Field("dram_active_ratio", PERCENT),
        "hbm_utilization": Field("memory_used_ratio", PERCENT),
        "hbm_used_memory": Field("memory_used_bytes", MEBI),
        "hbm_total_memory": Field("memory_total_bytes", MEBI),
        "hbm_temperature": Field("memory_temperature_celsius"),
        "temperature": Field("temperature_celsius"),
        "power": Field("power_watts"),
        "aicore_current_freq": Field("sm_clock_hertz", MEGA),
        "hccs_bandwidth_info_total_tx": Field("nvlink_tx_bytes_per_second", _GIGA),
        "hccs_bandwidth_info_total_rx": Field("nvlink_rx_bytes_per_second", _GIGA),
        **{
            f"pcie_{way}_{kind}_bw": Field(f"pcie_{way}_bytes_per_second", _MB_PER_MS, part=kind)
            for way in ("tx", "rx")
            for kind in ("p", "np", "cpl")
        },
        "hbm_ecc_total_single_bit_error_cnt": Field("ecc_corrected_total"),
        "hbm_ecc_single_bit_error_cnt": Field("ecc_corrected_total", rank=1),
        "hbm_ecc_total_double_bit_error_cnt": Field("ecc_uncorrected_total"),
        "hbm_ecc_double_bit_error_cnt": Field("ecc_uncorrected_total", rank=1),
    }.items()
}
"""HCCS in GB/s; PCIe in MB per millisecond, in three kinds of packets that add up."""
RDMA = {
    "npu_chip_info_bandwidth_tx": Field("rdma_tx_bytes_per_second", MEGA),
    "npu_chip_info_bandwidth_rx": Field("rdma_rx_bytes_per_second", MEGA),
}
"""The RoCE port that a device has for itself: MB/s."""
CODES = "npu_chip_info_error_code"


def read(metrics: Sequence[Metric], name: str, time: TimeKind) -> Telemetry:
    gathering = Gathering(FORMAT)
    add_by_table(gathering, map(_without_failures, metrics), _field, _owner)
    _errors(gathering, metrics)
    return gathering.telemetry(name, time, end_ns=last_ns(metrics))


def _field(metric: Metric) -> Field | None:
    if "statistic" in metric.labels or metric.labels.get("type", "avg") not in ("avg", ""):
        return None
    return FIELDS.get(metric.name) or RDMA.get(metric.name)


def _without_failures(metric: Metric) -> Metric:
    is_failure = metric.value == -1
    return replace(metric, value=np.where(is_failure, np.nan, metric.value)) if is_failure.any() else metric


def _owner(metric: Metric) -> Owner:
    owner = device(metric.labels, is_nvidia=False)
    if metric.name in RDMA:
        number = "" if owner.index is None else str(owner.index)
        return replace(owner, kind="link", name=f"roce{number}")
    return owner


def _errors(gathering: Gathering, metrics: Sequence[Metric]) -> None:
    """A mark where an error code comes up. One that stands at the first sample may be old."""
    for metric in metrics:
        if not (metric.name == CODES or metric.name.startswith(CODES + "_")):
            continue
        before: float | None = None
        for at_ns, code in zip(metric.at_ns, metric.value, strict=True):
            if np.isfinite(code) and code > 0 and code != before:
                text = f"error code 0x{int(code):x} of the NPU"
                owner = gathering.owner(_owner(metric))
                gathering.mark(Mark(int(at_ns), "error", text, int(code), owner, before is not None))
            before = float(code)


SOURCE = MetricSource(
    format=FORMAT,
    title="Ascend npu-exporter",
    claims=starts_with("npu_", "container_npu_", "vnpu_", "machine_npu_"),
    read=read,
)
