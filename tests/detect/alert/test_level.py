"""Conditions of devices: each fires when just met and not when just missed, and what is absent is unknown."""

from __future__ import annotations

import pytest

from stepscope.detect.alert.table import TABLE
from stepscope.detect.watch import Watch
from tests.detect.alert.series import NS, START_S, fired, second, told_by

LOAD = {"compute_busy_ratio": "0.9"}
CLOCK = {"sm_clock_hertz": "1.4e9", "sm_clock_max_hertz": "2e9", **LOAD}
FULL = {"sm_clock_hertz": "2e9", "sm_clock_max_hertz": "2e9", **LOAD}
THERMAL, BRAKE, CAP, NONE = "32", "128", "4", "0"

# (condition, just met, just missed, how long it takes): constant series, held as long as told.
MET: tuple[tuple[str, dict[str, str], dict[str, str], int], ...] = (
    ("memory-high", {"memory_used_ratio": "0.90"}, {"memory_used_ratio": "0.899"}, 300),
    (
        "temperature-at-limit",
        {"temperature_celsius": "87", "slowdown_temperature_celsius": "87"},
        {"temperature_celsius": "86.9", "slowdown_temperature_celsius": "87"},
        30,
    ),
    (
        "clock-thermal",
        {**CLOCK, "clock_event_reasons": THERMAL},
        {**FULL, "clock_event_reasons": THERMAL},
        7,
    ),
    ("power-brake", {**CLOCK, "clock_event_reasons": BRAKE}, {**CLOCK, "clock_event_reasons": NONE}, 7),
    (
        "power-capped",
        {**CLOCK, "clock_event_reasons": CAP, "power_limit_watts": "500", "power_limit_default_watts": "700"},
        {**CLOCK, "clock_event_reasons": CAP, "power_limit_watts": "700", "power_limit_default_watts": "700"},
        7,
    ),
    ("clock-locked", {**CLOCK, "clock_event_reasons": NONE}, {**CLOCK, "clock_event_reasons": CAP}, 17),
    ("row-remap-pending", {"row_remap_pending": "1"}, {"row_remap_pending": "0"}, 5),
    ("row-remap-failed", {"row_remap_failed": "1"}, {"row_remap_failed": "0"}, 5),
    (
        "pcie-degraded",
        {"pcie_link_gen": "4", "pcie_link_gen_max": "5", "pcie_link_width": "16", "pcie_link_width_max": "16",
         **LOAD},
        {"pcie_link_gen": "4", "pcie_link_gen_max": "5", "pcie_link_width": "16", "pcie_link_width_max": "16",
         "compute_busy_ratio": "0.4"},
        15,
    ),
    ("busy-low", {"compute_busy_ratio": "0.20"}, {"compute_busy_ratio": "0.21"}, 600),
    ("idle", {"compute_busy_ratio": "0.0499"}, {"compute_busy_ratio": "0.0501"}, 239),
)  # fmt: skip


def _held(row: dict[str, str], seconds: int) -> dict[str, str]:
    return {name: f"{value}x{seconds}" for name, value in row.items()}


@pytest.mark.parametrize(("condition", "met", "missed", "takes_s"), MET, ids=[each[0] for each in MET])
def test_it_fires_when_just_met_and_not_a_second_sooner_nor_when_just_missed(
    condition: str, met: dict[str, str], missed: dict[str, str], takes_s: int
) -> None:
    assert fired(told_by(_held(met, takes_s + 3)), condition) == [takes_s]
    assert fired(told_by(_held(met, takes_s)), condition) == []
    assert fired(told_by(_held(missed, takes_s + 3)), condition) == []


