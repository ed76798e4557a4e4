"""The catalogue on a terminal, and one rule in full."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console

from stepscope.diagnose.word import limit
from stepscope.model.feature import Clause
from stepscope.model.text import Lang
from stepscope.rules.rule import Rule
from stepscope.views.label import LAYER, VERDICT, colon, word
from stepscope.views.page import Page


def render_rules(rules: Iterable[Rule], console: Console, lang: Lang = "en") -> None:
    """Every rule: its name, its title and when it fires."""
    page = Page(console, lang)
    for rule in rules:
        page.line(rule.id, "bold")
        page.line(rule.title.in_(lang), indent=2)
        page.line(f"{word('fires', lang)}{colon(lang)}{clauses(rule.when)}", "dim", indent=2)


def render_explain(rule: Rule, console: Console, lang: Lang = "en") -> None:
    """One rule with its thresholds, where they come from, checks and remedies."""
    page = Page(console, lang)
    page.line(rule.id, "bold")
    page.line(rule.title.in_(lang), indent=2)
    page.line(rule.explanation.in_(lang), indent=2)
    page.gap()
    for key, text in facts(rule, lang):
        page.line(f"{word(key, lang)}{colon(lang)}{text}", indent=2)
    page.gap()
    _numbered(page, "checks", [check.in_(lang) for check in rule.checks])
    if rule.remedies:
        page.line(word("remedies", lang), "bold", indent=2)
    for remedy in rule.remedies:
        page.line(f"- {remedy.text.in_(lang)}", indent=4)
        for key, gate in (
            ("only_if", remedy.only_if),
            ("unless", remedy.unless),
            ("clears", (remedy.clears,)),
        ):
            if gate:
                page.line(f"{word(key, lang)}{colon(lang)}{clauses(gate)}", "dim", indent=6)
        if remedy.patch is not None:
            for mark, code in (("-", remedy.patch.before), ("+", remedy.patch.after)):
                for line in (code or "").splitlines():
                    page.verbatim(f"{mark} {line}", indent=6)
    page.line(word("references", lang), "bold", indent=2)
    for feature, reference in rule.references.items():
        page.line(f"{feature.name}{colon(lang)}{reference.in_(lang)}", indent=4)


def facts(rule: Rule, lang: Lang) -> list[tuple[str, str]]:
    """What a rule is made of, as (word key, text), for what it has."""
    told = [
        ("fires", clauses(rule.when)),
        ("unless", clauses(rule.unless)),
        ("corroborated", clauses(rule.corroborated_by)),
        ("open", clauses(rule.question.settled_by) if rule.question else ""),
        ("cost", rule.cost.name if rule.cost is not None else ""),
        ("also_shown", ", ".join(feature.name for feature in rule.shows)),
        ("verdict", VERDICT[rule.verdict].in_(lang)),
        ("layer", LAYER[rule.layer.value].in_(lang)),
        ("explains", ", ".join(rule.explains)),
        ("needs", rule.needs.text.in_(lang)),
    ]
    return [(key, text) for key, text in told if text]


def clauses(wanted: Iterable[Clause]) -> str:
    """Clauses as people read them."""
    return ", ".join(limit(clause) for clause in wanted)


def _numbered(page: Page, key: str, lines: list[str]) -> None:
    if lines:
        page.line(word(key, page.lang), "bold", indent=2)
    for place, line in enumerate(lines, 1):
        page.line(f"{place}. {line}", indent=4)
