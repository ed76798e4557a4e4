"""The pages of the rules, generated from the catalogue: an index, and one page a rule with its picture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from stepscope.model.feature import Feature
from stepscope.model.text import Text
from stepscope.rules.rule import Remedy, Rule
from stepscope.views.explain import clauses, facts, gates, readings
from stepscope.views.label import VERDICT, word
from stepscope.views.shape import diff
from stepscope.views.signature import legend

_HEAD = """# Rules

Generated from the catalogue; do not edit. A rule is a finding when every clause of *fires when* holds and
none of *unless* does. A number that was not measured makes a rule undecided, never clear. Shares are of step
time. A finding that costs under 5 % of the step is information, under 20 % a warning, from there critical.
Confidence is high when two independent layers agree, medium on one layer, low where the data behind this very
number are degraded, and for causes of idle time where no steps are marked. A site sets thresholds of its own
with `--rules-config FILE`: `[rule-id]`, then `feature = number` (a share as 0.05, not as 5).

Every rule has a page with its picture, its thresholds and where they come from, what to check and what to
change; `stepscope explain RULE` says the same on a terminal.
"""


def rulebook(rules: Iterable[Rule]) -> str:
    """The page `docs/reference/rules.md`: every rule and every feature in a line, ending in a newline."""
    rules = list(rules)
    lines = [_HEAD, "| rule | what it says | verdict | fires when |", "|---|---|---|---|"]
    for rule in rules:
        link = f"[{rule.id}](../rules/{rule.id}.md)"
        when = "; ".join(f"`{each}`" for each in clauses(rule.when, "en").split(", "))
        lines.append(f"| {link} | {rule.title.en} | {VERDICT[rule.verdict].en} | {when} |")
    lines += ["", "## Features", "", "| feature | unit | from | what |", "|---|---|---|---|"]
    features: dict[str, Feature] = {feature.name: feature for rule in rules for feature in rule.features()}
    for name in sorted(features):
        feature = features[name]
        lines.append(f"| `{name}` | {feature.unit} | {feature.origin} | {feature.help} |")
    return "\n".join(lines) + "\n"


def rule_page(rule: Rule) -> str:
    """The page `docs/rules/RULE.md`, with the picture `RULE.svg` beside it, ending in a newline."""
    caption = rule.signature.caption
    told = "; ".join(f"`{letter}` {text.en} ({text.zh})" for letter, text in legend(rule.signature).items())
    lines = [f"# {rule.id}", "", f"**{rule.title.en}** · {rule.title.zh}", "", rule.explanation.en, ""]
    lines += [f"![{caption.en}]({rule.id}.svg)", "", f"*{caption.en}* · {caption.zh}", "", f"{told}.", ""]
    lines += [f"* {word(key, 'en')}: {_marked(key, text)}" for key, text in facts(rule, "en")]
    if rule.readings:
        lines += ["", f"{word('readings', 'en')}:", ""]
        for (title, when), (chinese, _) in zip(readings(rule, "en"), readings(rule, "zh"), strict=True):
            lines.append(f"* {title} · {chinese} ({when})")
    lines += _advice(rule.checks, rule.remedies)
    lines += ["", f"{word('references', 'en')}:", ""]
    lines += [f"* `{feature.name}`: {reference.en}" for feature, reference in rule.references.items()]
    if host := rule.on_host:
        lines += ["", f"## {word('on_host', 'en')}", "", f"**{host.title.en}** · {host.title.zh}", ""]
        lines += [host.explanation.en, *_advice(host.checks, host.remedies)]
    lines += ["", "[All rules and features](../reference/rules.md)"]
    # A block of code ends in an empty line of its own.
    return re.sub("\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _marked(key: str, text: str) -> str:
    """Names of features as code, those of rules as links."""
    if key == "explains":
        return ", ".join(f"[{each}]({each}.md)" for each in text.split(", "))
    if key in ("fires", "unless", "corroborated", "open", "cost", "also_shown"):
        return ", ".join(f"`{each}`" for each in text.split(", "))
    return text


def _advice(checks: Sequence[Text], remedies: Sequence[Remedy]) -> list[str]:
    lines: list[str] = []
    if checks:
        lines += ["", f"{word('checks', 'en')}:", ""]
        lines += [f"{place}. {check.en}" for place, check in enumerate(checks, 1)]
    if remedies:
        lines += ["", f"{word('remedies', 'en')}:", ""]
    for remedy in remedies:
        told = "; ".join(f"{word(key, 'en').lower()} `{gate}`" for key, gate in gates(remedy, "en"))
        lines.append(f"* {remedy.text.en} ({told})")
        if remedy.patch is not None:
            patch = map("".join, diff(remedy.patch))
            lines += ["", "  ```diff", *(f"  {line}" for line in patch), "  ```", ""]
    return lines
