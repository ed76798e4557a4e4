"""A rule: one cause as data that reads as prose, and the one function that judges it.

All of `when`, none of `unless`. No *or*, no nesting, no arithmetic: an *or* is two rules, arithmetic is a
feature. What a rule needs is derived from its clauses; its evidence comes from `judge` and is never typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from stepscope.model import report
from stepscope.model.feature import Clause, Facts, Feature
from stepscope.model.report import Patch
from stepscope.model.text import Text
from stepscope.rules.signature import Signature

__all__ = [
    "Capture",
    "Clear",
    "Finding",
    "Layer",
    "OnHost",
    "Patch",
    "Question",
    "Reading",
    "Remedy",
    "Rule",
    "Subject",
    "Undecided",
    "judge",
]


class Layer(Enum):
    """Which part of the system a cause lives in."""

    HARDWARE = "hardware"
    FRAMEWORK = "framework"
    MODEL = "model"
    BUSINESS = "business"
    SCHEDULING = "scheduling"
    HOST = "host"


class Subject(Enum):
    """Whom a rule speaks about."""

    RANK = "rank"
    DEVICE = "device"
    MEMORY = "memory"
    """The memory of a device: judged also where a snapshot is all that is known of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capture:
    """The least recording that would settle a question, in full and in a few words, and a command for it.

    `brief` completes "needs …". `{input}` and `{folder}` in the command stand for the trace that was read and
    the folder it lies in.
    """

    text: Text
    brief: Text
    command: str


