"""Every real telemetry file of the shared data: what it says, with units, or why it is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepscope.model.error import InputError
from stepscope.model.sample import Telemetry
from stepscope.sources.telemetry import read_telemetry

MIB = 1024 * 1024
SMI = "nvidia-smi/linux-x86_64__nvidia-"
NGE = "nvidia_gpu_exporter/linux-x86_64__nvidia-"
RTX, H100, MIG = "geforce-rtx-4080-super__595.71.05", "h100-80gb-hbm3__590.48.01", "h100-mig__590.48.01"
DMON = "dmon_per_device_monitor_incl_pcie_rx_tx.txt"
PMON = "pmon_per_process_monitor.txt"
APPS = "query_compute_apps_per_process.txt"
QUERY = "query_gpu_csv_what_the_exporter_parses.txt"
ABSENT: None = None

# Of a file under telemetry/: format, time, and (signal, fields of the owner, first value or None if absent).
Said = tuple[str, str, list[tuple[str, dict[str, Any], float | None]]]
SAID: dict[str, Said] = {
    "dcgm-exporter/v2.0.13-2.1.1_single_gpu.prom": (
        "dcgm-exporter",
        "none",
        [
            ("sm_clock_hertz", {"index": 0}, 885e6),
            ("energy_joules_total", {}, 31_035_686.671),
            ("memory_used_bytes", {}, 1057 * MIB),
            ("memory_temperature_celsius", {}, ABSENT),
            ("sm_active_ratio", {}, ABSENT),
        ],
    ),
    "dcgm-exporter/v2.x_gpu-monitoring-tools_138.prom": (
        "dcgm-exporter",
        "none",
        [
            ("pcie_tx_bytes_per_second", {}, 421_894),
            ("dram_active_ratio", {}, 1e-6),
        ],
    ),
    "dcgm-exporter/readme_2020_blank_sentinel.prom": (
        "dcgm-exporter",
        "none",
        [
            ("sm_clock_hertz", {}, 139e6),
            ("memory_temperature_celsius", {}, ABSENT),
        ],
    ),
    "dcgm-exporter/readme_2020_k8s_labels.prom": (
        "dcgm-exporter",
        "none",
        [("memory_clock_hertz", {}, 405e6)],
    ),
    "dcgm-exporter/sentinels_as_exported.prom": (
        "dcgm-exporter",
        "none",
        [
            (signal, {}, ABSENT)
            for signal in (
                "sm_active_ratio",
                "pcie_tx_bytes_per_second",
                "memory_temperature_celsius",
                "compute_busy_ratio",
            )
        ],
    ),
    "dcgm-exporter/v3.x_A100_MIG_hpc_job.prom": (
        "dcgm-exporter",
        "none",
        [
            (
                "memory_used_bytes",
                {"mig": "7", "host": "della-l01g1", "model": "NVIDIA A100 80GB PCIe"},
                8543 * MIB,
            ),
        ],
    ),
    "dcgm-exporter/v3.x_A30_MIG_stale_prof_k8s.prom": (
        "dcgm-exporter",
        "none",
        [
            ("graphics_engine_active_ratio", {"mig": "1"}, 0.117468),
        ],
    ),
    "dcgm-exporter/v3.x_T4_label_fields.prom": (
        "dcgm-exporter",
        "none",
        [
            ("power_watts", {"model": "Tesla T4"}, 8.969),
            ("memory_used_ratio", {}, 0.000008),
            ("clock_event_reasons", {}, 1),
            ("performance_state", {}, 8),
            ("slowdown_temperature_celsius", {}, 93),
        ],
    ),
    "dcgm-exporter/v3.x_V100x4.prom": (
        "dcgm-exporter",
        "none",
        [
            ("power_limit_watts", {"index": 3, "host": "r6i3n0"}, 300),
            ("compute_busy_ratio", {"index": 0}, 0),
        ],
    ),
    "dcgm-exporter/v4.x_H100x8_k8s.prom": (
        "dcgm-exporter",
        "none",
        [
            ("power_watts", {"index": 0, "pci_bus_id": "0000:53:00.0"}, 113.611),
            ("temperature_celsius", {"index": 7, "pci_bus_id": "0000:ca:00.0"}, 26),
        ],
    ),
    "dcgm-exporter/xid_shapes.prom": ("dcgm-exporter", "none", [("xid", {"model": "Tesla T4"}, 0)]),
    "amd/device-metrics-exporter_MI210_k8s.prom": (
        "amd-exporter",
        "none",
        [
            ("compute_busy_ratio", {"model": "Instinct MI210", "index": 0}, 0),
        ],
    ),
    "amd/device-metrics-exporter_issue233_vf.prom": (
        "amd-exporter",
        "none",
        [
            ("compute_busy_ratio", {"uuid": None, "mig": None, "host": "enc1-gpuvm022"}, 0),
        ],
    ),
    "amd/device-metrics-exporter_issue259.prom": (
        "amd-exporter",
        "none",
        [
            ("memory_free_bytes", {}, 24534 * MIB),
            ("sm_clock_hertz", {}, 132e6),
            ("memory_clock_hertz", {}, 900e6),
            ("energy_joules_total", {}, ABSENT),
        ],
    ),
    "ascend/npu-exporter_testdata_prometheus_metrics.prom": (
        "npu-exporter",
        "sample",
        [
            ("power_watts", {"index": 7, "model": "910Awn-Ascend-V1"}, 0),
            ("compute_busy_ratio", {"index": 0}, 0),
        ],
    ),
    "ascend/npu-exporter_testdata_prometheus_metrics2.prom": ("npu-exporter", "none", []),
    "gpud/gpm_issue40.prom": ("gpud", "none", [("sm_occupancy_ratio", {}, 0.07739499086738595)]),
    "dcgmi/dmon_A100_1001_1004_1005.txt": (
        "dcgmi-dmon",
        "none",
        [
            ("graphics_engine_active_ratio", {"index": 0}, 0.0),
            ("tensor_active_ratio", {}, 0.0),
        ],
    ),
    "dcgmi/dmon_A100_MIG_1001_1004.txt": (
        "dcgmi-dmon",
        "none",
        [
            ("graphics_engine_active_ratio", {"mig": None}, 0.845),
            ("tensor_active_ratio", {"mig": "1"}, 0.952),
        ],
    ),
    "dcgmi/dmon_multiplex_NA.txt": (
        "dcgmi-dmon",
        "none",
        [
            ("graphics_engine_active_ratio", {"index": 0}, 0.888),
            ("sm_active_ratio", {"index": 1}, 0.777),
            ("fp32_active_ratio", {}, 0.046),
        ],
    ),
    f"{SMI}{RTX}__idle_{DMON}": (
        "nvidia-smi-dmon",
        "none",
        [
            ("power_watts", {"index": 0}, 27),
            ("memory_busy_ratio", {}, 0.16),
            ("sm_clock_hertz", {}, 210e6),
            ("memory_temperature_celsius", {}, ABSENT),
        ],
    ),
    f"{SMI}{RTX}__load_{DMON}": (
        "nvidia-smi-dmon",
        "none",
        [
            ("compute_busy_ratio", {}, 0.07),
            ("encoder_busy_ratio", {}, 0.69),
            ("memory_clock_hertz", {}, 11_251e6),
        ],
    ),
    f"{SMI}{H100}__idle_{DMON}": (
        "nvidia-smi-dmon",
        "none",
        [
            ("power_watts", {}, 69),
            ("memory_temperature_celsius", {}, 47),
            ("compute_busy_ratio", {}, 0),
        ],
    ),
    f"{SMI}{H100}__load_{DMON}": (
        "nvidia-smi-dmon",
        "none",
        [
            ("power_watts", {}, 631),
            ("compute_busy_ratio", {}, 1),
            ("sm_clock_hertz", {}, 1.98e9),
        ],
    ),
    f"{SMI}{MIG}__idle_{DMON}": (
        "nvidia-smi-dmon",
        "none",
        [
            ("power_watts", {}, 70),
            ("compute_busy_ratio", {}, ABSENT),
            ("sm_clock_hertz", {}, 345e6),
        ],
    ),
    f"{SMI}{MIG}__load_{DMON}": (
        "nvidia-smi-dmon",
        "none",
        [
            ("power_watts", {}, 438),
            ("compute_busy_ratio", {}, ABSENT),
        ],
    ),
    f"{SMI}{RTX}__idle_{PMON}": ("nvidia-smi-pmon", "none", [("process_sm_ratio", {}, ABSENT)]),
    f"{SMI}{RTX}__load_{PMON}": (
        "nvidia-smi-pmon",
        "none",
        [
            ("process_sm_ratio", {"pid": 5022, "name": "ffmpeg"}, 0.05),
        ],
    ),
    f"{SMI}{H100}__idle_{PMON}": ("nvidia-smi-pmon", "none", [("process_sm_ratio", {}, ABSENT)]),
    f"{SMI}{H100}__load_{PMON}": ("nvidia-smi-pmon", "none", [("process_sm_ratio", {"pid": 11345}, 0.99)]),
    f"{SMI}{MIG}__idle_{PMON}": ("nvidia-smi-pmon", "none", []),
    f"{SMI}{MIG}__load_{PMON}": ("nvidia-smi-pmon", "none", [("process_sm_ratio", {}, ABSENT)]),
    f"{SMI}{RTX}__idle_{APPS}": (
        "nvidia-smi-apps",
        "sample",
        [("process_memory_bytes", {"pid": 2165}, 25 * MIB)],
    ),
    f"{SMI}{RTX}__load_{APPS}": (
        "nvidia-smi-apps",
        "sample",
        [("process_memory_bytes", {"pid": 5022}, 503 * MIB)],
    ),
    f"{SMI}{H100}__idle_{APPS}": ("nvidia-smi-apps", "sample", [("process_memory_bytes", {}, ABSENT)]),
    f"{SMI}{H100}__load_{APPS}": (
        "nvidia-smi-apps",
        "sample",
        [
            ("process_memory_bytes", {"pid": 11345, "pci_bus_id": "0000:00:09.0"}, 15690 * MIB),
        ],
    ),
    f"{SMI}{MIG}__idle_{APPS}": ("nvidia-smi-apps", "sample", []),
    f"{SMI}{MIG}__load_{APPS}": (
        "nvidia-smi-apps",
        "sample",
        [("process_memory_bytes", {"pid": 21198}, 7484 * MIB)],
    ),
    f"{SMI}{RTX}__idle_{QUERY}": (
        "nvidia-smi-query",
        "sample",
        [
            ("power_watts", {}, 26.2),
            ("pcie_link_gen", {}, 1),
            ("pcie_link_gen_max", {}, 4),
            ("performance_state", {}, 8),
            ("clock_event_reasons", {}, 1),
            ("ecc_corrected_total", {}, ABSENT),
        ],
    ),
    f"{SMI}{RTX}__load_{QUERY}": (
        "nvidia-smi-query",
        "sample",
        [
            ("memory_total_bytes", {}, 16376 * MIB),
            ("clock_event_reasons", {}, 0),
            ("pcie_link_gen", {}, 4),
        ],
    ),
    f"{SMI}{H100}__idle_{QUERY}": (
        "nvidia-smi-query",
        "sample",
        [
            ("clock_event_reasons", {}, 1),
            ("power_limit_watts", {}, 700),
        ],
    ),
    f"{SMI}{H100}__load_{QUERY}": (
        "nvidia-smi-query",
        "sample",
        [
            ("power_watts", {"model": "NVIDIA H100 80GB HBM3"}, 631.95),
            ("memory_used_bytes", {}, 19818 * MIB),
            ("compute_busy_ratio", {}, 1.0),
            ("memory_busy_ratio", {}, 0.11),
            ("temperature_celsius", {}, 59),
            ("sm_clock_hertz", {}, 1.98e9),
            ("row_remap_failed", {}, 0),
            ("retired_pages_total", {}, ABSENT),
        ],
    ),
    f"{SMI}{MIG}__idle_{QUERY}": ("nvidia-smi-query", "sample", [("compute_busy_ratio", {}, ABSENT)]),
    f"{SMI}{MIG}__load_{QUERY}": (
        "nvidia-smi-query",
        "sample",
        [
            ("compute_busy_ratio", {}, ABSENT),
            ("sm_clock_hertz", {}, 1.98e9),
        ],
    ),
    f"{SMI}{RTX}__capabilities_topo_m.txt": ("nvidia-smi-topo", "none", []),
    f"{SMI}{H100}__capabilities_topo_m.txt": ("nvidia-smi-topo", "none", []),
    f"{SMI}{MIG}__capabilities_topo_m.txt": ("nvidia-smi-topo", "none", []),
    "nvidia_gpu_exporter/demo__seeded.metrics": (
        "nvidia-gpu-exporter",
        "none",
        [
            ("memory_used_bytes", {"mig": "2"}, 42_883_309_544),
            ("power_watts", {"index": 0, "model": "NVIDIA H200"}, 627.4),
            ("process_memory_bytes", {"pid": 10309, "mig": None}, 29_605_494_784),
        ],
    ),
    f"{NGE}{RTX}__idle.metrics": ("nvidia-gpu-exporter", "none", [("sm_clock_hertz", {}, 210e6)]),
    f"{NGE}{RTX}__load.metrics": ("nvidia-gpu-exporter", "none", [("encoder_busy_ratio", {}, 0.72)]),
    f"{NGE}{H100}__idle.metrics": ("nvidia-gpu-exporter", "none", [("compute_busy_ratio", {}, 0)]),
    f"{NGE}{H100}__load.metrics": (
        "nvidia-gpu-exporter",
        "none",
        [
            ("compute_busy_ratio", {}, 1),
            ("power_watts", {"pci_bus_id": "0000:00:09.0"}, 631.95),
        ],
    ),
    f"{NGE}{MIG}__idle.metrics": ("nvidia-gpu-exporter", "none", [("compute_busy_ratio", {}, ABSENT)]),
    f"{NGE}{MIG}__load.metrics": (
        "nvidia-gpu-exporter",
        "none",
        [
            ("power_watts", {}, 433.78),
            ("process_memory_bytes", {"pid": 21180}, 2_407_530_496),
        ],
    ),
    "../other/aicr/dcgm_exporter_h100x8_idle.prom": (
        "dcgm-exporter",
        "none",
        [("power_watts", {"index": 1}, 68.347)],
    ),
    "../other/aicr/prometheus_query_0.json": (
        "dcgm-exporter",
        "sample",
        [
            ("compute_busy_ratio", {"index": 0, "host": "gpu-node-1"}, 0),
            ("compute_busy_ratio", {"index": 7, "host": "gpu-node-2"}, 0),
        ],
    ),
    "../other/snippets/amd_smi_mi355x_1hz.csv": (
        "amd-smi",
        "sample",
        [
            ("power_watts", {"index": 2}, 246),
            ("sm_clock_max_hertz", {"index": 0}, 2.4e9),
            ("temperature_celsius", {"index": 0}, 37),
            ("memory_temperature_celsius", {"index": 1}, 26),
        ],
    ),
}

REFUSED: dict[str, str] = {
    "dcgm-exporter/1.x-compatibility-metrics.csv": "a list of counters",
    "dcgm-exporter/dcp-metrics-included.csv": "a list of counters",
    "dcgm-exporter/default-counters.csv": "a list of counters",
    "dcgm-exporter/integration-default-counters.csv": "a list of counters",
    "dcgm-exporter/dcgm-exporter-dashboard.json": "a Grafana dashboard",
    "dcgm-exporter/SHAPE_v4.6_hostname_lowercase.txt": "no telemetry that is known",
    "dcgm-exporter/exported_labels_time_slicing.txt": "no telemetry that is known",
    "dcgmi/dmon_MIG_5fields_uneven.txt": "without the line that names the columns",
    "nvidia-smi/H100x8_dmon_gpm-metrics.txt": "without a row of values",
    f"{SMI}{RTX}__capabilities_list_l.txt": "a list of devices",
    f"{SMI}{H100}__capabilities_list_l.txt": "a list of devices",
    f"{SMI}{MIG}__capabilities_list_l.txt": "a list of devices",
    f"{SMI}{RTX}__capabilities_nvlink_s.txt": "a list of devices",
    f"{SMI}{H100}__capabilities_nvlink_s.txt": "nvidia-smi nvlink",
    f"{SMI}{MIG}__capabilities_nvlink_s.txt": "nvidia-smi nvlink",
    "../other/dcgm-exporter/etc/dcp-metrics-included.csv": "a list of counters",
    "../other/dcgm-exporter/integration/testdata/default-counters.csv": "a list of counters",
    "../other/gpud/sys-class-infiniband-h100.tar.gz": "InfiniBand counters of sysfs",
    "../other/snippets/deepspeed_flops_profiler_newunits.txt": "a FLOPS profile",
    "../other/hpcgroup-pipit/saxpy-mpi-cuda_nsys_perlmutter0.sqlite": "an SQLite file",
}
LOGS = ("gpud/components__", "gpud/pkg__kmsg")
"""Of `other/`: logs, which are another source's."""


