"""Findings of a part of the run: causes that hold in some steps in a row, and hardly in the others. Pure.

The rules are judged again on those steps alone. What they say there is the finding, with its steps; what it
costs the whole run is said too. A finding that the run has for such parts alone is told of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.analyse.marked.account import StepSums
from stepscope.detect.spell import spells
from stepscope.diagnose.row import Row, judged
from stepscope.model.analysis import DeviceAnalysis
from stepscope.rules import rule as rules

LEAST_PART = 0.5
"""Of a rule's threshold: a step that exceeds the ordinary by so much counts."""
MOST_SPELLS = 3
"""Of one rule and row, the costliest."""


@dataclass(frozen=True, slots=True)
class Held:
    """One rule's finding in a spell: `row` is the row of those steps alone; `steps` their first and last
    number; `is_last` where the run ends with it."""

    found: rules.Finding
    row: Row
    steps: tuple[int, int]
    is_last: bool


def held(row: Row, catalog: Sequence[rules.Rule]) -> tuple[Row, tuple[Held, ...]]:
    """The row without findings that are told of a part, and those findings. Only of rows that can be
    narrowed to some of their steps."""
    device = row.observed.device
    by_step = device.by_step
    if device.within is None or device.tells is None or not isinstance(by_step, StepSums):
        return row, ()
    result: list[Held] = []
    told: set[str] = set()
    for rule in catalog:
        part = _part(rule)
        threshold = _threshold(rule)
        if part is None or threshold is None or part not in device.tells:
            continue
        series = by_step.share(part.removeprefix("idle."))
        found = spells(series, LEAST_PART * threshold)
        narrow = [
            each
            for spell in found
            if (each := _judged(row, rule, device, by_step, spell.first, spell.last)) is not None
        ]
        narrow.sort(key=lambda each: -_time(each))
        whole = next((each for each in row.found if each.rule.id == rule.id), None)
        if whole is not None:
            if not narrow or _beside(by_step, part, narrow) >= threshold:
                continue
            told.add(rule.id)
        result += narrow[:MOST_SPELLS]
    kept = tuple(each for each in row.found if each.rule.id not in told)
    return replace(row, found=kept), tuple(result)


def _beside(by_step: StepSums, part: str, narrow: Sequence[Held]) -> float:
    """The cause's share of the steps that lie in no spell."""
    outside = np.ones(len(by_step), dtype=bool)
    for each in narrow:
        outside &= (by_step.number < each.steps[0]) | (by_step.number > each.steps[1])
    took = float(by_step.total_ns[outside].sum())
    return float(by_step.column(part.removeprefix("idle."))[outside].sum()) / took if took else 0.0


def _part(rule: rules.Rule) -> str | None:
    """The one idle cause that the rule's cost is of."""
    of = rule.cost.of if rule.cost is not None else ()
    return of[0] if len(of) == 1 and of[0].startswith("idle.") else None


def _threshold(rule: rules.Rule) -> float | None:
    return next((c.threshold for c in rule.when if c.feature is rule.cost and c.op == ">="), None)


def _judged(
    row: Row, rule: rules.Rule, device: DeviceAnalysis, by_step: StepSums, first: int, last: int
) -> Held | None:
    assert device.within is not None
    steps = int(by_step.number[first]), int(by_step.number[last])
    narrow = device.within(*steps)
    beside = {name: value for name, value in device.numbers.items() if name not in narrow.numbers}
    narrow = replace(narrow, numbers={**beside, **narrow.numbers})
    inside = judged(replace(row.observed, device=narrow), row.place, [rule])
    if not inside.found:
        return None
    # Of what else is known of the row the whole run speaks.
    inside = replace(inside, clear=row.clear, undecided=row.undecided)
    return Held(inside.found[0], inside, steps, last == len(by_step) - 1)


def _time(each: Held) -> float:
    return (each.found.cost_share or 0.0) * each.row.account.total_ns
