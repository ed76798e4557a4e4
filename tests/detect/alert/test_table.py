"""The table of alerts: complete in both languages, changed by a site in known ways only, and documented."""

from __future__ import annotations

import pytest

from stepscope.detect.alert.gated import KINDS
from stepscope.detect.alert.job import OF_FEATURE
from stepscope.detect.alert.relation import RELATIONS, Claim, cause_of, explains
from stepscope.detect.alert.table import TABLE
from stepscope.detect.alert.threshold import with_thresholds
from stepscope.detect.alert.wording import line_of
from stepscope.detect.seen import record
from stepscope.model.alarm import About, Measured
from stepscope.model.error import UsageError
from stepscope_sdk import ring_abi

IDS = {each.id for each in TABLE}
NS = 1_000_000_000


def test_ids_are_unique_and_relations_name_no_others() -> None:
    assert len(IDS) == len(TABLE)
    named = {name for each in RELATIONS for name in (*each.causes, *each.effects)}
    assert named <= IDS
    assert set(OF_FEATURE) == set(KINDS)
    assert set(OF_FEATURE.values()) <= IDS


@pytest.mark.parametrize("row", TABLE, ids=lambda each: each.id)
def test_a_line_is_filled_in_both_languages_with_and_without_a_number(row) -> None:
    about = About("llama", "r1", (3,), ("GPU-0003-abcdef",), ("n1",))
    measured = Measured(row.feature, row.unit, 0.5, normal=0.4, threshold=row.threshold, effect=0.25)
    for each in (measured, None):
        en, zh = line_of(row, about, each, None, is_lost=False)
        assert "{" not in en + zh
        assert en.startswith("rank 3")
        assert any("\u4e00" <= letter <= "\u9fff" for letter in zh) or row.id == "xid"
    assert row.needs
    assert row.reference


@pytest.mark.parametrize("row", [each for each in TABLE if each.clear is not None], ids=lambda each: each.id)
def test_what_clears_an_alarm_lies_on_the_side_that_is_well(row) -> None:
    assert row.clear < row.threshold if row.side == "above" else row.clear > row.threshold


def test_a_site_changes_a_threshold_and_keeps_the_distance_of_the_hysteresis() -> None:
    (row,) = [
        each
        for each in with_thresholds(TABLE, {"memory-high": {"threshold": 0.95, "for_s": 60, "pages": True}})
        if each.id == "memory-high"
    ]
    assert (row.threshold, row.clear, row.for_ns, row.pages) == (0.95, pytest.approx(0.93), 60 * NS, True)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"memory-hihg": {}}, r"\[memory-hihg\]: no such condition"),
        ({"memory-high": {"treshold": 1}}, r"\[memory-high\] treshold: no such key"),
        ({"memory-high": {"threshold": 1.95}}, "1.95 is no share; give 0 to 1, such as 0.9"),
        ({"memory-high": {"threshold": "high"}}, "'high' is no number"),
        ({"memory-high": {"for_s": -1}}, "is no time"),
        ({"memory-high": {"severity": "fatal"}}, "give one of info, warning, critical"),
        ({"memory-high": {"on": "no"}}, "neither true nor false"),
        ({"memory-high": {"clear": 0.95}}, "must be at or below the threshold"),
        ({"step-slow": {"threshold": 0.1}}, "its own baseline decides"),
        ({"memory-high": 0.95}, "is no table"),
    ],
)
def test_what_is_misspelt_is_an_error_of_one_line(config, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        with_thresholds(TABLE, config)


def test_records_are_those_of_the_ring() -> None:
    kinds = {each.name: each.number for each in ring_abi.KINDS}
    names = ("start", "step_begin", "step_end", "phase_begin", "phase_end", "value", "capture_begin",
             "capture_end", "world", "exit")  # fmt: skip
    assert {name: getattr(record, name.upper()) for name in names} == {name: kinds[name] for name in names}
    assert {name: getattr(record, name.upper()) for name in ring_abi.FLAGS} == ring_abi.FLAGS


def claim(condition: str, *, job: str | None = "j", ranks=(), hosts=("n1",), onset_s=0, end_s=None) -> Claim:
    end_ns = None if end_s is None else end_s * NS
    return Claim(condition, About(job, "r", tuple(ranks)), frozenset(hosts), onset_s * NS, end_ns, False)


@pytest.mark.parametrize(
    ("cause", "effect"),
    [(cause, effect) for each in RELATIONS for cause in each.causes for effect in each.effects],
)
def test_each_relation_holds_in_one_job_and_neither_in_another_nor_long_after(
    cause: str, effect: str
) -> None:
    assert explains(claim(cause, ranks=(1,)), claim(effect, ranks=(1,)))
    assert not explains(claim(cause, ranks=(1,)), claim(effect, job="k", ranks=(1,), hosts=("n2",)))
    assert not explains(claim(cause, onset_s=500), claim(effect))
    assert not explains(claim(cause, end_s=10), claim(effect, onset_s=300))


def test_a_hot_device_explains_the_slow_rank_on_it_and_not_another_one() -> None:
    hot = claim("clock-thermal", ranks=(1,))
    assert explains(hot, claim("rank-slow", ranks=(1,)))
    assert not explains(hot, claim("rank-slow", ranks=(2,)))
    assert explains(hot, claim("step-slow"))


def test_a_fault_of_a_node_explains_what_is_slow_there_whosever_it_is() -> None:
    lost = claim("device-lost", job=None)
    assert explains(lost, claim("step-slow"))
    assert not explains(lost, claim("step-slow", hosts=("n2",)))


def test_of_several_causes_the_first_of_the_table_counts() -> None:
    others = [claim("step-slow"), claim("rank-slow", ranks=(1,)), claim("clock-thermal", ranks=(1,))]
    assert cause_of(claim("tokens-falling"), others) == 2
    assert cause_of(claim("clock-thermal", ranks=(1,)), others[:2]) is None
