"""Hints: what one signal suggests, and no more."""

from __future__ import annotations

import re

import pytest

from stepscope.model.feature import Facts
from stepscope.model.text import LANGS
from stepscope.rules.hint import HINTS, HintRow, features, hints, is_given
from stepscope.rules.number import NUMBERS
from tests.rules.known import facts_of, just_met, just_missed, observed

ROWS = [pytest.param(row, id=row.id) for row in HINTS]


def given(**numbers: float) -> list[str]:
    subject = observed(numbers)
    return [each.hint for each in hints(subject, facts_of(subject, features()), "en")]


@pytest.mark.parametrize("row", ROWS)
def test_each_clause_is_necessary_and_each_excuse_silences(row: HintRow) -> None:
    met = {clause.feature: just_met(clause) for clause in row.when}
    assert is_given(row, Facts(met))
    for clause in row.when:
        assert not is_given(row, Facts(met | {clause.feature: just_missed(clause)})), str(clause)
        assert not is_given(row, Facts({f: v for f, v in met.items() if f is not clause.feature}))
    for clause in row.unless:
        assert not is_given(row, Facts(met | {clause.feature: just_met(clause)}))


@pytest.mark.parametrize("row", ROWS)
def test_each_says_what_it_does_not_mean_in_both_languages(row: HintRow) -> None:
    assert re.search(r"not|says nothing|may also be|costs nothing", row.text.en)
    assert re.search("不|并未|没有代价|也可能", row.text.zh)
    for text in (row.text, *row.references.values()):
        assert re.search("[\u4e00-\u9fff]", text.zh), text.en
        assert not re.search("[\u4e00-\u9fff]", text.en), text.en


def test_ids_are_words_and_there_is_one_of_each() -> None:
    ids = [row.id for row in HINTS]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", each) for each in ids)


def test_occupancy_between_the_lines_suggests_nothing() -> None:
    assert given(sm_occupancy_mean=0.60) == []
    assert given(sm_occupancy_mean=0.59) == ["low-occupancy"]
    assert given(sm_occupancy_mean=0.95) == []
    assert given(sm_occupancy_mean=0.96) == ["high-occupancy"]


def test_a_device_that_multiplies_is_not_called_latency_bound() -> None:
    """dcgmproftester's tensor test on an A100: engine 0.97, tensor 0.93, DRAM 0."""
    assert given(sm_active_mean=0.97, tensor_active_mean=0.93, dram_active_mean=0.0) == []
    assert given(sm_active_mean=0.97, tensor_active_mean=0.04, dram_active_mean=0.3) == ["latency-bound"]
    busy = {"sm_active_mean": 0.97, "tensor_active_mean": 0.04, "dram_active_mean": 0.3}
    assert given(**busy, fp32_active_mean=0.7) == []


def test_a_collective_that_spins_is_busy_with_few_blocks_at_low_power() -> None:
    numbers = {"compute_busy_mean": 1.0, "sm_active_mean": 0.12, "power_limit_share": 0.21}
    assert given(**numbers) == ["busy-with-few-blocks", "busy-at-low-power"]


def test_hot_is_a_hint_only_where_clocks_are_known_to_hold() -> None:
    assert given(temperature_celsius_max=88.0) == []
    assert given(temperature_celsius_max=88.0, thermal_throttled_share=0.0) == ["hot-not-throttled"]
    assert given(temperature_celsius_max=88.0, thermal_throttled_share=0.4) == []


def test_evidence_is_the_clause_with_its_number_then_what_is_shown() -> None:
    subject = observed({"num_foreign_processes": 2.0, "foreign_memory_share": 0.31})
    (hint,) = hints(subject, facts_of(subject, features()), "zh")
    assert [(e.feature, e.value, e.op) for e in hint.evidence] == [
        ("num_foreign_processes", 2.0, ">="),
        ("foreign_memory_share", 0.31, None),
    ]
    assert hint.evidence[0].reference == "任意一个"


@pytest.mark.parametrize("lang", LANGS)
def test_every_number_has_a_name(lang: str) -> None:
    for feature in features():
        assert NUMBERS[feature].name.in_(lang)  # type: ignore[arg-type]
