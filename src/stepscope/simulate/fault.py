"""A fault as it is asked for: read, checked against the run's shape, and applied to a step's plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from stepscope.model.error import UsageError
from stepscope.simulate.catalog import FAULTS, SEVERITIES, Fault, expert_imbalance
from stepscope.simulate.plan import Place, Plan

__all__ = ["FAULTS", "SEVERITIES", "Chosen", "Fault", "apply", "check", "culprit_of", "parse", "ranks_of"]

DEFAULT_SEVERITY = "medium"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A fault as asked for: from `first` to `last` step, both included, `None` for all; on `rank` where that
    was said; of its severity, or of a magnitude in the fault's own unit."""

    name: str
    severity: str = DEFAULT_SEVERITY
    rank: int | None = None
    first: int | None = None
    last: int | None = None
    magnitude: float | None = None

    def is_on(self, step: int) -> bool:
        """Whether it is there in this step."""
        return (self.first is None or step >= self.first) and (self.last is None or step <= self.last)

    @property
    def much(self) -> float:
        """How much of it, in the fault's unit."""
        return self.magnitude if self.magnitude is not None else FAULTS[self.name].magnitude(self.severity)

    def __str__(self) -> str:
        rank = "" if self.rank is None else f"#{self.rank}"
        steps = "" if self.first is None else f"@{self.first}:{self.last}"
        much = self.severity if self.magnitude is None else f"{self.magnitude:.9g}"
        return f"{self.name}{rank}:{much}{steps}"


_FORM = re.compile(
    r"(?P<name>[a-z-]+)(?:#(?P<rank>\d{1,6}))?(?::(?:(?P<severity>[a-z]+)|(?P<much>\d{1,9}(?:\.\d{1,9})?)))?"
    r"(?:@(?P<first>\d{1,9}):(?P<last>\d{1,9}))?"
)
_MEND = "give NAME[#RANK][:mild|medium|severe|NUMBER][@A:B]"


def parse(text: str) -> Chosen:
    """A fault as it is written on the command line. Raises UsageError with what to write instead."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"fault {text}: is not understood; {_MEND}")
    name, severity = match["name"], match["severity"] or DEFAULT_SEVERITY
    if name not in FAULTS:
        raise UsageError(f"fault {name}: no such fault; take one of {', '.join(FAULTS)}")
    if severity not in SEVERITIES:
        raise UsageError(f"fault {text}: no such severity; take mild, medium or severe")
    rank, first, last = (None if match[g] is None else int(match[g]) for g in ("rank", "first", "last"))
    if first is not None and last is not None and last < first:
        raise UsageError(
            f"fault {text}: the last step lies before the first; give @A:B with A no larger than B"
        )
    return Chosen(name, severity, rank, first, last, None if match["much"] is None else float(match["much"]))


def check(chosen: Chosen, ranks: int, steps: int, model: str, stages: int) -> None:
    """Refuse a fault that cannot show in a run of this shape."""
    row = FAULTS.get(chosen.name)
    if row is None or chosen.severity not in SEVERITIES:
        raise UsageError(f"fault {chosen}: no such fault; take one of {', '.join(FAULTS)}")
    if row.models and model not in row.models:
        raise UsageError(f"fault {chosen}: {model} cannot have it; take --model {' or '.join(row.models)}")
    if row.is_piped and stages < 2:
        raise UsageError(f"fault {chosen}: there is no pipeline; add --pipeline-stages 2 or more")
    if ranks < row.least_ranks:
        raise UsageError(
            f"fault {chosen}: one rank cannot have it; ask for --ranks {row.least_ranks} or more"
        )
    if not row.is_within(chosen.much):
        least, most = row.range
        raise UsageError(f"fault {chosen}: must be above {least:g} and below {most:g} {row.unit}")
    if chosen.rank is not None and row.who == "all":
        raise UsageError(f"fault {chosen}: is on no single rank; leave out #{chosen.rank}")
    if chosen.rank is not None and chosen.rank >= ranks:
        raise UsageError(f"fault {chosen}: the last rank is {ranks - 1}; choose one up to that")
    if chosen.first is not None and chosen.first >= steps:
        raise UsageError(f"fault {chosen}: the last step is {steps - 1}; begin no later")


def culprit_of(chosen: Chosen, number: int, seed: int, ranks: int) -> int | None:
    """The rank that a fault is on: the chosen one, else one by seed; `None` where it is on several."""
    if chosen.rank is not None or FAULTS[chosen.name].who != "rank":
        return chosen.rank
    return int(np.random.default_rng([seed, 9, number]).integers(ranks))


def apply(plan: Plan, chosen: Chosen, culprit: int | None, place: Place) -> None:
    """Change a plan where the fault is on for this rank and step."""
    row = FAULTS[chosen.name]
    is_here = culprit is None or culprit == place.rank or row.apply is expert_imbalance
    if chosen.is_on(place.step) and is_here:
        first = place.first if chosen.first is None else chosen.first
        last = place.last if chosen.last is None else min(chosen.last, place.last)
        row.apply(plan, chosen.much, replace(place, first=first, last=last))


def ranks_of(chosen: Chosen, culprit: int | None, ranks: int, stages: int) -> list[int]:
    """The ranks that a fault is on."""
    if culprit is not None:
        return [culprit]
    if chosen.name == "stage-imbalance":
        return list(range(ranks - ranks // stages, ranks))
    return list(range(ranks))
