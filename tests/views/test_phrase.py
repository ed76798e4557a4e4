"""Phrases about a report."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.text import LANGS
from stepscope.views import markdown
from stepscope.views.label import UNIT
from stepscope.views.phrase import (
    amount,
    cost_of,
    gain_of,
    needing,
    operators_head,
    ruled_out,
    since,
    slow_steps,
)
from stepscope.views.shape import tells
from tests.diagnose.build import CATALOG, MS, input_starved, rank, row, told
from tests.views.show import shown

COST = report.Cost(time_ns=60 * MS, share=0.3, of="idle.input", num_steps=6)


def test_a_cost_is_told_a_step_where_there_are_steps() -> None:
    assert cost_of(COST, "en") == "costs 30.0 % (10.0 ms a step)"
    assert cost_of(COST, "zh") == "代价 30.0 %（每步 10.0 ms）"
    assert cost_of(msgspec.structs.replace(COST, num_steps=None), "en") == "costs 30.0 % (60.0 ms)"


def test_a_gain_says_of_what_and_under_which_condition() -> None:
    remedy = report.Remedy(text="x", gain_share=(0.25, 0.3))
    assert gain_of(remedy, COST, "en") == "gain if it works: 25.0 % to at most 30.0 % of the step"
    assert gain_of(remedy, None, "en").endswith("of the trace")
    assert gain_of(remedy, COST, "zh") == "若见效，可省去每步的 25.0 %，至多 30.0 %"
    assert gain_of(report.Remedy(text="x"), COST, "en") == ""
    one = report.Remedy(text="x", gain_share=(0.43, 0.43))
    assert gain_of(one, COST, "zh") == "若见效，可省去每步的至多 43.0 %"
    assert gain_of(one, None, "zh") == "若见效，可省去全程的至多 43.0 %"


def test_every_unit_that_is_a_word_is_told_in_chinese() -> None:
    assert amount(1543.0, "launches", "zh") == "1,543 次下发"
    assert amount(1543.0, "launches", "en") == "1,543 launches"
    units = {feature.unit for rule in CATALOG for feature in rule.features()} - {"ratio", "ns", "B/s"}
    assert {unit for unit in units if len(unit) > 2} <= set(UNIT)
    text = shown(told(rank(row(launch=40 * MS), numbers={"launches_per_step": 1543.0}), lang="zh"), "zh")
    assert "launches_per_step 1,543 次下发" in text


def test_the_hottest_operators_say_whose_they_are_and_of_what_the_numbers_are() -> None:
    """Of the first finding's row where there is one: so does the report choose them."""

    def of(number: int, scope: report.Scope = "steps", **idle: int) -> RankAnalysis:
        op = report.Operator(name=f"op {number}", count=1, device_ns=5, rank=number, share=1.0)
        return rank(row(rank=number, scope=scope, **idle), operators=(op,), world_size=2)

    two = told(of(0), of(1, input=40 * MS))
    assert two.top_operators[0].name == "op 1"
    assert operators_head(two, "en") == "Hottest operators (rank 1, sum of 4 steps, share of device time)"
    assert operators_head(two, "zh") == "最热的算子（rank 1，4 步合计，占比以设备时间计）"
    alone = told(of(0, "trace"))
    assert operators_head(alone, "en") == "Hottest operators (sum of the whole trace, share of device time)"
    for lang in LANGS:
        assert operators_head(two, lang) in shown(two, lang)
        assert f"### {operators_head(two, lang)}\n" in markdown.render(two, lang)


def test_the_onset_is_told_only_where_it_is_not_the_first_step() -> None:
    answer = input_starved()
    card = answer.cards[0]
    assert since(card, answer, "en") == "since step 6"
    assert since(msgspec.structs.replace(card, onset_step=5), answer, "en") == ""
    assert since(msgspec.structs.replace(card, onset_step=None), answer, "en") == ""


def test_what_is_ruled_out_is_told_once_and_only_where_all_cards_agree() -> None:
    answer = told(rank(row(input=20 * MS, launch=20 * MS)))
    assert [card.id for card in answer.cards] == ["input-starvation", "launch-bound"]
    assert "exposed-copy" in ruled_out(answer)
    assert not {"input-starvation", "launch-bound"} & set(ruled_out(answer))
    assert shown(answer).count("Ruled out") == 1
    assert shown(answer).split("\n\n")[-2].startswith("Ruled out")
    other = told(rank(row(input=20 * MS)), rank(row(launch=20 * MS, rank=1)))
    assert not {"input-starvation", "launch-bound"} & set(ruled_out(other))


@pytest.mark.parametrize(
    ("slow", "period", "en"),
    [
        ((6,), None, "slow steps: 6 (25.0 ms); median 20.0 ms"),
        ((5, 7), 2, "slow steps: 5 (25.0 ms), 7 (25.0 ms); median 20.0 ms, every 2 steps"),
        (
            (5, 6, 7, 8, 9),
            None,
            "slow steps: 5 (25.0 ms), 6 (25.0 ms), 7 (25.0 ms), 8 (25.0 ms) and 1 more; median 20.0 ms",
        ),
        ((), None, ""),
    ],
)
def test_slow_steps_are_told_with_their_times(slow: tuple[int, ...], period: int | None, en: str) -> None:
    variation = report.Variation(median_ns=20 * MS, slow_steps=slow, period_steps=period)
    one = rank(row(variation=variation), steps=range(5, 10))
    assert slow_steps(one.accounting[0], one.steps, "en") == en
    assert bool(slow_steps(one.accounting[0], one.steps, "zh")) == bool(en)


def test_a_number_that_is_nothing_and_decides_nothing_is_left_out() -> None:
    nothing = report.Evidence(from_="trace", feature="idle_unknown_share", value=0.0, unit="ratio")
    assert not tells(nothing)
    assert tells(msgspec.structs.replace(nothing, value=0.01))
    assert tells(msgspec.structs.replace(nothing, op="<", threshold=0.05))


def test_what_is_needed_reads_well_in_both_languages() -> None:
    assert needing("the traces", "en") == "needs the traces"
    assert needing("the traces of all ranks of the same steps", "zh") == "需要所有 rank 在相同步上的 trace"
    assert needing("nsys", "zh") == "需要 nsys"
    assert needing("", "en") == ""


def test_a_run_without_a_device_is_told_as_the_hosts_own() -> None:
    text = shown(told(rank(row(device=report.Device(kind="cpu"), communication=40 * MS), accelerator="cpu")))
    assert "host, 4 steps" in text
    assert "ops on the host" in text
    assert "communication on the host" in text
    assert "computing" not in text


def test_one_proof_for_several_changes_is_told_once() -> None:
    text = shown(told(rank(row(launch=30 * MS))))
    assert text.count("proof:") == 1
    assert text.count("gain if it works") == 1
    assert len(CATALOG["launch-bound"].remedies) > 2
