"""What is said of telemetry and logs, in both languages: nothing that was not measured has a number."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace

from stepscope.model import report
from stepscope.model.signal import CLOCK_REASONS, SIGNALS
from stepscope.model.text import LANGS, Lang, number
from stepscope.views import markdown
from stepscope.views.counter import (
    DEVICE_COLUMNS,
    HOST_COLUMNS,
    device_rows,
    event_groups,
    host_rows,
    pattern_rows,
)
from stepscope.views.counter_word import (
    between,
    event_lines,
    lag_lines,
    moment,
    owner_table,
    pair,
    pattern_lines,
    progress_lines,
    reason_lines,
    representative_line,
    walk_head,
)
from stepscope.views.detail_signal import SIGNAL_TEXT, signal_text
from stepscope.views.label_signal import ABSENT, CLOCK_REASON, EVENT_KIND, SIGNAL, clock_reasons
from stepscope.views.terminal_counter import blocks
from tests.diagnose import build
from tests.views.measured import DCGM, DEVICES, HOST, T0, S, measured, signal
from tests.views.show import shown


def table(whole: report.Report, lang: Lang = "en", *, is_host: bool = False) -> list[dict[str, str]]:
    rows, columns = (host_rows(whole), HOST_COLUMNS) if is_host else (device_rows(whole), DEVICE_COLUMNS)
    heads, lines = owner_table(rows, columns, lang)
    return [dict(zip(heads, line, strict=True)) for line in lines]


def test_every_signal_reason_and_kind_of_event_has_a_title_in_both_languages() -> None:
    assert set(SIGNAL) == set(SIGNALS)
    assert set(CLOCK_REASON) == set(CLOCK_REASONS.values())
    assert set(EVENT_KIND) == set(report.EventKind.__args__)  # type: ignore[attr-defined]
    titles = [(SIGNALS[name].of, text.en) for name, text in SIGNAL.items()]
    assert len(set(titles)) == len(titles)


def test_every_column_is_of_signals_of_its_kind_of_owner() -> None:
    for scope, columns in (("device", DEVICE_COLUMNS), ("host", HOST_COLUMNS)):
        for column in columns:
            for name in (column.signal, column.beside, column.else_):
                assert name is None or SIGNALS[name].of == scope


def test_a_device_is_a_row_with_what_was_measured_and_dashes_for_the_rest() -> None:
    first, second = table(measured())
    assert first == {
        "device": "rank 0, device 0",
        "compute busy": "98.0 %",
        "SM active": "71.5 %",
        "tensor": "32.4 %",
        "DRAM": "44.4 %",
        "power / limit": "614 / 700 W",
        "clock / max": "1.76 / 1.98 GHz",
        "most memory / total": "61.5 / 79.6 GiB",
        "hottest / slowdown": "66 / 87 °C",
        "PCIe in / out": "1.22 GB/s / 344 MB/s",
        "NVLink in / out": "81.9 / 79.9 GB/s",
        "samples (covering)": "16 (100.0 %)",
    }
    assert {head for head, cell in second.items() if cell == ABSENT} == {"tensor", "DRAM", "NVLink in / out"}
    assert second["samples (covering)"] == "10–16 (62.5–100.0 %)"


def test_a_measured_zero_is_a_zero_and_no_dash() -> None:
    whole = replace(measured(), signals=(signal(0, "tensor_active_ratio", 0.0),))
    assert table(whole)[0]["tensor"] == "0.0 %"


def test_a_column_that_no_device_has_is_left_out() -> None:
    whole = replace(measured(), signals=(signal(0, "power_watts", 612.0),))
    assert list(table(whole)[0]) == ["device", "power / limit", "samples (covering)"]
    assert table(whole)[0]["power / limit"] == f"612 W / {ABSENT}"


def test_both_directions_together_stand_where_they_are_not_known_apart() -> None:
    whole = replace(measured(), signals=(signal(0, "pcie_bytes_per_second", 2.5e9),))
    assert table(whole)[0]["PCIe in / out"] == "2.50 GB/s"
    whole = replace(
        measured(),
        signals=(signal(0, "memory_used_ratio", 0.5), signal(0, "memory_total_bytes", 80.0 * 2**30)),
    )
    assert table(whole)[0]["most memory / total"] == "50.0 % / 80.0 GiB"


def test_of_two_sources_the_first_counts_and_a_process_is_no_row() -> None:
    one, other = signal(0, "power_watts", 612.0), signal(0, "power_watts", 100.0, source="other")
    process = replace(signal(0, "process_sm_ratio", 0.5), name="python")
    (row,) = table(replace(measured(), signals=(one, other, process)))
    assert row["power / limit"] == f"612 W / {ABSENT}"


def test_devices_without_uuid_on_two_hosts_are_two_rows_that_name_their_host() -> None:
    one = replace(signal(0, "power_watts", 612.0), device=report.Device(index=0), rank=None)
    rows = table(replace(measured(), signals=(one, replace(one, host="node2"))))
    assert [row["device"] for row in rows] == ["node1, device 0", "node2, device 0"]


def test_a_host_is_a_row_and_one_of_its_interfaces_is_not() -> None:
    (row,) = table(measured(), is_host=True)
    assert row["host"] == "node1"
    assert row["run queue / cores"] == "18 / 96"
    assert row["memory available / present"] == "412 / 1007 GiB"
    assert "network in / out" not in row


def test_the_lag_is_told_with_how_well_it_is_known() -> None:
    assert lag_lines(measured(), "en") == [
        "dcgm-exporter.prom: lag 600 ms (found; 500 ms to 700 ms fit), each value is over 1.00 s",
        "nvidia-smi.csv: lag 0 s to 4.00 s: ambiguous, each value is over 1.00 s",
        "node-exporter.prom: lag 0 s to 30.0 s: unknown",
    ]
    assert (
        lag_lines(measured(), "zh")[1]
        == "nvidia-smi.csv：滞后 0 s 至 4.00 s：有歧义，每个值为 1.00 s 内的平均"
    )
    declared = report.TelemetryClock(source="x", status="declared", lag_ns=0)
    nothing = report.TelemetryClock(source="y", status="unknown")
    whole = replace(measured(), clocks=report.Clocks(telemetry=(declared, nothing)))
    assert lag_lines(whole, "en") == ["x: lag 0 s (declared by the source)", "y: lag unknown"]


def test_reasons_for_lower_clocks_are_words_and_idleness_is_none() -> None:
    assert reason_lines(measured(), "en") == [
        "clocks held down by: power limit, temperature (driver), temperature (hardware) (rank 1, device 1)"
    ]
    idle = signal(0, "clock_event_reasons", 1.0)
    assert reason_lines(replace(measured(), signals=(idle,)), "en") == []
    assert clock_reasons(0x1004, "en") == ["power limit", "0x1000"]


def test_events_are_the_most_severe_first_then_the_newest_and_repeated_ones_are_one() -> None:
    lines, more = event_lines(measured(), "en")
    assert [line for _, line in lines] == [
        "[critical] out of memory, 2024-05-01 12:33:23 UTC, rank 0: CUDA out of memory. Tried to allocate "
        "2.00 GiB",
        "[critical] Xid 79, 2024-05-01 12:33:21 UTC, rank 1, device 1: GPU has fallen off the bus.",
        "[warning] error, 14 times, 2024-05-01 12:33:10 to 12:33:23 UTC, device 0: pcieport: AER: Corrected "
        "error received",
        "[info] start, 2024-05-01 12:32:55 UTC, rank 0: process group of 2 ranks initialised",
    ]
    assert more == 0
    _, more = event_lines(measured(), "en", most=2)
    assert more == 15


def test_the_same_xid_of_two_devices_is_two_events() -> None:
    one = report.Event(at_ns=T0, kind="xid", severity="critical", text="x", code=79, device=DEVICES[0])
    whole = replace(measured(), events=(one, replace(one, device=DEVICES[1]), replace(one, at_ns=T0 + S)))
    assert [group.count for group in event_groups(whole)] == [2, 1]


def test_progress_says_steps_speed_growth_and_loss() -> None:
    assert progress_lines(measured(), "en") == [
        "train.log: rank 0, steps 1 to 4,812 of 20,000, 2024-05-01 09:53:10 to 12:33:26 UTC, 2.00 s a step, "
        "median +8.3 % from the first to the last quarter, 131,072 tokens/s, 64 samples/s, loss 10.92 → 3.417"
    ]
    little = report.Progress(source="a.log", first_step=3, last_step=9)
    assert progress_lines(replace(measured(), progress=(little,)), "en") == ["a.log: steps 3 to 9"]


def test_patterns_that_hold_come_first_and_show_the_numbers_of_both_sides() -> None:
    assert [each.pattern for each in pattern_rows(measured())] == ["A", "B", "D"]
    lines = pattern_lines(measured(), "en")
    assert lines[0] == (
        "A, rank 0, device 0, effective: sm_active_mean 93.0 % (> 90.0 %); slow_gemm_share 27.0 % (>= 20.0 %)"
    )
    assert lines[1].endswith(
        "as written: sm_occupancy_mean 41.0 % (> 90.0 %); not measured: long_matmul_share"
    )
    assert not any(line.startswith("B") for line in lines)


@pytest.mark.parametrize("lang", LANGS)
def test_that_as_written_decides_nothing_is_said_wherever_patterns_are(lang: Lang) -> None:
    said = {"en": "shown and deciding nothing", "zh": "不作任何判定"}[lang]
    whole = measured(lang)
    for text in (shown(whole, lang, 400), markdown.render(whole, lang)):
        assert said in text
    assert said not in shown(replace(whole, patterns=()), lang, 400)


def test_english_titles_and_walks_are_told_in_chinese() -> None:
    assert walk_head(measured("zh").walks[0], "zh") == "依次排查：利用率低（rank 1，设备 1）"
    assert all(re.search("[\u4e00-\u9fff]", chinese) for _, chinese in SIGNAL_TEXT)


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (
            "sm_active_ratio 82% in the window, 61% in the rest; power_watts 612 W in the window, "
            "480 W in the rest.",
            "sm_active_ratio 窗口内为 82%、其余为 61%；power_watts 窗口内为 612 W、其余为 480 W",
        ),
        (
            "As in the rest of the run: power_watts, dram_active_ratio.",
            "与运行的其余部分一致：power_watts、dram_active_ratio",
        ),
        ("As in the rest of the run: a, b, c, d and 3 more.", "与运行的其余部分一致：a、b、c、d 等另有 3 项"),
        ("3 readings lie in the window; 5 are needed.", "窗口内只有 3 个读数，需要 5 个"),
        ("7 windows of equal length lie outside; 19 are needed.", "窗口外只有 7 个等长窗口，需要 19 个"),
        ("It rained.", "It rained."),
    ],
)
def test_whether_the_window_is_like_the_run_is_told_in_chinese(english: str, chinese: str) -> None:
    assert signal_text(english, "zh") == chinese
    assert signal_text(english, "en") == english


def test_a_window_that_is_not_like_the_run_is_said() -> None:
    assert representative_line(measured(), "en").startswith(
        "The window does not look like the rest of the run: "
    )
    assert representative_line(build.healthy(), "en") == ""


def test_times_are_wall_time_or_counted_from_the_beginning() -> None:
    assert moment(T0) == "2024-05-01 12:33:10 UTC"
    assert moment(2 * S) == "2.00 s"
    assert moment(0) == "0 s"
    assert between(T0, T0 + 86_400 * S, "en") == "2024-05-01 12:33:10 to 2024-05-02 12:33:10 UTC"
    assert moment(2**62).endswith("UTC")
    assert moment(10**30) == f"{10**30} ns"


def test_two_values_share_their_unit_where_it_is_the_same() -> None:
    assert pair("1.76 GHz", "1.98 GHz") == "1.76 / 1.98 GHz"
    assert pair("945 MHz", "1.98 GHz") == "945 MHz / 1.98 GHz"
    assert pair("18", "96") == "18 / 96"


@pytest.mark.parametrize(
    ("value", "unit", "told"),
    [
        (1.98e9, "Hz", "1.98 GHz"),
        (345e6, "Hz", "345 MHz"),
        (71.0, "celsius", "71 °C"),
        (612.0, "W", "612 W"),
        (240.0, "1/s", "240/s"),
        (18.0, "1", "18"),
        (3.6e6, "J", "3.60 MJ"),
        (0.002, "s", "2.00 ms"),
    ],
)
def test_units_of_signals_are_written_for_people(value: float, unit: str, told: str) -> None:
    assert number(value, unit) == told


def test_columns_go_into_blocks_that_fit_each_with_its_owner() -> None:
    assert blocks([10, 5, 5, 5, 5], 30) == [[0, 1, 2], [0, 3, 4]]
    assert blocks([10, 90, 5], 30) == [[0, 1], [0, 2]]
    assert blocks([10], 30) == [[0]]


def test_the_verdict_and_cards_stand_before_all_counters() -> None:
    text = shown(measured())
    places = [
        text.index(part) for part in ("Healthy", "[info] The device", "Events", "Device counters", "Patterns")
    ]
    assert places == sorted(places)


@pytest.mark.parametrize("make", [build.healthy, build.input_starved])
def test_a_report_without_telemetry_says_nothing_of_it(make: Any) -> None:
    for text in (shown(make()), markdown.render(make())):
        for title in ("Device counters", "Events", "Job progress", "Patterns", "Hints", "Gone through"):
            assert title not in text


def test_a_device_that_is_a_host_is_named_so() -> None:
    one = report.Event(at_ns=T0, kind="oom", severity="critical", text="Killed process", device=HOST)
    ((_, line),), _ = event_lines(replace(measured(), events=(one,)), "en")
    assert "UTC, Host: Killed" in line
    assert DCGM not in line
