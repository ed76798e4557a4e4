"""The other exporters: their names, their units, what they mean by nothing."""

from __future__ import annotations

import pytest

from tests.sources.reading import note, read, reasons, series, values

S = 1_000_000_000
T0 = 1_700_000_000 * S


def scrapes(*bodies: str, step_s: int = 1):  # type: ignore[no-untyped-def]
    return read("".join(f"# scraped_at_ns {T0 + n * step_s * S}\n{body}" for n, body in enumerate(bodies)))


# ── nvidia_gpu_exporter ──


def test_nvidia_gpu_exporter_has_ratios_bytes_hertz_and_takes_names_from_its_info() -> None:
    uuid = 'uuid="1c67088e-9ecb-4564-bb97-6151ecc2ef64"'
    telemetry = read(
        f'nvidia_smi_gpu_info{{index="1",name="NVIDIA H200",pci_bus_id="00000000:02:00.0",{uuid}}} 1\n'
        f"nvidia_smi_utilization_gpu_ratio{{{uuid}}} 0.98\n"
        f"nvidia_smi_memory_used_bytes{{{uuid}}} 3.3934016512e+10\n"
        f"nvidia_smi_clocks_current_sm_clock_hz{{{uuid}}} 1.98e+09\n"
        f"nvidia_smi_clocks_event_reasons_counters_sw_power_cap_seconds{{{uuid}}} 12.5\n"
        f'nvidia_smi_mig_memory_used_bytes{{gpu_instance_id="2",{uuid}}} 4.2e+10\n'
        f'nvidia_smi_compute_app_used_memory_bytes{{pid="10291",process_name="./burn",{uuid}}} 2.5e+09\n'
    )
    owner = series(telemetry, "compute_busy_ratio").owner
    assert (owner.uuid, owner.index, owner.model) == (
        "GPU-1c67088e-9ecb-4564-bb97-6151ecc2ef64",
        1,
        "NVIDIA H200",
    )
    assert owner.pci_bus_id == "0000:02:00.0"
    assert values(telemetry, "compute_busy_ratio") == [0.98]
    assert values(telemetry, "memory_used_bytes", mig=None) == [33_934_016_512]
    assert values(telemetry, "memory_used_bytes", mig="2") == [4.2e10]
    assert values(telemetry, "throttle_power_seconds_total") == [12.5]
    assert values(telemetry, "process_memory_bytes", pid=10291, name="./burn", kind="process") == [2.5e9]


def test_nvidia_gpu_exporter_counts_xids_and_says_when_it_could_not_collect() -> None:
    line = 'nvidia_smi_xid_errors_total{uuid="ef427e4f-1970-42f2-ab0c-ecf0e56a33b9",xid="79"} '
    telemetry = scrapes(
        f"nvidia_smi_last_collect_success 1\n{line}0\n", f"nvidia_smi_last_collect_success 0\n{line}1\n"
    )
    assert [(m.code, m.is_new, m.at_ns) for m in telemetry.marks] == [(79, True, T0 + S)]
    assert note(telemetry, "telemetry_gap") == 1


# ── AMD ──


def test_amd_exporter_has_per_cent_mebibytes_microjoules_and_megabits() -> None:
    gpu = 'gpu_id="0",card_series="Instinct MI300X",hostname="h"'
    telemetry = read(
        f"amd_gpu_gfx_activity{{{gpu}}} 96\namd_gpu_used_vram{{{gpu}}} 183265\n"
        f"amd_gpu_package_power{{{gpu}}} 748\namd_gpu_energy_consumed{{{gpu}}} 1.4e17\n"
        f'amd_gpu_clock{{clock_type="system",clock_index="0",{gpu}}} 2100\n'
        f'amd_gpu_clock{{clock_type="system",clock_index="1",{gpu}}} 2000\namd_pcie_bandwidth{{{gpu}}} 800\n'
    )
    assert telemetry.format == "amd-exporter"
    assert values(telemetry, "compute_busy_ratio", index=0, host="h", model="Instinct MI300X") == [0.96]
    assert values(telemetry, "memory_used_bytes") == [183265 * 1024 * 1024]
    assert values(telemetry, "energy_joules_total") == [1.4e11]
    assert values(telemetry, "sm_clock_hertz") == [2.05e9]
    assert values(telemetry, "pcie_bytes_per_second") == [1e8]


def test_amd_exporter_means_nothing_by_max_uint_by_an_energy_of_zero_and_by_zeros_for_a_uuid() -> None:
    telemetry = read(
        'gpu_gfx_activity{gpu_uuid="00000000-0000-0000-0000-000000000000",'
        'gpu_partition_id="4294967295"} 65535\n'
        'gpu_energy_consumed{gpu_id="0"} 0\n'
    )
    assert telemetry.series == ()
    assert reasons(telemetry, "compute_busy_ratio") == {"blank": 1}
    assert reasons(telemetry, "energy_joules_total") == {"blank": 1}
    assert all(
        each.owner and each.owner.uuid is None and each.owner.mig is None for each in telemetry.missing
    )


def test_amd_partitions_other_than_the_first_tell_nothing_of_the_whole_card() -> None:
    gpu = 'gpu_id="{0}",gpu_partition_id="{0}",gpu_compute_partition_type="cpx",pcie_bus_id="0000:0c:00.0"'
    telemetry = read(
        "".join(
            f"amd_gpu_package_power{{{gpu.format(n)}}} {watts}\namd_gpu_used_vram{{{gpu.format(n)}}} {n}\n"
            for n, watts in ((0, 700), (1, 0))
        )
    )
    assert values(telemetry, "power_watts") == [700]
    assert values(telemetry, "memory_used_bytes", mig="1") == [1024 * 1024]


