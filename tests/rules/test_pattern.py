"""The four patterns: each clause is necessary, what is missing leaves a side open, and one side decides."""

from __future__ import annotations

import re

import pytest

from stepscope.analyse.features.pattern import gemm_shape_share, large_gemm_peak_share
from stepscope.analyse.features.telemetry import telemetry_samples
from stepscope.model import report
from stepscope.model.feature import Facts
from stepscope.model.text import LANGS, Lang
from stepscope.rules.number import NUMBERS
from stepscope.rules.pattern import features, judged, patterns
from stepscope.rules.pattern_table import PATTERNS, Named, Side
from tests.diagnose.build import MS, row
from tests.rules.known import H100, facts_of, just_met, just_missed, observed

SIDES = [
    pytest.param(side, id=f"{named.letter} {name}")
    for named in PATTERNS
    for name, side in (("as written", named.as_written), ("effective", named.effective))
]
CHINESE = re.compile("[\u4e00-\u9fff]")


def met(side: Side) -> dict:
    return {clause.feature: just_met(clause) for clause in side.when}


def told(values: dict[str, float], account: report.Accounting | None = None, lang: Lang = "en"):
    subject = observed({"telemetry_samples": 60.0, **values}, account)
    return {each.pattern: each for each in patterns(subject, facts_of(subject, features()), lang)}


@pytest.mark.parametrize("side", SIDES)
def test_a_side_holds_when_all_clauses_are_just_met_and_each_is_necessary(side: Side) -> None:
    assert judged(side, Facts(met(side)), "en").holds is True
    for clause in side.when:
        missed = judged(side, Facts(met(side) | {clause.feature: just_missed(clause)}), "en")
        assert missed.holds is False, str(clause)
        assert len(missed.evidence) == len(side.when)


@pytest.mark.parametrize("side", SIDES)
def test_a_missing_number_leaves_a_side_open_and_is_named(side: Side) -> None:
    assert judged(side, Facts(), "en").holds is None
    for clause in side.when:
        known = met(side)
        del known[clause.feature]
        found = judged(side, Facts(known), "en")
        assert found.holds is None
        assert found.missing == (clause.feature.name,)


@pytest.mark.parametrize("side", [param for param in SIDES if len(param.values[0].when) > 1])
def test_a_false_clause_settles_a_side_although_others_are_unknown(side: Side) -> None:
    clause, *others = side.when
    found = judged(side, Facts({clause.feature: just_missed(clause)}), "en")
    assert found.holds is False
    assert found.missing == tuple(other.feature.name for other in others)


@pytest.mark.parametrize("named", PATTERNS, ids=lambda named: named.letter)
@pytest.mark.parametrize("lang", LANGS)
def test_every_text_is_in_both_languages(named: Named, lang: Lang) -> None:
    texts = [named.title, named.advice]
    texts += [text for side in (named.as_written, named.effective) for text in side.references.values()]
    for text in texts:
        assert bool(CHINESE.search(text.in_(lang))) == (lang == "zh"), text.en


def test_what_is_written_decides_nothing() -> None:
    """DRAM at 90 %, occupancy at 30 %, a third elementwise: the specification's B. Products take the rest, so
    fusing is no advice."""
    found = told(
        {
            "dram_active_mean": 0.90,
            "sm_occupancy_mean": 0.30,
            "tensor_active_mean": 0.55,
            "elementwise_kernel_share": 0.33,
            "normalization_kernel_share": 0.02,
        },
        row(device=H100),
    )["B"]
    assert found.as_written.holds is True
    assert all(each.as_written for each in found.as_written.evidence)
    assert (found.effective.holds, found.advice) == (False, None)
    assert not any(each.as_written for each in found.effective.evidence)


def test_memory_bound_by_the_counters_and_the_trace() -> None:
    """DRAM at 0.70 of a practical maximum of 0.8: the written 0.85 cannot be reached."""
    found = told(
        {
            "dram_active_mean": 0.70,
            "sm_occupancy_mean": 0.55,
            "tensor_active_mean": 0.12,
            "elementwise_kernel_share": 0.34,
            "normalization_kernel_share": 0.07,
        },
        row(device=H100),
    )["B"]
    assert (found.as_written.holds, found.effective.holds) == (False, True)
    assert found.advice is not None
    assert "Fuse" in found.advice
    share = next(each for each in found.effective.evidence if each.feature == "memory_bound_kernel_share")
    assert share.value == pytest.approx(0.41)
    assert (share.op, share.threshold, share.from_) == (">=", 0.30, "trace")


def test_the_specified_case_of_input_holds_as_written_and_as_it_decides() -> None:
    """SM 52 %, the loader at 38 % of the step, page faults, PCIe receive that follows the prefetch."""
    account = row(input=33 * MS, host=report.HostShares(loader_share=0.38), device=H100)
    numbers = {"sm_active_mean": 0.52, "host_major_faults_per_second": 420.0, "pcie_with_input": 0.61}
    found = told(numbers, account)["D"]
    assert (found.as_written.holds, found.effective.holds) == (True, True)
    assert [each.feature for each in found.effective.evidence] == [
        "idle_input_share",
        "sm_active_mean",
        "host_major_faults_per_second",
        "pcie_with_input",
    ]
    hidden = row(input=2 * MS, host=report.HostShares(loader_share=0.38), device=H100)
    decoy = told(numbers, hidden)["D"]
    assert (decoy.as_written.holds, decoy.effective.holds, decoy.advice) == (True, False, None)


def test_jitter_needs_periods_and_uneven_ranks() -> None:
    numbers = {"nvlink_with_pcie": -0.72, "nvlink_cycles": 9.0, "wait_spread_share": 0.14}
    assert told(numbers)["C"].effective.holds is True
    assert told(numbers | {"nvlink_cycles": 4.0})["C"].effective.holds is False
    assert told(numbers | {"wait_spread_share": 0.03})["C"].effective.holds is False
    alone = {name: value for name, value in numbers.items() if name != "wait_spread_share"}
    assert told(alone)["C"].effective.missing == ("wait_spread_share",)
    assert told(alone)["C"].advice is None


def test_nothing_is_said_of_a_device_without_telemetry() -> None:
    subject = observed({"elementwise_kernel_share": 0.5}, row(device=H100))
    assert patterns(subject, facts_of(subject, features()), "en") == ()
    whole = told({}, row(device=H100))
    assert list(whole) == ["A", "B", "C", "D"]
    assert {each.effective.holds for each in whole.values()} == {None, False}
    assert whole["A"].effective.missing == ("sm_active_mean", "gemm_shape_share", "large_gemm_peak_share")


def test_every_number_has_a_name_and_a_source() -> None:
    assert {feature for feature in features() if feature not in NUMBERS} == set()
    assert telemetry_samples in features()
    assert gemm_shape_share in features()
    assert large_gemm_peak_share in features()
