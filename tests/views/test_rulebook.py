"""The pages of the rules say all that a rule may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model.text import LANGS, Lang, Text
from stepscope.rules import load_catalog
from stepscope.rules.rule import Rule
from stepscope.views.detail import patch_line
from stepscope.views.explain import render_explain
from stepscope.views.rulebook import rule_page, rulebook
from tests.views.show import printed

DOCS = Path(__file__).parents[2] / "docs"


def test_the_folder_of_rules_holds_a_page_and_a_picture_of_each_and_nothing_else() -> None:
    wanted = {f"{rule.id}.{kind}" for rule in load_catalog(others=()) for kind in ("md", "svg")}
    assert {path.name for path in (DOCS / "rules").iterdir()} == wanted, "run `make docs`"


def test_every_rule_and_feature_has_its_place() -> None:
    page = rulebook(load_catalog(others=()))
    for rule in load_catalog(others=()):
        assert f"| [{rule.id}](../rules/{rule.id}.md) |" in page
        assert f"]({rule.id}.svg)" in rule_page(rule)
        for feature in rule.features():
            assert f"| `{feature.name}` |" in page


def said(rule: Rule) -> list[Text]:
    """Every text that a report may show of a rule."""
    host = rule.on_host
    remedies = [*rule.remedies, *(host.remedies if host else ())]
    titles = [text for r in rule.readings for text in (r.title, r.with_all_ranks) if text is not None]
    on_host = [host.title, host.explanation, *host.checks] if host else []
    own = [rule.title, rule.explanation, rule.signature.caption, *rule.checks, *(r.text for r in remedies)]
    return [*own, *titles, *on_host, *rule.references.values()]


@pytest.mark.parametrize("lang", LANGS)
def test_all_that_a_rule_may_say_is_explained_and_in_the_book(lang: Lang) -> None:
    for rule in load_catalog(others=()):
        page = rule_page(rule)
        told = printed(lambda console, rule=rule: render_explain(rule, console, lang), width=10_000)
        for text in said(rule):
            assert text.in_(lang) in told
            assert text.en in page
        assert all(text.zh in page for text in [rule.title, *(r.title for r in rule.readings)])
        for line in (
            line
            for remedy in (rule.on_host.remedies if rule.on_host else ())
            if remedy.patch
            for line in remedy.patch.after.splitlines()
        ):
            assert f"+ {patch_line(line, lang)}" in told
            assert f"+{line}" in page
    assert any(rule.on_host for rule in load_catalog(others=()))