def test_amd_links_count_kilobytes_each_and_their_rates_add_up() -> None:
    def body(a: int, b: int) -> str:
        link = 'amd_gpu_xgmi_link_tx{{gpu_id="0",link_index="{}"}} {}\n'
        return 'amd_gpu_gfx_activity{gpu_id="0"} 1\n' + link.format(0, a) + link.format(1, b)

    assert values(scrapes(body(0, 0), body(1000, 500)), "nvlink_tx_bytes_per_second") == [1_500_000]


# ── Ascend ──


def test_npu_exporter_has_times_of_its_own_and_units_of_its_own() -> None:
    npu = '{id="3",model_name="910B",pod_name="train-0"}'
    telemetry = read(
        f"npu_chip_info_utilization{npu} 87 1700000000500\n"
        f"npu_chip_info_hbm_used_memory{npu} 32768 1700000000500\n"
        f"npu_chip_info_aicore_current_freq{npu} 1800 1700000000500\n"
        f"npu_chip_info_hccs_bandwidth_info_total_tx{npu} 2 1700000000500\n"
        f"npu_chip_info_pcie_tx_p_bw{npu} 3 1700000000500\nnpu_chip_info_pcie_tx_np_bw{npu} 1 1700000000500\n"
        f"npu_chip_info_bandwidth_tx{npu} 5 1700000000500\nnpu_chip_info_power{npu} -1 1700000000500\n"
    )
    assert (telemetry.format, telemetry.time) == ("npu-exporter", "sample")
    assert series(telemetry, "compute_busy_ratio", index=3).at_ns.tolist() == [T0 + S // 2]
    assert values(telemetry, "compute_busy_ratio") == [0.87]
    assert values(telemetry, "memory_used_bytes") == [32 * 1024**3]
    assert values(telemetry, "sm_clock_hertz") == [1.8e9]
    assert values(telemetry, "nvlink_tx_bytes_per_second") == [2e9]
    assert values(telemetry, "pcie_tx_bytes_per_second") == [4e9]
    assert values(telemetry, "rdma_tx_bytes_per_second", kind="link", name="roce3") == [5e6]
    assert reasons(telemetry, "power_watts") == {"blank": 1}


def test_an_error_code_of_an_npu_is_an_instant() -> None:
    lines = "".join(
        f'npu_chip_info_error_code{{id="0"}} {code} {1700000000000 + n * 1000}\n'
        for n, code in enumerate((0, 2147549200))
    )
    (mark,) = read(lines).marks
    assert (mark.kind, mark.code, mark.is_new, mark.at_ns) == ("error", 2147549200, True, T0 + S)


# ── Intel ──


def test_xpumd_has_hertz_bytes_and_a_counter_of_pcie() -> None:
    gpu = 'pci_bdf="0000:83:00.0"'

    def body(received: int) -> str:
        return (
            f'hw_gpu_utilization_ratio{{hw_gpu_task="all",{gpu}}} 0.52\n'
            f'hw_gpu_utilization_ratio{{hw_gpu_task="compute-all",{gpu}}} 0.4\n'
            f'hw_memory_usage_bytes{{hw_memory_location="device",{gpu}}} 8589934592\n'
            f'hw_temperature_celsius{{hw_sensor_location="memory",{gpu}}} 39\n'
            f'hw_gpu_io_bytes_total{{network_io_direction="receive",{gpu}}} {received}\n'
        )

    telemetry = scrapes(body(1000), body(4000))
    assert telemetry.format == "intel-xpum"
    assert values(telemetry, "compute_busy_ratio", pci_bus_id="0000:83:00.0") == [0.52, 0.52]
    assert values(telemetry, "memory_temperature_celsius") == [39, 39]
    assert values(telemetry, "pcie_rx_bytes_per_second") == [3000]


# ── gpud ──


def test_gpud_has_per_cent() -> None:
    telemetry = read('accelerator_nvidia_gpm_gpu_sm_occupancy_percent{gpu_id="GPU-1"} 7.739499086738595\n')
    assert values(telemetry, "sm_occupancy_ratio", uuid="GPU-1") == [pytest.approx(0.07739499086738595)]


# ── containers ──


def test_a_containers_quota_and_memory_are_its_own() -> None:
    box = 'container="main",pod="train-0",namespace="ml",instance="n1:10250"'

    def body(periods: int, throttled: int, cpu: float) -> str:
        return (
            f"container_cpu_cfs_periods_total{{{box}}} {periods}\n"
            f"container_cpu_cfs_throttled_periods_total{{{box}}} {throttled}\n"
            f"container_cpu_usage_seconds_total{{{box}}} {cpu}\n"
            f"container_memory_working_set_bytes{{{box}}} 1000\n"
            'container_memory_working_set_bytes{pod="train-0",namespace="ml"} 9\n'
        )

    telemetry = scrapes(body(100, 10, 5.0), body(200, 60, 35.0), step_s=10)
    owner = series(telemetry, "cgroup_throttled_ratio").owner
    assert (owner.kind, owner.name, owner.host) == ("process", "ml/train-0/main", "n1")
    assert values(telemetry, "cgroup_throttled_ratio") == [0.5]
    assert values(telemetry, "process_cpu_cores") == [3.0]
    assert values(telemetry, "process_resident_bytes") == [1000, 1000]
    assert telemetry.labels[owner] == {"pod": "train-0", "namespace": "ml", "container": "main"}
