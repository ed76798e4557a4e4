"""Since when: the first counted step in which a cause reaches its threshold."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.feature import Clause, Observed
from stepscope.rules.rule import Rule


@dataclass(frozen=True, slots=True)
class Onset:
    """The first and last step at the threshold, and when the first began."""

    step: int
    last_step: int
    at_ns: int | None


def onset(rule: Rule, observed: Observed) -> Onset | None:
    """Where the rule's cost first and last reaches its threshold, `None` where steps do not tell."""
    steps = _steps(rule, observed)
    if not steps:
        return None
    starts = {step.step: step.start_ns for step in observed.rank.steps}
    return Onset(min(steps), max(steps), starts.get(min(steps)))


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
