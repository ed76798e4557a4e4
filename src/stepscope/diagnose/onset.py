"""Since when: the first counted step in which a cause reaches its threshold, and whether it stays there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stepscope.model.feature import Clause, Observed
from stepscope.rules.rule import Rule

HOLDS_SHARE = 0.8
"""Of the steps behind the first so many must reach the threshold too, or the cause did not begin there."""


@dataclass(frozen=True, slots=True)
class Onset:
    """The first and last step at the threshold, and when the first began.

    `holds` where `HOLDS_SHARE` of the later steps reach the threshold too; of no later step it does not.
    """

    step: int
    last_step: int
    at_ns: int | None
    holds: bool


def onset(rule: Rule, observed: Observed) -> Onset | None:
    """Where the rule's cost first and last reaches its threshold, `None` where steps do not tell."""
    steps = set(_steps(rule, observed))
    if not steps:
        return None
    first = min(steps)
    starts = {step.step: step.start_ns for step in observed.rank.steps}
    later = {number for number in _judged(rule, observed) if number > first}
    holds = bool(later) and len(later & steps) >= HOLDS_SHARE * len(later)
    return Onset(first, max(steps), starts.get(first), holds)


def _judged(rule: Rule, observed: Observed) -> Iterable[int]:
    """The steps that can reach the threshold."""
    if rule.cost is not None and rule.cost.of:
        return observed.device.by_step
    return (step.step for step in observed.rank.steps if step.use in ("counted", "marked"))


def _steps(rule: Rule, observed: Observed) -> list[int]:
    if rule.cost is None:
        return []
    deciding = [clause for clause in rule.when if clause.feature is rule.cost]
    if not rule.cost.of:
        variation = observed.device.accounting.variation
        return list(variation.slow_steps) if variation is not None else []
    return [
        number
        for number, parts in observed.device.by_step.items()
        if _reaches(deciding, sum(parts.get(f"{part}_ns", 0) for part in rule.cost.of), parts["total_ns"])
    ]


def _reaches(deciding: list[Clause], time_ns: int, total_ns: int) -> bool:
    if total_ns <= 0:
        return False
    # A rule that decides by other features than its cost (unrecorded work) begins where the cost does.
    return all(c.holds(time_ns / total_ns) for c in deciding) if deciding else time_ns > 0
