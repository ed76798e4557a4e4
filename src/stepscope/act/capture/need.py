"""The least capture that settles what is undecided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from stepscope.act.capture.request import Request
from stepscope.model.error import UsageError
from stepscope.model.report import Report
from stepscope.rules import capture as needs
from stepscope.rules import load_catalog
from stepscope.rules.rule import Capture, Rule


@dataclass(frozen=True, slots=True)
class Ask:
    """What one kind of recording takes of the profiler: active steps that count (the first one comes on top),
    flags, and whether all ranks must record."""

    num_steps: int
    mode: Literal["full", "light"] = "full"
    flags: frozenset[str] = frozenset()
    is_of_all: bool = False


ASKS_OF: tuple[tuple[Capture, Ask], ...] = (
    (needs.FEW_STEPS, Ask(3)),
    (needs.DEVICE, Ask(1)),
    (needs.STACKS, Ask(2, flags=frozenset({"stacks"}))),
    (needs.GARBAGE, Ask(2, flags=frozenset({"stacks"}))),
    (needs.SHAPES, Ask(1, flags=frozenset({"shapes"}))),
    (needs.MANY_STEPS, Ask(30, mode="light")),
    (needs.ALL_RANKS, Ask(3, is_of_all=True)),
    (needs.LIGHT, Ask(3)),
    (needs.MEMORY, Ask(10, flags=frozenset({"memory"}))),
)
"""The recordings of `rules/capture.py` that an on-demand capture gives; what is not here it does not give."""

LEAST_SHARE = 0.05
"""Of the step, from which a finding is worth a capture: where one becomes a warning."""
FEW_STEPS = 3
"""Recorded steps where nothing in particular is in question; the first of a capture is left out on top."""


def wanted(report: Report, *, slowest: Iterable[int] = ()) -> Request | None:
    """The least capture that settles what a report of marks leaves open, `None` where they decide."""
    open_ = {each.rule for each in report.undecided}
    fired = {
        f.rule
        for f in report.findings
        if f.explained_by is None and f.cost is not None and f.cost.share >= LEAST_SHARE and f.rule in open_
    }
    if fired:
        catalog = load_catalog()
        rules = [catalog[each] for each in sorted(fired)]
        needed = [(r, [q.capture for q in r.questions] or [r.needs]) for r in rules]
        return least((replace(r, needs=each) for r, captures in needed for each in captures), slowest=slowest)
    return Request(num_steps=FEW_STEPS + 1) if report.verdict.class_ == "undecided" else None


def least(rules: Iterable[Rule | str], *, slowest: Iterable[int] = ()) -> Request | None:
    """One capture for all these rules or their ids, `None` where no capture of the profiler settles any.
    UsageError for an id that no rule has."""
    asks = [ask for rule in map(_rule, rules) if (ask := ask_of(rule.needs)) is not None]
    if not asks:
        return None
    ranks = frozenset(slowest)
    return Request(
        num_steps=max(each.num_steps for each in asks) + 1,
        mode="light" if all(each.mode == "light" for each in asks) else "full",
        flags=frozenset().union(*(each.flags for each in asks)),
        ranks=None if any(each.is_of_all for each in asks) or not ranks else ranks,
    )


def _rule(rule: Rule | str) -> Rule:
    """The rule itself; what a report names it by is looked up in the catalogue."""
    if not isinstance(rule, str):
        return rule
    catalog = load_catalog()
    if rule not in {each.id for each in catalog}:
        raise UsageError(f"{rule}: no rule has this id; stepscope rules lists them")
    return catalog[rule]


def ask_of(capture: Capture) -> Ask | None:
    """What this recording takes, `None` where the profiler does not give it (counters, logs, snapshots)."""
    return next((ask for named, ask in ASKS_OF if named is capture), None)