def test_every_telemetry_file_is_in_one_of_the_tables(shared_data: Path) -> None:
    telemetry = shared_data / "telemetry"
    here = {str(path.relative_to(telemetry)) for path in telemetry.rglob("*") if path.is_file()}
    other = shared_data / "other"
    here |= {
        f"../other/{path.relative_to(other)}"
        for path in other.rglob("*")
        if path.is_file() and not str(path.relative_to(other)).startswith(LOGS)
    }
    assert here == SAID.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", SAID)
def test_a_real_file_says_what_it_says_in_our_units(shared_data: Path, name: str) -> None:
    form, time, said = SAID[name]
    telemetry = read_telemetry(str(shared_data / "telemetry" / name))
    assert (telemetry.format, telemetry.time) == (form, time)
    for signal, owner, wanted in said:
        assert _first(telemetry, signal, owner) == (wanted if wanted is None else pytest.approx(wanted)), (
            signal
        )


@pytest.mark.parametrize("name", REFUSED)
def test_a_real_file_that_is_no_telemetry_is_refused_by_what_it_is(shared_data: Path, name: str) -> None:
    with pytest.raises(InputError, match=REFUSED[name]):
        read_telemetry(str(shared_data / "telemetry" / name))


def test_the_times_of_real_files(shared_data: Path) -> None:
    def first_ns(name: str) -> int:
        return int(read_telemetry(str(shared_data / "telemetry" / name)).series[0].at_ns[0])

    assert first_ns("../other/aicr/prometheus_query_0.json") == 1_773_114_089_184_000_000
    assert first_ns("../other/snippets/amd_smi_mi355x_1hz.csv") == 1_786_553_852_000_000_000
    assert first_ns(f"{SMI}{H100}__load_{QUERY}") == 1_784_016_773_353_000_000


def test_real_topologies_and_real_xids(shared_data: Path) -> None:
    folder = shared_data / "telemetry"
    topology = read_telemetry(str(folder / f"{SMI}{H100}__capabilities_topo_m.txt")).topology
    assert topology is not None
    assert (topology.names, dict(topology.cpu_affinity), dict(topology.numa)) == (
        ("GPU0",),
        {"GPU0": "0-19"},
        {"GPU0": 0},
    )
    demo = read_telemetry(str(folder / "nvidia_gpu_exporter/demo__seeded.metrics"))
    assert [(mark.code, mark.is_new) for mark in demo.marks] == [(79, False)]
    shapes = read_telemetry(str(folder / "dcgm-exporter/xid_shapes.prom"))
    assert [(mark.code, mark.is_new) for mark in shapes.marks] == [(42, False)]


def _first(telemetry: Telemetry, signal: str, owner: dict[str, Any]) -> float | None:
    found = [
        each
        for each in telemetry.of(signal)
        if all(getattr(each.owner, name) == value for name, value in owner.items())
    ]
    return float(found[0].value[0]) if found else None
