"""A report for a pull request."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.views.markdown import code, escaped, render
from tests.diagnose import build

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_report_looks_like_its_snapshot(lang: Lang) -> None:
    text = render(build.input_starved(lang), lang)
    path = SNAPSHOTS / f"input_starved.{lang}.md"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_text_of_an_input_is_no_markup() -> None:
    assert escaped("<img src=x> [a](http://b) *c* `d` @team\nnext | col") == (
        "&lt;img src=x&gt; \\[a\\](http:\u200b//b) \\*c\\* \\`d\\` @\u200bteam next \\| col"
    )


def test_code_holds_backticks_and_bars() -> None:
    assert code("a`b|c") == "`` a`b\\|c ``"


def test_an_operator_with_a_bar_stays_in_its_cell() -> None:
    evil = report.Operator(name="a|b\n| c `<script>`", count=1, device_ns=5, rank=0)
    text = render(build.told(build.rank(build.row(), operators=(evil,))))
    (line,) = [line for line in text.splitlines() if "script" in line]
    assert line.replace("\\|", "").count("|") == 6
    assert "`` a\\|b \\| c `<script>` ``" in line