@dataclass(frozen=True, slots=True)
class Remedy:
    """One change, with the facts that decide whether it is the right one.

    It is offered when all of `only_if` are known to hold and none of `unless` is. `clears` is the clause that
    will show that it worked; where it is on the rule's cost, the expected gain
    runs from just meeting it to the whole cost.
    """

    text: Text
    only_if: tuple[Clause, ...] = field(default=(), kw_only=True)
    unless: tuple[Clause, ...] = field(default=(), kw_only=True)
    clears: Clause = field(kw_only=True)
    patch: Patch | None = field(default=None, kw_only=True)
    is_step_towards: bool = field(default=False, kw_only=True)
    """A look that finds the cause, not a change: it promises no gain."""
    is_partial: bool = field(default=False, kw_only=True)
    """It takes a part of the cause away, and nobody knows how large a part: it promises no gain."""
    is_overlap: bool = field(default=False, kw_only=True)
    """It hides the work behind the rest of the step: it gains no more than the rest can hide."""
    with_all_ranks: Text | None = field(default=None, kw_only=True)
    """What it says instead where every rank of the job was given already."""

    def is_offered(self, facts: Facts) -> bool:
        """Whether the facts decide for this remedy."""
        return all(c.known(facts) is True for c in self.only_if) and not any(
            c.known(facts) is True for c in self.unless
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """A title that says more than the rule's own, where all of `only_if` are known to hold.

    `with_all_ranks` instead where every rank of the job was given.
    """

    title: Text
    only_if: tuple[Clause, ...]
    with_all_ranks: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What stays open although the rule fired: settled only where all of `settled_by` are known to hold,
    never where it is empty. Asked only where all of `only_if` are; `where_unexplained`: and only where no
    other finding is the cause of this one, which is known only when all rules have been judged.

    `capture` would settle it; `with_all_ranks` instead where every rank of the job was given already.
    `doubt` is what to say where the rule's own cause is in doubt until it is settled: then confidence is low.
    """

    only_if: tuple[Clause, ...] = ()
    settled_by: tuple[Clause, ...] = ()
    where_unexplained: bool = False
    missing: tuple[str, ...] = ()
    capture: Capture
    with_all_ranks: Capture | None = None
    doubt: Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnHost:
    """What a rule says of a run without an accelerator: no word of a device, no change to one."""

    title: Text
    explanation: Text
    checks: tuple[Text, ...]
    remedies: tuple[Remedy, ...]


_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One cause.

    `references` says for every feature with a threshold where the threshold comes from. `explains` names
    rules whose findings on the same device are consequences of this one when this one costs at least as much.
    `shows` are features printed beside the evidence, without threshold. `needs` is the least capture.
    """

    id: str
    cause: str
    layer: Layer
    about: Subject
    verdict: report.VerdictClass
    title: Text
    explanation: Text
    when: tuple[Clause, ...]
    unless: tuple[Clause, ...] = ()
    corroborated_by: tuple[Clause, ...] = ()
    cost: Feature | None = None
    is_bound: bool = False
    """The cost is the most that a change can win, and not time that was lost: gains begin at nothing."""
    readings: tuple[Reading, ...] = ()
    questions: tuple[Question, ...] = ()
    """What stays open: the first that is decides what to record next."""
    shows: tuple[Feature, ...] = ()
    checks: tuple[Text, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    references: Mapping[Feature, Text]
    needs: Capture
    signature: Signature
    """What it looks like on a timeline."""
    explains: tuple[str, ...] = ()
    explains_peers: tuple[str, ...] = ()
    """As `explains`, of findings on other ranks of the job."""
    on_host: OnHost | None = None
    severity: report.Severity | None = None
    """What a finding is that costs no time, or nobody knows how much; else its time decides."""
    is_standstill: bool = False
    """The job does not go on: then how its steps went is another question."""

    def for_host(self) -> Rule:
        """The rule for a run without an accelerator; what only a device's telemetry tells is not asked."""
        said = self.on_host
        if said is None:
            return self
        return replace(
            self,
            title=said.title,
            explanation=said.explanation,
            checks=said.checks,
            remedies=said.remedies,
            corroborated_by=tuple(c for c in self.corroborated_by if c.feature.origin != "telemetry"),
        )

    def __post_init__(self) -> None:
        if not _ID.fullmatch(self.id):
            raise ValueError(f"rule id {self.id!r}: lower-case words joined by hyphens are wanted")
        if not self.when:
            raise ValueError(f"rule {self.id}: `when` is empty")
        bare = sorted({c.feature.name for c in self.clauses() if c.feature not in self.references})
        if bare:
            raise ValueError(f"rule {self.id}: no reference for the threshold of {', '.join(bare)}")

    def clauses(self) -> tuple[Clause, ...]:
        """Every clause of the rule, wherever it stands."""
        remedies = (*self.remedies, *(self.on_host.remedies if self.on_host else ()))
        gates = [c for r in remedies for c in (*r.only_if, *r.unless, r.clears)]
        read = [c for r in self.readings for c in r.only_if]
        asked = [c for q in self.questions for c in (*q.only_if, *q.settled_by)]
        return (*self.when, *self.unless, *self.corroborated_by, *gates, *read, *asked)

    def features(self) -> tuple[Feature, ...]:
        """What the rule looks at, each once, in the order of its clauses."""
        cost = (self.cost,) if self.cost is not None else ()
        return tuple(dict.fromkeys([*(c.feature for c in self.clauses()), *cost, *self.shows]))


@dataclass(frozen=True, slots=True)
class Finding:
    """The rule fired. `cost_share` is the rule's cost in these facts, `None` where it costs nothing.

    The evidence is without the references of its thresholds: they are the rule's, in two languages.
    """

    rule: Rule
    title: Text
    confidence: report.Confidence
    cost_share: float | None
    evidence: tuple[report.Evidence, ...]
    unknown: tuple[Clause, ...]
    remedies: tuple[Remedy, ...]
    open: tuple[Question, ...] = ()
    """Questions that the facts do not settle."""
    title_with_all_ranks: Text | None = None

    @property
    def is_settled(self) -> bool:
        """Whether the facts leave nothing open."""
        return not self.open


@dataclass(frozen=True, slots=True)
class Clear:
    """The rule did not fire: `because` is the clause that decided, `value` what was measured."""

    rule: Rule
    because: Clause
    value: float


@dataclass(frozen=True, slots=True)
class Undecided:
    """The facts do not say: `missing` would decide."""

    rule: Rule
    missing: tuple[Feature, ...]


def judge(rule: Rule, facts: Facts) -> Finding | Clear | Undecided:
    """Decide one rule on one subject's facts. Pure: no clock, no store, no log.

    A clause known to be false settles the matter even when others are unknown. An `unless` that cannot be
    checked does not silence: it caps the confidence at medium and is listed. What corroborates is not needed.
    """
    for clause in rule.when:
        if clause.known(facts) is False:
            return Clear(rule, clause, facts.values[clause.feature])
    for clause in rule.unless:
        if clause.known(facts) is True:
            return Clear(rule, clause, facts.values[clause.feature])
    missing = tuple(dict.fromkeys(c.feature for c in rule.when if c.known(facts) is None))
    if missing:
        return Undecided(rule, missing)

    unchecked = tuple(c for c in rule.unless if c.known(facts) is None)
    agreeing = tuple(c for c in rule.corroborated_by if c.known(facts) is True)
    unmeasured = tuple(c for c in rule.corroborated_by if c.known(facts) is None)
    stated = {c.feature for c in (*rule.when, *agreeing)}
    shown = tuple(f for f in rule.shows if f not in stated and facts.get(f) is not None)
    reading = next(
        (r for r in rule.readings if all(c.known(facts) is True for c in r.only_if)),
        None,
    )
    return Finding(
        rule=rule,
        title=reading.title if reading else rule.title,
        confidence=_confidence(rule, facts, agreeing, unchecked),
        cost_share=facts.get(rule.cost) if rule.cost is not None else None,
        evidence=(
            *(_evidence(facts, c) for c in (*rule.when, *agreeing)),
            *(_shown(facts, f) for f in shown),
        ),
        unknown=(*unchecked, *unmeasured),
        remedies=tuple(r for r in rule.remedies if r.is_offered(facts)),
        open=tuple(question for question in rule.questions if not _is_settled(question, facts)),
        title_with_all_ranks=reading.with_all_ranks if reading else None,
    )


def _is_settled(question: Question, facts: Facts) -> bool:
    if any(c.known(facts) is not True for c in question.only_if):
        return True
    return bool(question.settled_by) and all(c.known(facts) is True for c in question.settled_by)


def _confidence(
    rule: Rule, facts: Facts, agreeing: Iterable[Clause], unchecked: tuple[Clause, ...]
) -> report.Confidence:
    """High: two independent layers agree and all excuses were checked. Low: degraded data. Else medium."""
    if any(c.feature in facts.degraded for c in rule.when):
        return "low"
    layers = {c.feature.origin for c in (*rule.when, *agreeing)}
    return "high" if len(layers) >= 2 and not unchecked else "medium"


def _evidence(facts: Facts, clause: Clause) -> report.Evidence:
    return report.Evidence(
        from_=clause.feature.origin,
        feature=clause.feature.name,
        value=facts.values[clause.feature],
        unit=clause.feature.unit,
        op=clause.op,
        threshold=clause.threshold,
        overridden=True if clause.overridden else None,
        where=facts.where.get(clause.feature),
    )


def _shown(facts: Facts, feature: Feature) -> report.Evidence:
    return report.Evidence(
        from_=feature.origin,
        feature=feature.name,
        value=facts.values[feature],
        unit=feature.unit,
        where=facts.where.get(feature),
    )
