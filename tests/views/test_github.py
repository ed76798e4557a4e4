"""Markdown as GitHub shows it: within its limits, and without links or pings out of names in a trace."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

import stepscope
from stepscope.model import report
from stepscope.model.analysis import Culprit
from stepscope.model.error import StepscopeError
from stepscope.model.text import LANGS, Lang
from stepscope.views.markdown import MAX_LENGTH, escaped, render
from tests.diagnose import build
from tests.mcp.test_answer import traces

GITHUB = 65_536


class Page(HTMLParser):
    """What a reader sees: tags in order, and text outside of code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.prose = ""
        self.feed(MarkdownIt("commonmark", {"html": True}).enable("table").render(text))

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: Any) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "code" not in self.open:
            self.prose += data


LINKED = re.compile(r"@\w|#\d|\bGH-\d|\bwww\.|://")
"""What GitHub links in prose."""
OURS = {
    "strong", "p", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "b",
    "br", "code", "pre",
}  # fmt: skip


def check(text: str) -> Page:
    assert len(text.encode("utf-16-le")) // 2 <= MAX_LENGTH < GITHUB
    page = Page(text)
    assert page.open == []
    assert set(page.tags) <= OURS
    assert LINKED.search(page.prose) is None, LINKED.search(page.prose)
    return page


def named(name: str, lang: Lang = "en") -> report.Report:
    """A report in which a stranger's name stands wherever one can."""
    return build.told(
        build.rank(
            build.row(input=33 * build.MS, device=report.Device(index=0, name=name)),
            culprits={"input": (Culprit(name, 1, 1, 1, 2),)},
            issues=(report.HealthIssue(code=name, count=1, effect="degraded", detail=name),),
            withheld=(report.Withheld(what=name, why=name, would_settle=name),),
            operators=(report.Operator(rank=0, name=name, class_=name, count=1, device_ns=1),),
        ),
        inputs=[build.trace(name or "x"), report.Input(kind="trace", name=name, error=name)],
        lang=lang,
    )


HOSTILE = (
    "@octocat ping", "closes #12", "GH-26", "www.evil.example", "https://evil.example/x", "a@b.example",
    "<img src=x onerror=alert(1)>", "</details></summary><h1>big</h1>", "# big", "## big", "- x", "1. x",
    "> q", "| a | b |\n|---|---|", "```\ncode\n```", "`@octocat` #12", "[a](javascript:alert(1))",
    "![i](x)", "$x^2$", "\u202egnp", "***", "---", "=====", "~~x~~", "a\\", "\\`#12\\`", "x" * 100_000,
    "&#64;octocat", "&lt;b&gt;", "\U0001f600" * 40_000, "",
)  # fmt: skip


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("name", HOSTILE, ids=lambda name: ascii(name)[:24])
def test_no_name_of_a_trace_becomes_markup_a_link_or_a_ping(name: str, lang: Lang) -> None:
    page = check(render(named(name, lang), lang))
    assert page.tags.count("details") == 3
    assert "table" in page.tags


@settings(max_examples=80, deadline=None)
@given(
    st.text(
        st.one_of(
            st.sampled_from("@#$`*_~[]()<>|\\!-+=.:/&1aGHw \n"), st.characters(exclude_categories=["Cs"])
        ),
        max_size=60,
    )
)
def test_no_text_becomes_markup_a_link_or_a_ping(name: str) -> None:
    check(render(named(name)))
    page = Page(f"- {escaped(name)}\n")
    assert set(page.tags) <= {"ul", "li", "p", "br"}
    assert LINKED.search(page.prose) is None
    assert "$" not in escaped(name)  # which begins a formula


def test_the_answer_stands_first_the_first_change_is_told_and_the_rest_is_folded() -> None:
    text = render(build.input_starved("en"), "en")
    head, _, folded = text.partition("<details>")
    lines = head.splitlines()
    assert lines[0].startswith("**Waiting for data, 33.0 % of the step")
    assert "| idle, waiting for input | 33.0 % | 8.25 ms |" in lines
    assert any(line.startswith("**Change first**: Raise num\\_workers") for line in lines)
    assert "Evidence" not in head
    assert "Evidence" in folded
    assert len(head) < 1_500


def test_what_does_not_fit_is_left_out_from_the_end_and_counted() -> None:
    answer = build.input_starved("en")
    many = report.Report(
        **{
            **{name: getattr(answer, name) for name in answer.__struct_fields__},
            "cards": answer.cards * 100,
        }
    )
    text = render(many, "en")
    check(text)
    shown = text.count("<b>critical")
    left = int(re.search(r"^\+ (\d+) sections left out", text, re.MULTILINE)[1])  # type: ignore[index]
    assert 10 < shown < 100
    assert shown + left == 100 + 2  # the operators and the open questions go first
    assert text.endswith(
        "stepscope diagnose NEW_TRACE  # after the change, with the same steps recorded again\n```\n"
    )


def test_every_real_trace_fits(shared_data: Path) -> None:
    sizes = []
    for path in traces(shared_data):
        try:
            answer = stepscope.diagnose(path)
        except StepscopeError:
            continue
        text = render(answer)
        check(text)
        sizes.append(len(text))
    assert len(sizes) >= 30
    print(f"{len(sizes)} traces: largest {max(sizes)} characters")
