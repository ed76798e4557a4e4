"""dcgm-exporter: units by the field's id, sentinels, MIG, copies, Xids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.sample import Telemetry
from stepscope.sources.dcgm_field import BY_NAME, FIELDS
from tests.sources.reading import note, read, reasons, series, values

S = 1_000_000_000
T0 = 1_700_000_000 * S
GPU = (
    'gpu="0",UUID="GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'
)


def scrapes(*bodies: str) -> Telemetry:
    """One body a second."""
    return read("".join(f"# scraped_at_ns {T0 + step * S}\n{body}" for step, body in enumerate(bodies)))


@pytest.mark.parametrize(
    ("field", "written", "signal", "value"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", "97", "compute_busy_ratio", 0.97),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", "97", "compute_busy_ratio", 0.97),
        ("dcgm_gpu_utilization", "97", "compute_busy_ratio", 0.97),
        ("DCGM_FI_DEV_FB_USED_PERCENT", "0.25", "memory_used_ratio", 0.25),
        ("DCGM_FI_DEV_FB_USED_RATIO", "0.25", "memory_used_ratio", 0.25),
        ("DCGM_FI_DEV_FB_USED", "8543", "memory_used_bytes", 8543 * 1024 * 1024),
        ("DCGM_FI_DEV_POWER_USAGE", "113.611", "power_watts", 113.611),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", "113.611", "power_watts", 113.611),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "128996013", "energy_joules_total", 128996.013),
        ("DCGM_FI_DEV_SM_CLOCK", "1980", "sm_clock_hertz", 1.98e9),
        ("DCGM_FI_DEV_POWER_VIOLATION", "2500000000", "throttle_power_seconds_total", 2.5),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "68", "clock_event_reasons", 68),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "68", "clock_event_reasons", 68),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "3", "nvlink_bytes_per_second", 3_072_000),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "421894", "pcie_tx_bytes_per_second", 421894),
        ("DCGM_FI_PROF_SM_ACTIVE", "0.777", "sm_active_ratio", 0.777),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", "0.777", "sm_active_ratio", 0.777),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "0.93", "tensor_active_ratio", 0.93),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "4", "pcie_replay_total", 4),
        ("DCGM_FI_DEV_SLOWDOWN_TEMP", "93", "slowdown_temperature_celsius", 93),
    ],
)
def test_a_field_has_the_unit_of_its_id_under_any_of_its_names(
    field: str, written: str, signal: str, value: float
) -> None:
    telemetry = read(f"{field}{{{GPU}}} {written}\n")
    assert values(telemetry, signal, index=0) == [pytest.approx(value, rel=1e-12)]
    assert telemetry.missing == ()


def test_a_type_in_the_text_changes_no_unit_and_no_rate() -> None:
    body = "# TYPE DCGM_FI_PROF_PCIE_TX_BYTES counter\n# TYPE DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL counter\n"
    body += f"DCGM_FI_PROF_PCIE_TX_BYTES{{{GPU}}} 5\nDCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{{{GPU}}} 1\n"
    telemetry = scrapes(body, body)
    assert values(telemetry, "pcie_tx_bytes_per_second") == [5, 5]
    assert values(telemetry, "nvlink_bytes_per_second") == [1_024_000, 1_024_000]


@pytest.mark.parametrize(
    ("field", "signal", "written", "reason"),
    [
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "140737488355328.0", "blank"),
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "140737488355329", "not_found"),
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "140737488355330", "not_supported"),
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "140737488355331", "no_permission"),
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "NaN", "blank"),
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "1.7", "out_of_range"),
        ("DCGM_FI_PROF_SM_ACTIVE", "sm_active_ratio", "-0.1", "out_of_range"),
        ("DCGM_FI_PROF_PCIE_TX_BYTES", "pcie_tx_bytes_per_second", "9223372036854775792", "blank"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius", "9.223372036854776e+18", "blank"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius", "2147483634", "not_supported"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_celsius", "1.8446744073709552e+19", "blank"),
        ("DCGM_FI_DEV_GPU_UTIL", "compute_busy_ratio", "7407936", "out_of_range"),
        ("DCGM_FI_DEV_GPU_UTIL", "compute_busy_ratio", "4294967295", "out_of_range"),
        ("DCGM_FI_DEV_FB_USED", "memory_used_bytes", "+Inf", "blank"),
    ],
)
def test_a_sentinel_is_missing_with_its_reason_and_never_a_sample(
    field: str, signal: str, written: str, reason: str
) -> None:
    telemetry = read(f"{field}{{{GPU}}} {written}\n")
    assert telemetry.series == ()
    assert reasons(telemetry, signal) == {reason: 1}


SENTINELS = (
    ["NaN", "+Inf", "-Inf", "1.8446744073709552e+19", "-1e300"]
    + [str(2**63 - 16 + each) for each in range(4)]
    + ["9.223372036854776e+18"]
)


@given(st.sampled_from(sorted(BY_NAME)), st.sampled_from(SENTINELS))
def test_no_field_makes_a_number_of_a_sentinel(name: str, written: str) -> None:
    telemetry = read(f"{name}{{{GPU}}} {written}\n")
    assert telemetry.series == ()
    assert sum(each.count for each in telemetry.missing) == 1


@given(st.sampled_from(sorted(FIELDS)), st.integers(0, 3))
def test_no_field_of_a_double_or_an_int_makes_a_number_of_its_types_blank(id_: int, offset: int) -> None:
    row = FIELDS[id_]
    blank = 2**47 if row.field.blank == "double" else 0x7FFFFFF0
    telemetry = read(f"{row.names[0]}{{{GPU}}} {blank + offset}\n")
    assert telemetry.series == ()


def test_a_family_that_is_declared_and_has_no_sample_is_missing() -> None:
    telemetry = read(
        "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\n# TYPE DCGM_FI_DEV_SM_CLOCK gauge\n"
        f"DCGM_FI_DEV_SM_CLOCK{{{GPU}}} 9\n"
    )
    assert reasons(telemetry, "temperature_celsius") == {"blank": 1}


def test_a_device_is_one_under_any_spelling_of_its_labels() -> None:
    telemetry = read(
        'DCGM_FI_DEV_GPU_TEMP{gpu="3",uuid="GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005",hostname="n2",'
        'pci_bus_id="00000000:A8:00.0"} 30\n'
    )
    owner = telemetry.series[0].owner
    assert (owner.uuid, owner.index, owner.host) == ("GPU-c4529c8d-69c4-b61d-e0bc-7b2460096005", 3, "n2")
    assert owner.pci_bus_id == "0000:a8:00.0"


def test_an_instance_of_mig_is_an_owner_and_what_is_of_the_device_is_kept_once() -> None:
    mig = GPU + ',GPU_I_PROFILE="1g.10gb",GPU_I_ID="{}"'
    body = "".join(
        f"DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{mig.format(number)}}} 0.{number}\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{mig.format(number)}}} 70\n"
        f"DCGM_FI_DEV_FB_USED{{{mig.format(number)}}} {number}\n"
        for number in (7, 9)
    )
    telemetry = read(body)
    assert values(telemetry, "graphics_engine_active_ratio", mig="7") == [0.7]
    assert values(telemetry, "graphics_engine_active_ratio", mig="9") == [0.9]
    assert values(telemetry, "memory_used_bytes", mig="9") == [9 * 1024 * 1024]
    assert values(telemetry, "power_watts", mig=None) == [70]
    assert reasons(telemetry, "power_watts") == {"duplicate": 1}


def test_a_ratio_above_one_on_mig_is_clipped_and_said() -> None:
    telemetry = read(f'DCGM_FI_PROF_SM_ACTIVE{{{GPU},GPU_I_ID="7"}} 1.4\n')
    assert values(telemetry, "sm_active_ratio") == [1.0]
    assert note(telemetry, "unit_suspect") == 1


def test_time_slicing_copies_a_device_for_each_pod_and_it_counts_once() -> None:
    body = "".join(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{GPU},pod="{pod}"}} 0.714\n' for pod in ("p1", "p2", "p3")
    )
    telemetry = scrapes(body, body)
    assert values(telemetry, "graphics_engine_active_ratio") == [0.714, 0.714]
    assert reasons(telemetry, "graphics_engine_active_ratio") == {"duplicate": 4}
    assert list(telemetry.labels.values()) == [{"pod": "p1,p2,p3"}]


def test_the_pod_is_the_workloads_and_not_the_exporters() -> None:
    renamed = 'exported_pod="train-0",exported_namespace="ml",pod="exporter-x",container="exporter"'
    assert list(read(f"DCGM_FI_DEV_GPU_TEMP{{{GPU},{renamed}}} 30\n").labels.values()) == [
        {"pod": "train-0", "namespace": "ml"}
    ]
    own = 'pod="nvidia-dcgm-exporter-w",container="nvidia-dcgm-exporter",job="dcgm",instance="10.0.0.1:9400"'
    assert read(f"DCGM_FI_DEV_GPU_TEMP{{{GPU},{own}}} 30\n").labels == {}
    slurm = read(f'DCGM_FI_DEV_GPU_TEMP{{{GPU},jobid="512",userid="7"}} 30\n')
    assert list(slurm.labels.values()) == [{"job": "512", "user": "7"}]


def test_a_secret_in_a_label_is_removed_and_counted() -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    telemetry = read(f'DCGM_FI_DEV_GPU_TEMP{{{GPU},pod="train-{token}"}} 30\n')
    assert token not in str(telemetry)
    assert telemetry.num_redacted == 1


@pytest.mark.parametrize(
    ("codes", "marks"),
    [
        ((0, 0, 48), [(2, 48, True)]),
        ((79, 79), [(0, 79, False)]),
        ((0, 31, 31, 43), [(1, 31, True), (3, 43, True)]),
        ((48, 0, 48), [(0, 48, False), (2, 48, True)]),
        ((0, 0), []),
    ],
)
def test_the_xid_gauge_marks_its_edges_and_its_first_value_may_be_old(
    codes: tuple[int, ...], marks: list[tuple[int, int, bool]]
) -> None:
    telemetry = scrapes(*(f"DCGM_FI_DEV_XID_ERRORS{{{GPU}}} {code}\n" for code in codes))
    assert [((m.at_ns - T0) // S, m.code, m.is_new) for m in telemetry.marks] == marks
    assert all(mark.kind == "xid" for mark in telemetry.marks)


def test_an_xid_that_renames_its_series_is_one_gauge() -> None:
    before = f'DCGM_FI_DEV_XID_ERRORS{{{GPU},err_code="0",err_msg="No Error"}} 0\n'
    after = f'DCGM_FI_DEV_XID_ERRORS{{{GPU},err_code="94",err_msg="Contained ECC error"}} 94\n'
    telemetry = scrapes(before, after)
    assert [(m.code, m.is_new, m.text) for m in telemetry.marks] == [
        (94, True, "Xid 94: Contained ECC error")
    ]


def test_a_count_of_xids_marks_its_rises() -> None:
    line = f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},window_size_in_ms="300000",xid="42"}} '
    other = f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 30\n"
    telemetry = scrapes(other, other + line + "1\n", other + line + "1\n", other + line + "3\n")
    assert [((m.at_ns - T0) // S, m.code, m.is_new) for m in telemetry.marks] == [
        (1, 42, True),
        (3, 42, True),
    ]
    assert [mark.is_new for mark in scrapes(line + "2\n").marks] == [False]


def test_an_xid_on_each_instance_of_a_device_is_one_event_of_the_device() -> None:
    def body(code: int) -> str:
        return "".join(f'DCGM_FI_DEV_XID_ERRORS{{{GPU},GPU_I_ID="{n}"}} {code}\n' for n in (7, 9))

    (mark,) = scrapes(body(0), body(94)).marks
    assert (mark.code, mark.owner and mark.owner.mig) == (94, None)


def test_a_device_whose_series_all_vanish_is_marked_and_a_single_series_is_missing() -> None:
    other = GPU.replace('gpu="0"', 'gpu="1"').replace("c4529c8d", "00000001")
    both = f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 30\nDCGM_FI_DEV_SM_CLOCK{{{GPU}}} 9\n"
    both += f"DCGM_FI_DEV_GPU_TEMP{{{other}}} 31\n"
    left = f"DCGM_FI_DEV_GPU_TEMP{{{GPU}}} 30\n"
    telemetry = scrapes(both, both, left, left)
    assert reasons(telemetry, "sm_clock_hertz") == {"vanished": 2}
    assert reasons(telemetry, "temperature_celsius") == {"vanished": 2}
    assert [(m.kind, m.at_ns, m.owner and m.owner.index) for m in telemetry.marks] == [("exit", T0 + S, 1)]


def test_an_energy_counter_that_falls_is_a_reset_and_a_new_start() -> None:
    telemetry = scrapes(
        *(f"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{{{GPU}}} {mj}\n" for mj in (5000, 6000, 100, 200))
    )
    assert series(telemetry, "energy_joules_total").num_resets == 1
    assert [(m.kind, m.at_ns) for m in telemetry.marks] == [("start", T0 + 2 * S)]


def test_of_two_fields_of_one_signal_the_better_counts_and_parts_are_summed() -> None:
    telemetry = read(
        f"DCGM_FI_DEV_POWER_USAGE_INSTANT{{{GPU}}} 690\nDCGM_FI_DEV_POWER_USAGE{{{GPU}}} 640\n"
        f"DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL{{{GPU}}} 2\n"
        f"DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{{{GPU}}} 3\n"
    )
    assert values(telemetry, "power_watts") == [640]
    assert values(telemetry, "nvlink_error_total") == [5]


def test_raw_cycles_and_bytes_become_ratios_and_rates_of_exactly_the_interval() -> None:
    def body(elapsed: int, active: int, sent: int) -> str:
        return (
            f"DCGM_FI_PROF_SM_CYCLES_ELAPSED_TOTAL{{{GPU}}} {elapsed}\n"
            f"DCGM_FI_PROF_SM_CYCLES_ACTIVE_TOTAL{{{GPU}}} {active}\n"
            f"DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL{{{GPU}}} {sent}\n"
        )

    big = 2**47 + 1000  # past the blank of a double, and no blank here
    telemetry = scrapes(body(big, 10, 0), body(big + 1000, 760, 4096))
    assert values(telemetry, "sm_active_ratio") == [0.75]
    assert values(telemetry, "pcie_tx_bytes_per_second") == [4096]
    assert series(telemetry, "sm_active_ratio").at_ns.tolist() == [T0 + S]


def test_series_of_a_link_a_switch_or_a_processor_are_no_devices() -> None:
    telemetry = read(f'DCGM_FI_DEV_GPU_TEMP{{nvswitch="0",{GPU}}} 30\nDCGM_FI_DEV_GPU_TEMP{{{GPU}}} 31\n')
    assert values(telemetry, "temperature_celsius") == [31]
    assert telemetry.num_samples == 2
