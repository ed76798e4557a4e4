"""A report for a pull request."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from stepscope.model import report
from stepscope.model.text import LANGS, Lang
from stepscope.views.markdown import code, escaped, render
from tests.diagnose import build
from tests.views.show import shown

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_report_looks_like_its_snapshot(lang: Lang) -> None:
    text = render(build.input_starved(lang), lang)
    path = SNAPSHOTS / f"input_starved.{lang}.md"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("lang", LANGS)
def test_all_that_the_terminal_says_of_the_data_is_in_markdown(lang: Lang) -> None:
    """Notes as much as what is degraded, and what a withheld number needs."""
    effects: tuple[report.Effect, ...] = ("none", "degraded", "withheld")
    issues = tuple(
        report.HealthIssue(code="no_steps", count=1, effect=effect, detail=f"seen as {effect}")
        for effect in effects
    )
    withheld = (
        report.Withheld(what="one number", why="it was not seen", would_settle="the whole trace"),
        report.Withheld(what="another", why="nobody knows"),
    )
    answer = build.told(build.rank(build.row(), issues=issues, withheld=withheld), lang=lang)
    lines = shown(answer, lang, width=1000).splitlines()
    told = [line.strip() for line in lines[2 : lines.index("")]]
    assert len(told) == 5
    text = render(answer, lang)
    assert [line for line in told if f"- {line}" not in text.splitlines()] == []


@pytest.mark.parametrize(("window", "words"), [("device", "设备窗口"), ("host", "主机窗口")])
def test_the_row_says_which_windows_its_steps_have(window: report.WindowKind, words: str) -> None:
    row = msgspec.structs.replace(build.row(), window=window)
    for lang, each in (("en", f"{window} windows"), ("zh", words)):
        answer = build.told(build.rank(row), lang=lang)
        assert each in render(answer, lang)
        assert each in shown(answer, lang)
    whole = msgspec.structs.replace(build.row(scope="trace", num_steps=0), window=window)
    assert "windows" not in render(build.told(build.rank(whole)))
    assert "windows" not in shown(build.told(build.rank(whole)))


def test_text_of_an_input_is_no_markup() -> None:
    assert escaped("<img src=x> [a](http://b) *c* `d` @team\nnext | col") == (
        "&lt;img src=x&gt; \\[a\\](http:\u200b//b) \\*c\\* \\`d\\` @\u200bteam next \\| col"
    )


def test_code_holds_backticks_and_bars() -> None:
    assert code("a`b|c") == "`` a`b|c ``"


def test_an_operator_with_a_bar_stays_in_its_cell() -> None:
    evil = report.Operator(name="a|b\n| c `<script>`", count=1, device_ns=5, rank=0)
    text = render(build.told(build.rank(build.row(), operators=(evil,))))
    (line,) = [line for line in text.splitlines() if "script" in line]
    assert line.replace("\\|", "").count("|") == 6
    assert "`` a\\|b \\| c `<script>` ``" in line
