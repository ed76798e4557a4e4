"""The reference page of all rules, generated from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from stepscope.model.feature import Feature
from stepscope.rules.rule import Remedy, Rule
from stepscope.views.explain import clauses, facts
from stepscope.views.label import word

_HEAD = """# Rules

Generated from the catalogue; do not edit. A rule is a finding when every clause of *fires when* holds and
none of *unless* does. A number that was not measured makes a rule undecided, never clear. Shares are of step
time. A finding that costs under 5 % of the step is information, under 20 % a warning, from there critical.
Confidence is high when two independent layers agree, medium on one layer, low on degraded data. A site sets
thresholds of its own with `--rules-config FILE`: `[rule-id]`, then `feature = number` (a share as 0.05, not
as 5).
"""


def rulebook(rules: Iterable[Rule]) -> str:
    """The page `docs/reference/rules.md`, ending in a newline."""
    rules = list(rules)
    lines = [_HEAD]
    for rule in rules:
        lines += _rule(rule)
    lines += ["## Features", "", "| feature | unit | from | what |", "|---|---|---|---|"]
    features: dict[str, Feature] = {feature.name: feature for rule in rules for feature in rule.features()}
    for name in sorted(features):
        feature = features[name]
        lines.append(f"| `{name}` | {feature.unit} | {feature.origin} | {feature.help} |")
    return "\n".join(lines) + "\n"


def _rule(rule: Rule) -> list[str]:
    lines = [f"## {rule.id}", "", f"**{rule.title.en}** · {rule.title.zh}", "", rule.explanation.en, ""]
    lines += [f"* {word(key, 'en')}: {_marked(key, text)}" for key, text in facts(rule, "en")]
    if rule.checks:
        lines += ["", f"{word('checks', 'en')}:", ""]
        lines += [f"{place}. {check.en}" for place, check in enumerate(rule.checks, 1)]
    if rule.remedies:
        lines += ["", f"{word('remedies', 'en')}:", ""]
    for remedy in rule.remedies:
        lines += _remedy(remedy)
    lines += ["", f"{word('references', 'en')}:", ""]
    lines += [f"* `{feature.name}`: {reference.en}" for feature, reference in rule.references.items()]
    return [*lines, ""]


def _marked(key: str, text: str) -> str:
    """Names of features and rules as code."""
    if key in ("fires", "unless", "corroborated", "open", "cost", "also_shown", "explains"):
        return ", ".join(f"`{each}`" for each in text.split(", "))
    return text


def _remedy(remedy: Remedy) -> list[str]:
    gates = (("only_if", remedy.only_if), ("unless", remedy.unless), ("clears", (remedy.clears,)))
    told = "; ".join(f"{word(key, 'en').lower()} `{clauses(gate)}`" for key, gate in gates if gate)
    lines = [f"* {remedy.text.en} ({told})"]
    if remedy.patch is not None:
        before = [f"-{line}" for line in (remedy.patch.before or "").splitlines()]
        after = [f"+{line}" for line in remedy.patch.after.splitlines()]
        lines += ["", "  ```diff", *(f"  {line}" for line in (*before, *after)), "  ```", ""]
    return lines
