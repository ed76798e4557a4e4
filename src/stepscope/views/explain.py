"""The catalogue on a terminal, and one rule in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console

from stepscope.diagnose.word import limit
from stepscope.model.feature import Clause
from stepscope.model.text import Lang, Text
from stepscope.rules.rule import Remedy, Rule
from stepscope.views.label import LAYER, VERDICT, YOUR_TRACE, colon, joined, listed, word
from stepscope.views.page import Page
from stepscope.views.phrase import patch_lines
from stepscope.views.signature import as_text, legend


def render_rules(rules: Iterable[Rule], console: Console, lang: Lang = "en") -> None:
    """Every rule: its name, its title and when it fires."""
    page, rules = Page(console, lang), list(rules)
    for rule in rules:
        page.line(rule.id, "bold")
        page.line(rule.title.in_(lang), indent=2)
        page.line(f"{word('fires', lang)}{colon(lang)}{clauses(rule.when, lang)}", "dim", indent=2)
    page.gap()
    page.command(f"{word('next', lang)}{colon(lang)}", f"stepscope explain {rules[0].id}")


def render_explain(rule: Rule, console: Console, lang: Lang = "en") -> None:
    """One rule with its thresholds, where they come from, checks and remedies."""
    page = Page(console, lang)
    page.line(rule.id, "bold")
    page.line(rule.title.in_(lang), indent=2)
    page.line(rule.explanation.in_(lang), indent=2)
    _picture(page, rule)
    for key, text in facts(rule, lang):
        page.line(f"{word(key, lang)}{colon(lang)}{text}", indent=2)
    page.gap()
    if rule.readings:
        page.line(word("readings", lang), "bold", indent=2)
    for title, when in readings(rule, lang):
        page.line(f"- {title}", indent=4)
        page.line(when, "dim", indent=6)
    _advice(page, rule.checks, rule.remedies)
    page.line(word("references", lang), "bold", indent=2)
    for feature, reference in rule.references.items():
        page.line(f"{feature.name}{colon(lang)}{reference.in_(lang)}", indent=4)
    if rule.on_host is not None:
        page.line(word("on_host", lang), "bold", indent=2)
        page.line(rule.on_host.title.in_(lang), indent=4)
        page.line(rule.on_host.explanation.in_(lang), indent=4)
        _advice(page, rule.on_host.checks, rule.on_host.remedies, indent=4)
    page.gap()
    page.command(f"{word('next', lang)}{colon(lang)}", YOUR_TRACE.in_(lang))


def _picture(page: Page, rule: Rule) -> None:
    """What the cause looks like on a timeline, and what its letters stand for."""
    lang = page.lang
    page.gap()
    for line in as_text(rule.signature, page.width - 4, lang):
        page.verbatim(line, indent=4)
    page.line(rule.signature.caption.in_(lang), indent=4)
    told = (f"{letter} = {text.in_(lang)}" for letter, text in legend(rule.signature).items())
    page.line(listed(told, lang), "dim", indent=4)
    page.gap()


def _advice(page: Page, checks: Sequence[Text], remedies: Sequence[Remedy], indent: int = 2) -> None:
    """What to check, and what to change under which conditions."""
    lang = page.lang
    if checks:
        page.line(word("checks", lang), "bold", indent=indent)
    for place, check in enumerate(checks, 1):
        page.line(f"{place}. {check.in_(lang)}", indent=indent + 2)
    if remedies:
        page.line(word("remedies", lang), "bold", indent=indent)
    for remedy in remedies:
        page.line(f"- {remedy.text.in_(lang)}", indent=indent + 2)
        for key, gate in gates(remedy, lang):
            page.line(f"{word(key, lang)}{colon(lang)}{gate}", "dim", indent=indent + 4)
        for mark, line in patch_lines(remedy.patch, lang) if remedy.patch is not None else ():
            page.verbatim(f"{mark} {line}", indent=indent + 4)


def readings(rule: Rule, lang: Lang) -> list[tuple[str, str]]:
    """Titles that say more than the rule's own, and when each is used."""
    told = []
    for reading in rule.readings:
        when = f"{word('only_if', lang)}{colon(lang)}{clauses(reading.only_if, lang)}"
        told.append((reading.title.in_(lang), when))
        if reading.with_all_ranks is not None:
            told.append(
                (reading.with_all_ranks.in_(lang), joined((when, word("with_all_ranks", lang)), lang))
            )
    return told


def gates(remedy: Remedy, lang: Lang) -> list[tuple[str, str]]:
    """When a remedy is offered and what shows that it worked, as (word key, clauses), for what it has."""
    told = (("only_if", remedy.only_if), ("unless", remedy.unless), ("clears", (remedy.clears,)))
    return [(key, clauses(gate, lang)) for key, gate in told if gate]


def facts(rule: Rule, lang: Lang) -> list[tuple[str, str]]:
    """What a rule is made of, as (word key, text), for what it has."""
    is_costless = rule.severity is not None and rule.cost is None
    told = [
        ("fires", clauses(rule.when, lang)),
        ("unless", clauses(rule.unless, lang)),
        ("corroborated", clauses(rule.corroborated_by, lang)),
        ("open", clauses([c for each in rule.questions for c in each.settled_by], lang)),
        ("cost", rule.cost.name if rule.cost is not None else ""),
        ("also_shown", listed((feature.name for feature in rule.shows), lang)),
        # What costs no time is no answer to why a step is slow: it has a severity of its own.
        ("verdict", "" if is_costless else VERDICT[rule.verdict].in_(lang)),
        (
            "severity" if is_costless else "severity_unpriced",
            word(rule.severity, lang) if rule.severity else "",
        ),
        ("layer", LAYER[rule.layer.value].in_(lang)),
        ("explains", listed(rule.explains, lang)),
        ("needs", rule.needs.text.in_(lang)),
    ]
    return [(key, text) for key, text in told if text]


def clauses(wanted: Iterable[Clause], lang: Lang) -> str:
    """Clauses as people read them."""
    return listed(map(limit, wanted), lang)
