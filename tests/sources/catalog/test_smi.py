"""What nvidia-smi, dcgmi and amd-smi print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.error import InputError
from stepscope.sources.blank import REASON_OF_TEXT
from tests.sources.reading import note, read, reasons, series, values

S = 1_000_000_000

# ── nvidia-smi --query-gpu ──

HEADER = (
    "timestamp, name, uuid, pci.bus_id, index, pstate, clocks_event_reasons.active, "
    "clocks_event_reasons_counters.sw_power_cap [us], memory.used [MiB], utilization.gpu [%], "
    "remapped_rows.pending, temperature.gpu, power.draw [W], clocks.current.sm [MHz]"
)
ROW = (
    "2026/07/14 08:12:5{second}.353, NVIDIA H100 80GB HBM3, GPU-00000000-0000-0000-0000-00000000000{gpu}, "
    "00000000:00:09.0, {gpu}, P0, 0x0000000000000004, 2500000 us, 19818 MiB, 98 %, No, 59, 631.95 W, 1980 MHz"
)


def test_a_query_is_read_by_name_unit_and_word() -> None:
    telemetry = read(
        "\n".join([HEADER, *(ROW.format(second=s, gpu=g) for s in (3, 4) for g in (0, 1))]) + "\n"
    )
    assert (telemetry.format, telemetry.time) == ("nvidia-smi-query", "sample")
    assert values(telemetry, "power_watts", index=0) == [631.95, 631.95]
    assert values(telemetry, "compute_busy_ratio", index=1) == [0.98, 0.98]
    assert values(telemetry, "memory_used_bytes", index=1) == [19818 * 1024 * 1024] * 2
    assert values(telemetry, "sm_clock_hertz", index=0) == [1.98e9, 1.98e9]
    assert values(telemetry, "clock_event_reasons", index=0) == [4, 4]
    assert values(telemetry, "throttle_power_seconds_total", index=0) == [2.5, 2.5]
    assert values(telemetry, "performance_state", index=0) == [0, 0]
    assert values(telemetry, "row_remap_pending", index=0) == [0, 0]
    owner = series(telemetry, "power_watts", index=1).owner
    assert (owner.uuid, owner.pci_bus_id, owner.model) == (
        "GPU-00000000-0000-0000-0000-000000000001",
        "0000:00:09.0",
        "NVIDIA H100 80GB HBM3",
    )
    assert series(telemetry, "power_watts", index=0).at_ns.tolist() == [
        1_784_016_773_353_000_000,
        1_784_016_774_353_000_000,
    ]
    assert note(telemetry, "time_zone_unknown") == 1


def test_without_units_in_the_cells_the_header_tells_and_without_both_the_habit() -> None:
    assert values(read("index, memory.used [MiB]\n0, 8\n"), "memory_used_bytes") == [8 * 1024 * 1024]
    assert values(read("index, memory.used\n0, 8\n"), "memory_used_bytes") == [8 * 1024 * 1024]
    assert values(read("index, memory.used [MiB]\n0, 8 GiB\n"), "memory_used_bytes") == [8 * 1024**3]


def test_a_unit_of_something_else_is_no_sample() -> None:
    telemetry = read("index, power.draw [W]\n0, 8 MiB\n")
    assert telemetry.series == ()
    assert note(telemetry, "unit_suspect") == 1


@given(st.sampled_from(sorted(REASON_OF_TEXT)), st.booleans())
def test_a_word_in_the_place_of_a_number_is_never_a_number(word: str, in_brackets: bool) -> None:
    cell = f"[{word.title()}]" if in_brackets else word
    telemetry = read(f"index, utilization.gpu [%], power.draw [W]\n0, {cell}, 5 W\n")
    assert telemetry.of("compute_busy_ratio") == ()
    assert sum(reasons(telemetry, "compute_busy_ratio").values()) == 1
    assert values(telemetry, "power_watts") == [5]


@given(st.text(st.characters(exclude_characters=",\n\r#\0", exclude_categories=("Cs",)), max_size=12))
def test_rubbish_in_a_cell_is_a_sample_only_where_it_is_a_number(cell: str) -> None:
    telemetry = read(f"index, utilization.gpu [%], power.draw [W]\n0, {cell}, 5 W\n")
    if telemetry.of("compute_busy_ratio"):
        assert any(letter.isdigit() for letter in cell)
    else:
        assert (
            sum(reasons(telemetry, "compute_busy_ratio").values()) + note(telemetry, "malformed_lines") >= 1
        )


def test_reasons_of_nvidia_smi_are_kept() -> None:
    telemetry = read("index, power.draw [W], utilization.gpu [%]\n0, [Insufficient Permissions], [N/A]\n")
    assert reasons(telemetry, "power_watts") == {"no_permission": 1}
    assert reasons(telemetry, "compute_busy_ratio") == {"not_supported": 1}


def test_a_second_header_and_a_row_that_is_cut_are_no_samples() -> None:
    row = "0, 98 %, 5 W"
    telemetry = read(
        f"index, utilization.gpu [%], power.draw [W]\n{row}\n"
        f"index, utilization.gpu [%], power.draw [W]\n{row}\n0, 9"
    )
    assert values(telemetry, "power_watts") == [5, 5]
    assert (note(telemetry, "truncated"), note(telemetry, "malformed_lines")) == (1, 0)
    assert series(telemetry, "power_watts").at_ns.tolist() == [0, S]


def test_rows_without_their_header_are_refused_with_the_reason() -> None:
    with pytest.raises(InputError, match="noheader"):
        read("2026/07/14 08:12:53.353, 98 %, 5 W\n")


# ── nvidia-smi --query-compute-apps ──


def test_processes_keep_their_commas_and_lose_their_secrets() -> None:
    token = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"
    telemetry = read(
        "timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n"
        f"2026/07/14 09:00:44.742, GPU-1, 21180, python train.py, --token {token}, 2296 MiB\n"
        "2026/07/14 09:00:44.742, GPU-1, 21181, [Not Found], [N/A]\n"
    )
    assert values(telemetry, "process_memory_bytes", pid=21180) == [2296 * 1024 * 1024]
    assert "python train.py" in (series(telemetry, "process_memory_bytes").owner.name or "")
    assert token not in str(telemetry)
    assert telemetry.num_redacted >= 1
    assert reasons(telemetry, "process_memory_bytes") == {"not_supported": 1}


def test_no_process_is_an_answer() -> None:
    telemetry = read("timestamp, gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n")
    assert (telemetry.format, telemetry.series) == ("nvidia-smi-apps", ())


# ── nvidia-smi dmon, pmon ──

DMON = "# gpu    pwr  gtemp  mtemp     sm    mem   mclk   pclk     fb  rxpci  txpci\n"
UNITS = "# Idx      W      C      C      %      %    MHz    MHz     MB   MB/s   MB/s\n"


def test_dmon_without_times_has_a_row_a_second_for_each_device() -> None:
    telemetry = read(
        DMON + UNITS + "    0    438     55      -     97     10   2619   1980   9000     12      3\n"
        "    1    440     55      -     96     10   2619   1980   9000     12      3\n" + DMON + UNITS +
        "    0    437     56      -     95     10   2619   1980   9000     12      3\n"
    )  # fmt: skip
    assert telemetry.time == "none"
    assert series(telemetry, "power_watts", index=0).at_ns.tolist() == [0, S]
    assert values(telemetry, "compute_busy_ratio", index=0) == [0.97, 0.95]
    assert values(telemetry, "sm_clock_hertz", index=1) == [1.98e9]
    assert values(telemetry, "memory_used_bytes", index=1) == [9000 * 1024 * 1024]
    assert values(telemetry, "pcie_rx_bytes_per_second", index=1) == [12e6]
    assert reasons(telemetry, "memory_temperature_celsius") == {"blank": 3}


def test_dmon_with_dates_has_times_and_with_a_clock_alone_distances() -> None:
    dated = "#Date       Time        gpu    pwr\n#YYYYMMDD   HH:MM:SS    Idx      W\n"
    telemetry = read(dated + " 20260714   09:00:44      0    438\n 20260714   09:00:49      0    440\n")
    assert telemetry.time == "sample"
    assert series(telemetry, "power_watts").at_ns.tolist() == [1_784_019_644 * S, 1_784_019_649 * S]
    clock = "#Time        gpu    pwr\n#HH:MM:SS    Idx      W\n"
    telemetry = read(clock + " 23:59:58      0    438\n 00:00:03      0    440\n")
    assert telemetry.time == "none"
    assert series(telemetry, "power_watts").at_ns.tolist() == [0, 5 * S]


def test_gpm_columns_are_per_cent_and_mebibytes_and_the_first_sample_is_none() -> None:
    telemetry = read(
        "# gpu  smutil  mmaact   nvlrx   nvltx\n# Idx   GPM:%   GPM:%  GPM:MiB/s  GPM:MiB/s\n"
        "    0       -       -       -       -\n    0      81      62     100     200\n"
    )
    assert values(telemetry, "sm_active_ratio") == [0.81]
    assert values(telemetry, "tensor_active_ratio") == [0.62]
    assert values(telemetry, "nvlink_rx_bytes_per_second") == [100 * 1024 * 1024]
    assert values(telemetry, "nvlink_tx_bytes_per_second") == [200 * 1024 * 1024]
    assert reasons(telemetry, "sm_active_ratio") == {"blank": 1}


def test_rows_under_a_later_header_of_other_columns_are_no_rows() -> None:
    telemetry = read("# gpu  pwr\n    0    438\n# gpu  sm\n    0   97\n# gpu  pwr\n    0    439\n")
    assert values(telemetry, "power_watts") == [438, 439]
    assert note(telemetry, "malformed_lines") == 1


def test_lines_that_are_no_rows_are_counted_with_their_place() -> None:
    telemetry = read("# gpu    pwr  gtemp\n    0    438     55\nnvmlDeviceGetName\n    0    438\n")
    assert ("malformed_lines", 2, "no row: the first at line 3") in telemetry.notes


def test_pmon_tells_processes_apart_and_a_share_above_all_is_none() -> None:
    head = (
        "# gpu         pid   type     sm    mem     fb    command\n"
        "# Idx           #    C/G      %      %     MB    name\n"
    )
    rows = (
        "    0      21180     C     99      1   1272    python train.py\n"
        "    0      21181     C    183      1      5    old\n"
    )
    telemetry = read(head + rows + rows + "    1          -     -      -      -      -    -\n")
    assert values(telemetry, "process_sm_ratio", pid=21180, index=0) == [0.99, 0.99]
    assert series(telemetry, "process_sm_ratio", pid=21180).at_ns.tolist() == [0, S]
    assert series(telemetry, "process_memory_bytes", pid=21180).owner.name == "python train.py"
    assert reasons(telemetry, "process_sm_ratio") == {"out_of_range": 2}


# ── nvidia-smi topo ──


@pytest.mark.parametrize("blank", ["\t", "      "])
def test_a_topology_is_a_matrix_with_affinities(blank: str) -> None:
    lines = [
        ["\x1b[4m", "GPU0", "GPU1", "NIC0", "CPU Affinity", "NUMA Affinity", "GPU NUMA ID\x1b[0m"],
        ["GPU0", " X ", "NV18", "PIX", "0-31,64-95", "0", "N/A"],
        ["GPU1", "NV18", " X ", "SYS", "32-63", "1", "N/A"],
        ["NIC0", "PIX", "SYS", " X ", "", "", ""],
    ]
    telemetry = read("\n".join(blank.join(line) for line in lines) + "\n\nLegend:\n\n  X    = Self\n")
    found = telemetry.topology
    assert found is not None
    assert found.names == ("GPU0", "GPU1", "NIC0")
    assert found.links["GPU0", "GPU1"] == "NV18"
    assert found.links["NIC0", "GPU1"] == "SYS"
    assert dict(found.cpu_affinity) == {"GPU0": "0-31,64-95", "GPU1": "32-63"}
    assert dict(found.numa) == {"GPU0": 0, "GPU1": 1}
    assert telemetry.series == ()


# ── dcgmi dmon ──


def test_dcgmi_rows_of_instances_belong_to_the_device_above_them() -> None:
    head = "# Entity  GRACT  TENSO  POWER\n      Id\n"
    telemetry = read(
        head
        + "    GPU 0  0.845  0.816  300.5\n  GPU-I 0  0.986  0.952  N/A\n  GPU-I 1  0.985  0.952  N/A\n" * 2
    )
    assert values(telemetry, "graphics_engine_active_ratio", index=0, mig=None) == [0.845, 0.845]
    assert values(telemetry, "tensor_active_ratio", index=0, mig="1") == [0.952, 0.952]
    assert series(telemetry, "tensor_active_ratio", mig="1").at_ns.tolist() == [0, S]
    assert values(telemetry, "power_watts") == [300.5, 300.5]
    assert reasons(telemetry, "power_watts") == {"blank": 4}


def test_dcgmi_without_its_header_or_with_no_known_column_is_refused() -> None:
    with pytest.raises(InputError, match="names the columns"):
        read("    GPU 0  0.429  0.429\n  GPU-I 0  0.000  0.000\n")
    with pytest.raises(InputError, match="no column that is known"):
        read("# Entity  ZZZZZ\n      Id\n    GPU 0  0.5\n")


# ── amd-smi ──


def test_amd_smi_has_epochs_lists_in_cells_and_a_clock_for_each_engine() -> None:
    telemetry = read(
        "timestamp,gpu,gfx_activity,umc_activity,vcn_activity,socket_power,gfx_0_clk,gfx_1_clk,gfx_0_max_clk,hotspot,mem\n"
        "1786553852,0,97,40,\"['N/A', 'N/A']\",742,2100,2000,2400,61,N/A\n"
        "1786553853,0,65535,41,\"['N/A', 'N/A']\",N/A,N/A,N/A,2400,62,55\n"
    )
    assert telemetry.format == "amd-smi"
    assert values(telemetry, "compute_busy_ratio", index=0) == [0.97]
    assert reasons(telemetry, "compute_busy_ratio") == {"not_supported": 1}
    assert values(telemetry, "sm_clock_hertz") == [2.05e9]
    assert values(telemetry, "power_watts") == [742]
    assert values(telemetry, "temperature_celsius") == [61, 62]
    assert values(telemetry, "memory_temperature_celsius") == [55]
    assert series(telemetry, "temperature_celsius").at_ns.tolist() == [1_786_553_852 * S, 1_786_553_853 * S]
