"""What stepscope itself cost a rank, from its marks to the lines of a report."""

from __future__ import annotations

import json
from dataclasses import replace

import msgspec
import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
from stepscope.model.mark import Capture, RankMarks
from stepscope.views import html, markdown
from stepscope.views.counter_word import own_cost_lines
from tests.analyse.marked.made import CATALOG, job
from tests.views.contract import broken

BLOCK = 10


def alternating(num_blocks: int, more_us: int = 20) -> RankMarks:
    """Steps of 10 ms, in every other block without inner marks; the others take longer by `more_us`."""
    shadow = [n // BLOCK % 2 == 1 for n in range(BLOCK * num_blocks)]
    lines = ["f4 b6" if is_shadow else f"f4 b{6 + more_us / 1000}" for is_shadow in shadow]
    flags = {n: "shadow" for n, is_shadow in enumerate(shadow) if is_shadow}
    (marks,) = job([lines], flags=flags)
    return replace(marks, identity=replace(marks.identity, rank=0))


def told(marks: RankMarks, lang="en") -> report.Report:
    given = [report.Input(kind="steps", format="step-ring", name="a.ring")]
    log = log_of_marks(marks, "a.ring")
    return diagnose((), given, Options(catalog=CATALOG, lang=lang), (), (), [log], analyse_marks([marks]))


def test_what_marks_cost_is_in_the_report_with_its_interval() -> None:
    of = told(alternating(33))
    (cost,) = of.own_cost
    assert (cost.rank, cost.num_groups, cost.num_captures) == (0, 11, None)
    assert cost.marks_ns == pytest.approx(20_000, abs=200)
    assert cost.marks_low_ns <= cost.marks_ns <= cost.marks_high_ns
    assert cost.step_ns == pytest.approx(10_000_000, abs=1_000)
    line = "rank 0: marks take +0.20 % of a step (95 % interval +0.20 … +0.20 %, 11 groups of blocks)"
    assert own_cost_lines(of, "en") == [line]
    assert own_cost_lines(of, "zh") == ["rank 0：标记占一步的 +0.20 %（95 % 区间 +0.20 … +0.20 %，11 组）"]
    assert line in markdown.render(of)
    assert line in html.render(of)
    assert broken(json.loads(msgspec.json.encode(of))) == []


def test_a_run_that_is_too_short_says_that_its_cost_is_not_resolvable() -> None:
    (line,) = own_cost_lines(told(alternating(6)), "en")
    assert "what marks cost is not resolvable here (95 % interval" in line
    (line,) = own_cost_lines(told(alternating(3)), "en")
    assert (
        line == "rank 0: what marks cost is not resolvable here (groups of blocks: 1, at least 10 are needed)"
    )


def test_stalls_of_captures_are_told_and_a_run_without_either_tells_nothing() -> None:
    (marks,) = job([["f4 b6"] * 30])
    assert told(marks).own_cost == ()
    begun = marks.start_ns or 0
    captures = (Capture(1, begun, 5, stall_ns=40_000_000), Capture(2, begun, 9, stall_ns=20_000_000))
    of = told(replace(marks, captures=captures))
    assert own_cost_lines(of, "en") == ["2 captures held the loop up for 60.0 ms"]
    assert own_cost_lines(of, "zh") == ["2 次采集，共阻塞 60.0 ms"]
