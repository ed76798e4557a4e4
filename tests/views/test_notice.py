"""A notice in every markup: it fits, says the same, and nothing in it acts."""

from __future__ import annotations

import dataclasses
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.offline import diagnose
from stepscope.views.markup import MARKUPS
from stepscope.views.notice import notice_of, text_of, title_of
from tests.act.notify.made import incident, notice

EVERY = sorted(MARKUPS)


@pytest.mark.parametrize("markup", EVERY)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_body_has_verdict_ranks_evidence_checks_patch_and_proof(markup: str, lang: str) -> None:
    text = text_of(notice(lang=lang), MARKUPS[markup])
    plain = (
        re.sub(r"[\\\u200b]", "", text)
        .replace("＿", "_")
        .replace("&gt;", ">")
        .replace("&lt;", "<")
        .replace("＞", ">")
        .replace("＜", "<")
    )
    for piece in (
        "Waiting for data, 34 % of the step", "0–3, 7", "idle_input_share 34 % (>= 10 %)",
        "1. Read num_workers.",
        "num_workers=8", "29 % to at most 34 %", "idle_input_share <= 5 %", "2025-06-15 15:06:40 UTC",
    ):  # fmt: skip
        assert piece in plain
    assert ("证据" in text) is (lang == "zh")


def test_the_title_names_severity_and_job_and_later_the_state() -> None:
    assert title_of(notice(), MARKUPS["text"]) == "[warning] The device waits for its next batch · llm"
    assert (
        title_of(notice(state="ended", lang="zh"), MARKUPS["html"])
        == "[已恢复] The device waits for its next batch · llm"
    )


texts = st.text(max_size=400)


@settings(max_examples=60, deadline=None)
@given(
    verdict=texts,
    evidence=st.lists(texts, max_size=30).map(tuple),
    next_=texts,
    markup=st.sampled_from(EVERY),
)
def test_no_input_makes_a_body_larger_than_its_service_takes(
    verdict: str, evidence: tuple[str, ...], next_: str, markup: str
) -> None:
    row = MARKUPS[markup]
    long = notice(verdict=verdict, evidence=evidence, next=next_, checks=evidence, unknown=evidence)
    small = dataclasses.replace(row, most=min(row.most, 1_500))
    for each in (row, small):
        assert each.size(text_of(long, each)) <= each.most


@pytest.mark.parametrize("markup", EVERY)
def test_a_name_from_a_trace_neither_calls_people_nor_links_nor_formats(markup: str) -> None:
    bad = "@all <!channel> <at user_id='all'></at> [x](http://evil) *b* `c` <script>alert(1)</script>"
    text = text_of(notice(verdict=bad, evidence=(bad,), next=f"run\n```\n{bad}"), MARKUPS[markup])
    # What stands in a block of code acts in none of these services, and can be copied.
    prose = re.sub(r"```.*?```|<pre>.*?</pre>", "", text, flags=re.DOTALL)
    assert "@all" not in prose
    assert "](http://evil)" not in prose or markup in ("text", "slack", "telegram", "html")
    if markup in ("slack", "telegram", "html"):
        assert not re.search(r"<(!channel|script|at )", text)
    if markup in ("dingtalk", "feishu", "wecom"):
        assert "<at " not in text
        assert "`" not in re.sub(r"(?m)^> `[^`]*`$", "", prose)  # code within a line
    if markup in ("slack", "markdown", "teams", "discord"):
        assert text.count("```") == 4  # the patch and the next command


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_sample_report_becomes_a_notice_with_its_patch_and_gain(lang: str) -> None:
    from importlib.resources import as_file, files

    with as_file(files("stepscope.demo") / "demo.pt.trace.json.gz") as path:
        report = diagnose([path], lang=lang)
    card = report.cards[0]
    found = notice_of(incident(card=card.id), (), report, lang=lang, link="http://here/card")
    assert found.title == card.title
    assert found.confidence == "medium"
    assert any("num_workers" in line for change in found.changes for line in change.patch)
    assert "28.9 %" in found.changes[0].gain
    assert "http://here/card" in text_of(found, MARKUPS["wecom"])


@pytest.mark.parametrize("markup", EVERY)
def test_code_is_copied_as_it_was_written(markup: str) -> None:
    """DingTalk showed `#` in its full width: what was pasted was no Python."""
    lines = (
        "@torch.compile",
        "loader = DataLoader(data, num_workers=8)  # of 16 cores",
        "x = rows[0] * a_b_c ~ d",
    )
    told = re.sub(r"<[^>]*>|&#x27;", "", MARKUPS[markup].code(list(lines)))
    for line in lines:
        assert line in told