@pytest.mark.parametrize(("condition", "met", "missed", "takes_s"), MET, ids=[each[0] for each in MET])
def test_without_one_of_its_signals_it_is_unknown_and_never_fires(
    condition: str, met: dict[str, str], missed: dict[str, str], takes_s: int
) -> None:
    del missed
    seconds = min(takes_s + 3, 40) if takes_s < 300 else takes_s + 3
    for name in met:
        if name.endswith("_max"):
            continue  # the highest that was seen stands for it
        kept = {each: value for each, value in met.items() if each != name}
        if kept:
            assert fired(told_by(_held(kept, seconds)), condition) == []


def test_every_level_condition_that_is_on_has_its_case_here_or_below() -> None:
    below = {"memory-growing", "link-errors", "saw-tooth", "busy-power-falling"}
    here = {each[0] for each in MET} | below
    assert {each.id for each in TABLE if each.how == "level" and each.is_on} == here


def test_memory_that_keeps_growing_is_told_and_memory_that_is_flat_or_jumps_is_not() -> None:
    # Needs steps that advance: see test_watch.py; without marks nothing is known of them.
    rising = " ".join(f"{0.5 + n / 1000:.3f}" for n in range(120))
    assert fired(told_by({"memory_used_ratio": rising}), "memory-growing") == []


