"""Phrases about a report."""

from __future__ import annotations

import re

import msgspec
import pytest

from stepscope.diagnose.onset import onset
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.feature import Observed
from stepscope.model.text import LANGS
from stepscope.rules.rule import Rule
from stepscope.views import markdown
from stepscope.views.explain import render_explain, render_rules
from stepscope.views.label import UNIT
from stepscope.views.phrase import (
    amount,
    cost_of,
    gain_of,
    needing,
    operators_head,
    patch_lines,
    ruled_out,
    since,
    slow_steps,
    subject_of,
)
from stepscope.views.shape import diff, tells
from tests.diagnose.build import CATALOG, MS, input_starved, rank, row, told
from tests.views.many import job
from tests.views.show import printed, shown

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
    assert gain_of(one, COST, "zh") == "若见效，至多可省去每步的 43.0 %"
    assert gain_of(one, None, "zh") == "若见效，至多可省去全程的 43.0 %"


def test_every_unit_that_is_a_word_is_told_in_chinese() -> None:
    assert amount(1543.0, "launches", "zh") == "1,543 次下发"
    assert amount(1543.0, "launches", "en") == "1,543 launches"
    units = {feature.unit for rule in CATALOG for feature in rule.features()} - {"ratio", "ns", "B/s", "1/s"}
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
        assert f"<summary>{operators_head(two, lang)}</summary>\n" in markdown.render(two, lang)


def test_the_onset_is_told_only_where_it_is_not_the_first_step() -> None:
    answer = input_starved()
    card = answer.cards[0]
    assert since(card, answer, "en") == "since step 6"
    assert since(card, answer, "zh") == "始于第 6 步"
    once = msgspec.structs.replace(card, onset_holds=False)
    assert since(once, answer, "en") == "first in step 6"
    assert since(once, answer, "zh") == "首见于第 6 步"
    assert since(msgspec.structs.replace(card, onset_step=5), answer, "en") == ""
    assert since(msgspec.structs.replace(card, onset_step=None), answer, "en") == ""


@pytest.mark.parametrize(
    ("reached", "last", "holds"),
    [
        ((6, 7, 8), 8, True),
        ((6, 7, 8, 9, 11), 11, True),  # 4 of 5 later steps
        ((6, 7, 8, 9), 11, False),  # 3 of 5
        ((6, 11), 11, False),
        ((8,), 8, False),  # nothing later has it
    ],
)
def test_a_cause_began_in_a_step_where_most_later_steps_have_it_too(
    reached: tuple[int, ...], last: int, holds: bool
) -> None:
    by_step = {
        n: {"total_ns": 25 * MS, "idle.input_ns": (10 if n in reached else 1) * MS}
        for n in range(5, last + 1)
    }
    analysis = rank(row(input=33 * MS), by_step=by_step, steps=range(5, last + 1))
    found = onset(CATALOG["input-starvation"], Observed(analysis, analysis.devices[0]))
    assert found is not None
    assert (found.step, found.last_step, found.holds) == (reached[0], reached[-1], holds)


@pytest.mark.parametrize(("slow", "holds"), [((6, 8), False), ((7, 8), True)])
def test_steps_that_are_slow_now_and_then_did_not_begin_to_be(slow: tuple[int, ...], holds: bool) -> None:
    variation = report.Variation(median_ns=20 * MS, slow_steps=slow, period_steps=2)
    analysis = rank(row(variation=variation))
    found = onset(CATALOG["periodic-stall"], Observed(analysis, analysis.devices[0]))
    assert found is not None
    assert (found.step, found.holds) == (slow[0], holds)


@pytest.mark.parametrize("rule", list(CATALOG), ids=lambda rule: rule.id)
def test_every_comment_of_a_patch_is_told_in_chinese(rule: Rule) -> None:
    host = rule.on_host.remedies if rule.on_host else ()
    for patch in (remedy.patch for remedy in (*rule.remedies, *host) if remedy.patch):
        assert patch_lines(patch, "en") == diff(patch)
        for (mark, line), (same, chinese) in zip(diff(patch), patch_lines(patch, "zh"), strict=True):
            code, hash_, comment = line.partition("# ")
            assert mark == same
            assert chinese.startswith(code + hash_)
            assert not comment or re.search("[\u4e00-\u9fff]", chinese)


def test_chinese_lists_have_the_chinese_comma() -> None:
    answer = told(rank(row(input=20 * MS)), lang="zh")
    for text in (
        markdown.render(answer, "zh"),
        shown(answer, "zh", width=1000),
        *(
            printed(lambda console, rule=rule: render_explain(rule, console, "zh"), 10_000)
            for rule in CATALOG
        ),
        printed(lambda console: render_rules(CATALOG, console, "zh"), 10_000),
    ):
        for line in text.splitlines():
            assert not re.search(r"[\u4e00-\u9fff].*[\w%`], [\w`]", line) or re.match(r"\s*[-+]", line), line


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


def test_a_finding_that_names_another_rank_than_its_row_is_headed_by_that_rank() -> None:
    """Of a hang: it is judged by the row of a rank that waits, and is about the one that is waited for."""
    whole = job()
    finding = next(each for each in whole.findings if each.subject.row is not None)
    row = whole.accounting[finding.subject.row or 0]
    assert row.rank is not None
    other = report.Subject(ranks=(row.rank + 1,), row=finding.subject.row)
    told = msgspec.structs.replace(finding, subject=other)
    assert subject_of(told, whole, "en") == f"rank {row.rank + 1}"
    assert f"rank {row.rank}" in subject_of(finding, whole, "en")
