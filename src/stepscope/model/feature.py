"""Features and clauses: what a rule is written in.

A feature is a named pure function of one observed (rank, device). Comparing it with a number makes a clause,
so that a rule reads as prose: `when=(idle_input_share >= 0.10,)`. A clause is not a truth value: whether it
holds depends on facts, and where a fact is absent the answer is neither yes nor no.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from stepscope.model.analysis import DeviceAnalysis, RankAnalysis
from stepscope.model.report import Op, Origin, Where


@dataclass(frozen=True, slots=True)
class Observed:
    """What a feature looks at: one device of one rank."""

    rank: RankAnalysis
    device: DeviceAnalysis


@dataclass(frozen=True, slots=True, eq=False)
class Feature:
    """A named number of one observed device, `None` where it was not measured.

    `of` names the parts of the accounting that it sums (`idle.input`, `copy_exposed`, …): they say which
    health issues touch it, who the culprits are, and how it looks step by step. Empty for what is no part.
    `needs_causes` is false where a sum of idle causes stays known although its split does not.
    """

    name: str
    unit: str
    help: str
    value: Callable[[Observed], float | None]
    origin: Origin = "trace"
    of: tuple[str, ...] = ()
    needs_causes: bool = True
    needs_peaks: bool = False
    """It compares with what the device can do: of an unknown model it is absent."""
    is_of_peers: bool = False
    """It is time that other ranks lose: no part of this one's accounting."""
    blame: tuple[str, ...] = ()
    """Labels of culprits, where they are not those of its parts (`analyse.recoverable`)."""

    def __ge__(self, threshold: float) -> Clause:
        return Clause(self, ">=", _number(self, threshold))

    def __le__(self, threshold: float) -> Clause:
        return Clause(self, "<=", _number(self, threshold))

    def __gt__(self, threshold: float) -> Clause:
        return Clause(self, ">", _number(self, threshold))

    def __lt__(self, threshold: float) -> Clause:
        return Clause(self, "<", _number(self, threshold))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"{self.name} has no truth value: compare it with a number and put the clause into `when`"
        )


def _number(feature: Feature, threshold: object) -> float:
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
        raise TypeError(
            f"{feature.name} can only be compared with a finite number, not {threshold!r}: "
            "arithmetic between features belongs into a feature of its own"
        )
    return float(threshold)


@dataclass(frozen=True, slots=True)
class Clause:
    """One feature against one threshold. `overridden` where a site set its own threshold."""

    feature: Feature
    op: Op
    threshold: float
    overridden: bool = False

    def holds(self, value: float) -> bool:
        """Whether a measured value meets the clause."""
        match self.op:
            case ">=":
                return value >= self.threshold
            case "<=":
                return value <= self.threshold
            case ">":
                return value > self.threshold
            case "<":
                return value < self.threshold

    def known(self, facts: Facts) -> bool | None:
        """Whether the facts meet the clause; `None` where they do not say."""
        value = facts.get(self.feature)
        return None if value is None else self.holds(value)

    def at(self, threshold: float) -> Clause:
        """The clause with a site's own threshold."""
        return replace(self, threshold=_number(self.feature, threshold), overridden=True)

    def __str__(self) -> str:
        return f"{self.feature.name} {self.op} {self.threshold:g}"

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"a clause has no truth value ({self}): instead of `a <= {self.feature.name} <= b`, `and`, `or`, "
            f"write two clauses, ({self.feature.name} >= a, {self.feature.name} <= b); an `or` is two rules"
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of one subject: a feature that was not measured is absent, not 0.

    `degraded` are the features whose data are degraded; `where` points into the recording.
    """

    values: Mapping[Feature, float] = field(default_factory=dict)
    degraded: frozenset[Feature] = frozenset()
    where: Mapping[Feature, Where] = field(default_factory=dict)

    def get(self, feature: Feature) -> float | None:
        """The feature's value, `None` where it is absent."""
        return self.values.get(feature)