def test_link_errors_are_counted_by_their_growth_and_not_by_their_value() -> None:
    growing = " ".join(str(1000 + 2 * n) for n in range(40))
    assert fired(told_by({"nvlink_error_total": growing}), "link-errors") == [15]
    assert fired(told_by({"nvlink_error_total": "5000x40"}), "link-errors") == []
    few = " ".join(str(1000 + n // 4) for n in range(80))
    assert fired(told_by({"nvlink_error_total": few}), "link-errors") == []


def test_utilisation_and_power_that_fall_together_are_a_hint_and_only_together() -> None:
    fall = {"compute_busy_ratio": "0.9x800 0.3x150", "power_watts": "600x800 200x150"}
    told = [each for _, each in told_by(fall) if each.condition == "busy-power-falling"]
    assert told
    assert not any(each.pages for each in told)
    alone = {"compute_busy_ratio": "0.9x800 0.3x150", "power_watts": "600x950"}
    assert fired(told_by(alone), "busy-power-falling") == []


def test_the_literal_eighty_degrees_is_off_until_a_site_turns_it_on() -> None:
    hot = {"temperature_celsius": "81x303", "slowdown_temperature_celsius": "90x303"}
    assert told_by(hot) == []
    watch = Watch(thresholds={"temperature-over-80": {"on": True}})
    assert fired(told_by(hot, watch=watch), "temperature-over-80") == [300]


# ── for, hysteresis, unknown ──


def test_a_gap_in_the_samples_begins_the_time_anew() -> None:
    broken = {"memory_used_ratio": "0.95x200 _x30 0.95x200"}
    assert fired(told_by(broken), "memory-high") == []
    # A lost scrape or two are none: the last value stands for five seconds.
    assert fired(told_by({"memory_used_ratio": "0.95x200 _x4 0.95x200"}), "memory-high") == [300]


def test_an_alarm_is_over_only_when_it_was_well_beyond_for_long_enough() -> None:
    near = {"memory_used_ratio": "0.95x310 0.89x100"}  # below the threshold, above what clears
    assert [each.end_ns for _, each in told_by(near)] == [None]
    back = told_by({"memory_used_ratio": "0.95x310 0.80x10 0.95x5 0.80x40"})
    assert [(at, each.end_ns) for at, each in back] == [
        (300, None),
        (355, (START_S + 325) * NS),
    ]


def test_an_alarm_whose_series_stops_stays_and_is_said_to_be_unknown() -> None:
    told = told_by({"memory_used_ratio": "0.95x310 _x60 0.95x5"})
    assert [(at, each.end_ns, "no samples" in each.text) for at, each in told] == [
        (300, None, False),
        (315, None, True),
        (370, None, False),
    ]
    assert len({each.id for _, each in told}) == 1


def test_what_comes_again_after_it_was_over_is_another_alarm_with_a_beginning_of_its_own() -> None:
    told = [each for _, each in told_by({"row_remap_failed": "1x10 0x100 1x10"})]
    first, over, again = told
    assert (first.id, over.end_ns is None) == (over.id, False)
    assert again.id != first.id
    assert again.onset_ns == (START_S + 110) * NS


def test_a_value_that_cannot_be_is_none() -> None:
    for value in ("-1e18", "7"):
        assert told_by({"compute_busy_ratio": f"{value}x700"}) == []
    assert fired(told_by({"memory_used_ratio": "0.95x100 1e300x10 0.95x250"}), "memory-high") == []


def test_several_devices_of_one_job_are_one_alarm_with_all_of_them() -> None:
    watch, told = Watch(), []
    for at in range(12):
        for index in range(3):
            labels = {"job": "llama", "run": "r1", "rank": str(index)}
            watch.take([second(at, {"row_remap_failed": 1.0}, labels, index)])
        told += watch.tick((START_S + at) * NS)
    assert len({each.id for each in told}) == 1
    assert told[-1].about.ranks == (0, 1, 2)
    assert told[-1].about.devices == ("GPU-0000", "GPU-0001", "GPU-0002")


# ── counters and edges ──


def test_a_counter_makes_an_edge_by_growing_not_by_its_first_value_nor_by_a_reset() -> None:
    assert fired(told_by({"ecc_uncorrected_total": "7x20"}), "ecc-uncorrected") == []
    assert fired(told_by({"ecc_uncorrected_total": "7x10 8x10"}), "ecc-uncorrected") == [10]
    assert fired(told_by({"ecc_uncorrected_total": "7x10 0x10"}), "ecc-uncorrected") == []
    told = told_by({"row_remap_correctable_total": "0x5 2x5"})
    assert [(at, each.condition, each.severity) for at, each in told] == [(5, "row-remapped", "warning")]


def test_a_gauge_of_the_last_xid_makes_an_edge_by_its_change_with_the_severity_of_its_code() -> None:
    assert told_by({"xid": "79x20"}) == []
    (told,) = told_by({"xid": "0x5 79x15"})
    assert (told[0], told[1].condition, told[1].severity, told[1].pages) == (5, "xid", "critical", True)
    assert "Xid 79" in told[1].text
    (noted,) = told_by({"xid": "0x5 63x15"})
    assert (noted[1].severity, noted[1].pages) == ("info", False)


def test_a_device_that_is_idle_without_a_job_that_is_known_is_a_hint() -> None:
    (told,) = told_by({"compute_busy_ratio": "0.02x243"}, labels={})
    assert (told[1].condition, told[1].pages, told[1].severity) == ("idle", False, "info")


def test_a_batch_that_comes_five_seconds_late_counts_and_one_beyond_is_left_out() -> None:
    watch = Watch()
    for at in range(40):
        batches = [second(at, {}, {})]
        if at >= 5:
            late = second(at - 5, {"row_remap_failed": 1.0}, {"job": "j"})
            late.series[:] = [each for each in late.series if each.signal == "row_remap_failed"]
            batches.append(type(late)("a", at, "n1", "dcgm", late.series))
        watch.take(batches)
        if told := watch.tick((START_S + at) * NS):
            break
    assert [each.condition for each in told] == ["row-remap-failed"]
    assert watch.num_late <= 5  # of the seconds before the second source was known


def test_a_clock_that_is_an_hour_behind_ours_or_is_set_back_loses_nothing() -> None:
    watch = Watch()
    for at in range(10):
        watch.take([second(at, {"row_remap_failed": 0.0}, {"job": "j"})])
        assert watch.tick((START_S + 3600 + at) * NS) == []
    told = []
    for at in range(20):
        watch.take([second(at - 7200, {"row_remap_failed": 1.0}, {"job": "j"})])
        told += watch.tick((START_S + 3610 + at) * NS)
    assert [each.condition for each in told] == ["row-remap-failed"]
