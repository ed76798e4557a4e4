"""What a reader must know of a rule's findings beside them: thresholds, weak ground, the ranks between."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.diagnose import word
from stepscope.diagnose.finding import Told
from stepscope.diagnose.row import Row
from stepscope.model.text import Lang, Text


def notes(rows: Sequence[Row], findings: Sequence[Told], lang: Lang) -> dict[str, tuple[str, ...]]:
    """Rule id -> the site's own thresholds among its clauses, and why a confidence is low."""
    notes: dict[str, dict[str, None]] = {}
    for each in findings:
        doubts = [question.doubt.in_(lang) for question in each.open if question.doubt is not None]
        notes.setdefault(each.rule.id, {}).update(dict.fromkeys(doubts))
    for row in rows:
        for found in row.found:
            rule = found.rule
            told = notes.setdefault(rule.id, {})
            for clause in (*rule.when, *rule.unless, *rule.corroborated_by):
                if clause.overridden:
                    told[word.overridden(clause, lang)] = None
            if found.confidence == "low":
                scope = row.observed.device.accounting.scope
                told[(word.NO_STEPS if scope == "trace" else word.DEGRADED).in_(lang)] = None
            once = row.once(rule, round((found.cost_share or 0.0) * row.observed.device.accounting.total_ns))
            if once is not None:
                told[(word.ONCE if once.step is None else word.in_one_step(once.step)).in_(lang)] = None
            if row.is_one_step and rule.cost is not None:
                told[word.ONE_STEP.in_(lang)] = None
            of = rule.cost.of if rule.cost is not None else ()
            between = _extremes(rows) if "communication_exposed" in of else None
            if between is not None:
                told[between.in_(lang)] = None
    return {rule_id: tuple(told) for rule_id, told in notes.items()}


def _extremes(rows: Sequence[Row]) -> Text | None:
    """The ranks with the least and the most time in collectives, `None` where there are not several."""
    accounts = [row.observed.device.accounting for row in rows]
    times = [
        (account.rank, account.communication.total_ns / (account.num_steps or 1))
        for account in accounts
        if account.rank is not None and account.communication is not None
    ]
    known = [(rank, time) for rank, time in times if rank is not None]
    if len({rank for rank, _ in known}) < 2:
        return None
    is_step = all(account.scope == "steps" for account in accounts)
    by_time = sorted(known, key=lambda each: each[1])
    return word.extremes(by_time[0], by_time[-1], is_step)
