"""What keeps ranks while another waits for them: idle causes of their own, step by step. Pure.

Lateness that goes round names nobody: each rank is kept in other steps. Who waits is then told nothing but
that it waits, though the causes that keep its peers were found. They account for its waiting where, in the
steps themselves, the peers lose to them what the waiting one does not lose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from stepscope.diagnose.row import Row
from stepscope.rules.rule import Rule

if TYPE_CHECKING:
    from stepscope.diagnose.finding import Told

LATE = "slow-rank"
"""A rule that explains a late rank says what keeps a rank."""

WAITS = frozenset({"waiting-for-peers"})
"""Rules that say that a rank waits for others, and not what keeps them."""


def kept_by(waiting: Told, told: Sequence[Told], least_part: float) -> Told | None:
    """Of what keeps the ranks that this one waits for the costliest, where together it accounts for at least
    `least_part` of the waiting; `None` of a finding that is no waiting, or where it does not."""
    if waiting.rule.id not in WAITS or waiting.finding.cost is None:
        return None
    own = waiting.row.observed.rank.rank
    causes = [
        each
        for each in told
        if keeps(each.rule) and each.row.observed.rank.rank != own and each.finding.cost is not None
    ]
    whole = kept_ns(waiting.row, [(each.row, each.rule) for each in causes])
    if not causes or whole < least_part * waiting.finding.cost.time_ns:
        return None
    return max(causes, key=lambda each: each.finding.cost.time_ns if each.finding.cost else 0)


def keeps(rule: Rule) -> bool:
    """Whether a rule is of idle time that makes its own rank late."""
    if LATE not in rule.explains or rule.cost is None or rule.cost.is_of_peers or not rule.cost.of:
        return False
    return all(part.startswith("idle.") for part in rule.cost.of)


def kept_ns(waiting: Row, causes: Sequence[tuple[Row, Rule]]) -> int:
    """Over the steps, what the one peer that is kept longest loses to these causes and `waiting` does not.

    `causes` are rows of other ranks with a rule that was found there; steps that only one of both has say
    nothing.
    """
    parts_of: dict[int, tuple[Row, set[str]]] = {}
    for row, rule in causes:
        if rule.cost is not None:
            parts_of.setdefault(id(row), (row, set()))[1].update(rule.cost.of)
    total = 0
    for step, own in waiting.observed.device.by_step.items():
        beyond = [
            _lost(its[step], parts) - _lost(own, parts)
            for row, parts in parts_of.values()
            if step in (its := row.observed.device.by_step)
        ]
        total += max([0, *beyond])
    return total


def _lost(step: Mapping[str, int], parts: set[str]) -> int:
    return sum(step.get(f"{part}_ns", 0) for part in parts)
