"""What marks say, in Chinese: nothing that a reader of that language sees of them stays English."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
from stepscope.model.mark import Capture
from stepscope.views import html, markdown
from stepscope.views.detail_marks import marked_name, marks_text
from tests.analyse.marked.made import CATALOG, job


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        ("the process lives in backward of step 11", "进程仍在运行，在第 11 步的反向"),
        ("the process lives in my phase of step 3", "进程仍在运行，在第 3 步的my phase"),
        (
            "the process is gone and never said that it ends after step 59: it was killed",
            "进程已不在，且未表示结束，在第 59 步之后：被终止",
        ),
        ("the process ended by an error before its first step", "进程因错误结束，在首步之前"),
        ("the process ended by an error in step 7", "进程因错误结束，在第 7 步"),
        ("checkpoint begins", "检查点开始"),
        ("a light capture, it held the loop up for 40 ms", "一次轻量采集，阻塞循环 40 ms"),
        (
            "in 40 % of the phases that are marked as meetings a rank leaves before the last one comes: the "
            "host does not wait there",
            "在标记为会合的阶段中，有 40 % 在最后一个 rank 到达之前就有 rank 离开：主机并不在那里等待",
        ),
        ("a sentence of another kind", "a sentence of another kind"),
    ],
)
def test_a_sentence_of_marks_is_told_in_chinese(english: str, chinese: str) -> None:
    assert marks_text(english, "zh") == chinese
    assert marks_text(english, "en") == english


@pytest.mark.parametrize(
    ("name", "is_marked", "chinese"),
    [
        ("after forward", True, "前向之后"),
        ("between steps", True, "两步之间"),
        ("data", True, "取数据"),
        ("data", False, "data"),  # of a trace it is the name of an annotation
        ("after my phase", True, "after my phase"),
        ("my phase", True, "my phase"),
    ],
)
def test_a_culprit_of_marks_is_a_phase_or_lies_between_two(name: str, is_marked: bool, chinese: str) -> None:
    assert marked_name(name, "zh", is_marked=is_marked) == chinese
    assert marked_name(name, "en", is_marked=is_marked) == name


def of_ranks() -> report.Report:
    """A stall after the forward pass, a capture, a killed rank, and ranks that nobody can compare."""
    ranks = job([["d20 f10 _30 b20 o5"] * 40] * 2, flags={20: "captured"})
    captures = (Capture(1, ranks[0].steps.start_ns[20].item(), 20, stall_ns=40_000_000),)
    ranks = [replace(ranks[0], captures=captures), replace(ranks[1], exit_ns=None, is_alive=False)]
    logs = [log_of_marks(each, f"{n}.ring") for n, each in enumerate(ranks)]
    given = [report.Input(kind="steps", format="step-ring", name=each.name) for each in logs]
    return diagnose((), given, Options(catalog=CATALOG, lang="zh"), (), (), logs, analyse_marks(ranks))


@pytest.mark.parametrize("view", [markdown, html])
def test_a_report_of_marks_has_no_english_sentence(view) -> None:
    # The report itself lies in a page as JSON, which keeps what was written.
    shown = re.sub(r"<script.*?</script>", "", view.render(of_ranks(), "zh"), flags=re.DOTALL)
    for name in ("after forward", "between steps", "the process", "marks tell", "a trace of a few steps"):
        assert name not in shown, re.findall(rf".{{30}}{name}.{{30}}", shown)
    assert "前向之后" in shown
    assert "取数据" in shown
