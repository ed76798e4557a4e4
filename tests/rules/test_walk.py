"""The ordered walks: given by their symptom, station by station, and never ok for want of a number."""

from __future__ import annotations

import re

import pytest

from stepscope.model import report
from stepscope.model.feature import Facts
from stepscope.model.text import Lang
from stepscope.rules.number import NUMBERS
from stepscope.rules.walk import features, missing, status, walks
from stepscope.rules.walk_table import ORDERS, Station
from tests.diagnose.build import MS, row
from tests.rules.known import H100, facts_of, just_met, just_missed, observed

STATIONS = [
    pytest.param(station, id=f"{order.walk}: {station.text.en}")
    for order in ORDERS
    for station in order.stations
]
CHINESE = re.compile("[\u4e00-\u9fff]")


def walked(
    numbers: dict[str, float],
    account: report.Accounting | None = None,
    lang: Lang = "en",
    is_slow: bool = False,
) -> dict[str, report.Walk]:
    subject = observed(numbers, account)
    return {each.walk: each for each in walks(subject, facts_of(subject, features()), lang, is_slow=is_slow)}


@pytest.mark.parametrize("station", STATIONS)
def test_any_sign_makes_a_station_suspect_and_all_of_its_clauses_are_needed(station: Station) -> None:
    for sign in (*station.signs, *station.further):
        met = {clause.feature: just_met(clause) for clause in sign}
        assert status(station, Facts(met)) == "suspect"
        for clause in sign:
            assert status(station, Facts(met | {clause.feature: just_missed(clause)})) != "suspect"


@pytest.mark.parametrize("station", STATIONS)
def test_a_station_is_ok_only_where_every_sign_is_known_to_be_absent(station: Station) -> None:
    clear = {clause.feature: just_missed(clause) for sign in station.signs for clause in sign}
    assert status(station, Facts(clear)) == "ok"
    assert status(station, Facts()) == "unknown"
    assert missing(station, Facts())
    for sign in station.signs:
        left = {f: v for f, v in clear.items() if f not in {clause.feature for clause in sign}}
        assert status(station, Facts(left)) == "unknown"


def test_every_station_is_told_in_both_languages() -> None:
    for order in ORDERS:
        for text in (order.title, *(station.text for station in order.stations)):
            assert CHINESE.search(text.zh)
            assert not CHINESE.search(text.en)
    assert {feature for feature in features() if feature not in NUMBERS} == set()
    for number in NUMBERS.values():
        assert not CHINESE.search(number.name.en + number.brought_by.en)
        assert CHINESE.search(number.brought_by.zh)


def test_the_orders_are_the_specified_ones() -> None:
    assert {order.walk: len(order.stations) for order in ORDERS} == {
        "low-utilisation": 5,
        "busy-low-power": 6,
        "six-causes": 6,
    }
    assert [station.text.en for station in ORDERS[2].stations] == [
        "Data",
        "Copies",
        "Communication",
        "Ops",
        "Topology",
        "Batch size",
    ]


PUBLISHED = {
    "telemetry_samples": 1.0,
    "compute_busy_mean": 0.96,
    "power_watts_mean": 320.0,
    "power_limit_share": 320 / 700,
    "memory_used_share": 62 / 80,
    "scope_suspects": 0.0,
}
"""Busy 96 %, 320 of 700 W, 62 of 80 GB: all that is known."""


def test_three_figures_start_a_walk_and_name_no_cause() -> None:
    found = walked(PUBLISHED)
    assert list(found) == ["busy-low-power"]
    steps = found["busy-low-power"].steps
    assert [step.status for step in steps] == ["ok", "unknown", "unknown", "unknown", "unknown", "unknown"]
    assert steps[0].said == (
        "compute busy 96.0 %, power 320 W, memory in use 77.5 %, readings 1, figures of doubtful scope 0"
    )
    assert steps[1].said == (
        "power of the limit 45.7 %; "
        "not measured: clock of the highest (give counter DCGM_FI_DEV_SM_CLOCK, DCGM_FI_DEV_MAX_SM_CLOCK); "
        "not measured: time throttled by temperature, time at the power cap "
        "(give counter DCGM_FI_DEV_CLOCK_THROTTLE_REASONS)"
    )
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in steps[2].said
    assert steps[4].said == "not measured: exposed communication (give a profiler trace)"


def test_the_same_three_figures_in_chinese() -> None:
    walk = walked(PUBLISHED, lang="zh")["busy-low-power"]
    assert walk.title == "忙碌但功率低"
    assert walk.steps[0].said.startswith("计算忙碌率 96.0 %，功率 320 W，显存已用 77.5 %")
    assert walk.steps[2].said == "未测到张量核活跃率：请提供计数器 DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"


def test_a_collective_that_spins_is_found_at_the_links() -> None:
    numbers = PUBLISHED | {
        "sm_active_mean": 0.14,
        "tensor_active_mean": 0.02,
        "dram_active_mean": 0.03,
        "sm_clock_share": 0.99,
        "thermal_throttled_share": 0.0,
        "power_capped_share": 0.0,
        "nvlink_link_share": 0.001,
        "short_kernel_share": 0.1,
    }
    account = row(communication=55 * MS, device=H100)
    steps = walked(numbers, account)["busy-low-power"].steps
    assert [step.status for step in steps] == ["ok", "ok", "suspect", "ok", "suspect", "ok"]
    assert "exposed communication 55.0 %" in steps[4].said
    assert "SM active 14.0 %" in steps[4].said


def test_busy_at_full_power_starts_no_walk() -> None:
    assert walked(PUBLISHED | {"power_limit_share": 0.93}) == {}
    assert walked({"compute_busy_mean": 0.96}) == {}


def test_low_use_in_bursts_while_steps_go_on() -> None:
    numbers = {
        "compute_busy_mean": 0.04,
        "compute_busy_five_minutes": 0.04,
        "compute_busy_p5": 0.0,
        "compute_busy_p95": 0.9,
        "compute_busy_quiet_share": 0.93,
        "seconds_without_step": 2.0,
        "missed_log_lines": 1.0,
        "quiet_while_stepping": 0.9,
        "busy_below_peers": 0.01,
    }
    steps = walked(numbers)["low-utilisation"].steps
    assert [step.status for step in steps] == ["ok", "suspect", "ok", "unknown", "unknown"]
    assert "the kernel log" in steps[4].said
    assert "the training log" in steps[4].said


def test_the_six_causes_are_gone_through_where_something_is_slow() -> None:
    account = row(input=33 * MS, copy=6 * MS, device=H100)
    assert walked({}, account) == {}
    steps = walked({}, account, is_slow=True)["six-causes"].steps
    assert [step.status for step in steps[:3]] == ["suspect", "suspect", "ok"]
    assert steps[0].said.startswith("idle, waiting for input 33.0 %")
    assert steps[4].status == "unknown"
    assert "nvidia-smi topo -m" in steps[4].said
    assert "NCCL_DEBUG=INFO" in steps[4].said
