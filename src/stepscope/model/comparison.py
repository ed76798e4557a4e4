"""The comparison `stepscope.compare/1`: what changed from one run to another, and whether that is more than
noise.

Times are nanoseconds, shares and ratios are 0..1, ranges of steps include both ends; what is not known is
`None` here and absent in JSON. Differences are new less base: below zero is less time.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

from stepscope.model.report.base import HealthVerdict, Part, Severity, VerdictClass, written
from stepscope.model.report.source import Tool
from stepscope.model.text import Lang

SCHEMA: Literal["stepscope.compare/1"] = "stepscope.compare/1"

ComparedClass = Literal["better", "worse", "same", "unknown"]
Basis = Literal["step", "token", "sample"]
Obstacle = Literal["device", "world_size", "work", "no_steps"]
OpStatus = Literal["new", "gone", "slower", "faster", "more_calls", "fewer_calls"]
FindingStatus = Literal["appeared", "gone", "kept"]
NoiseSource = Literal["both", "base", "new", "history"]
Measure = Literal["median", "mean"]


class CompareVerdict(Part, frozen=True, kw_only=True):
    """The one-line answer."""

    class_: ComparedClass = field(name="class")
    """`better`: less time for the same work; `same`: no difference beyond noise, and noise under 10 %;
    `unknown`: not comparable, or the noise hides what a user would call a change."""
    text: str
    """The answer as a sentence, in the comparison's language."""
    why: str
    """By what it was judged."""
    severity: Severity | None = None
    """Of `worse`: under 5 % `info`, under 20 % `warning`, from there `critical`; absent else."""
    by: Measure | None = None
    """Which measure decided, of `unknown` whose noise hides too much; absent where none did."""


class NotComparable(Part, frozen=True, kw_only=True):
    """A reason why a step of one side and a step of the other are not the same amount of work."""

    what: Obstacle
    """What differs."""
    base: str | None = None
    """What the base has; absent where it does not say."""
    new: str | None = None
    """What the new side has; absent where it does not say."""
    text: str
    """The reason as a sentence."""
    mend: str
    """What would make them comparable."""


class ComparedSide(Part, frozen=True, kw_only=True):
    """One side, as it was given."""

    name: str
    """As it was given, without secrets."""
    num_steps: int
    """Counted steps that were compared."""
    steps: tuple[int, int] | None = None
    """The first and the last of them; absent where no step was marked."""
    ranks: tuple[int, ...] = field(default_factory=written)
    """Ranks that both sides have; empty where none is named."""
    verdict: VerdictClass
    """The class of its own answer."""
    text: str
    """Its own answer."""
    health: HealthVerdict
    """Whether its data can carry one."""


class StepTime(Part, frozen=True, kw_only=True):
    """Time of a step, or of a token or sample, on both sides."""

    measure: Measure
    """`median`: the typical counted step; `mean`: of counted and marked steps, with what is rare and long."""
    basis: Basis
    """Of what it is the time."""
    base_ns: float
    """Of the base, in nanoseconds."""
    new_ns: float
    """Of the new side, in nanoseconds."""
    share: float
    """`new_ns / base_ns - 1`."""
    low: float | None = None
    """Lower end of the interval of `share`; absent where no side shows noise."""
    high: float | None = None
    """Upper end of it."""
    source: NoiseSource | None = None
    """Whose noise it is: that of both sides, of one, where the other has under three steps, or that of
    earlier windows of the job, where these differ by more than steps do."""
    is_beyond: bool
    """Whether it is a change: zero lies outside of the interval, and it is at least 2 %."""
    num_independent: tuple[float, float] | None = None
    """How many independent steps the steps of each side are worth."""


class PartChange(Part, frozen=True, kw_only=True):
    """One part of the accounting, a step of one rank."""

    part: str
    """`compute`, `communication_exposed`, `copy_exposed`, `idle.…` a cause, or `compute.…` a kind, which
    is inside of `compute`."""
    base_ns: int
    """Of the base, a step."""
    new_ns: int
    """Of the new side, a step."""
    difference_ns: int
    """`new_ns - base_ns`."""
    share: float
    """`difference_ns` of the base's step."""
    noise_ns: int | None = None
    """Half the interval of `difference_ns`; absent where steps do not tell."""
    is_beyond: bool | None = None
    """Whether the difference is larger than `noise_ns`; absent where that is not known."""


class OpChange(Part, frozen=True, kw_only=True):
    """One op, a step of one rank: device time that it launched."""

    name: str
    """Its name."""
    class_: str | None = field(name="class", default=None)
    """What it computes."""
    shapes: str | None = None
    """Shapes of its arguments; only in `operator_shapes`."""
    types: str | None = None
    """Types of its arguments; only in `operator_shapes`."""
    status: OpStatus
    """What changed most: `slower` and `faster` are of a call."""
    base_ns: int
    """Of the base, a step."""
    new_ns: int
    """Of the new side, a step."""
    difference_ns: int
    """`new_ns - base_ns`."""
    base_calls: float
    """Calls a step."""
    new_calls: float
    """Calls a step."""
    explains: float | None = None
    """`difference_ns` of the difference of the mean step; device time that is hidden behind other work makes
    more than all of it. Absent where the mean step differs by less than 1 %."""


class CollectiveChange(Part, frozen=True, kw_only=True):
    """Collectives of one kind and message size."""

    kind: str
    """As in the report."""
    bytes: int | None = None
    """Of one message; absent where it was not recorded."""
    base_calls: float
    """Calls a step."""
    new_calls: float
    """Calls a step."""
    base_transfer_ns: int | None = None
    """Mean transfer of one call; absent without the other ranks."""
    new_transfer_ns: int | None = None
    """Mean transfer of one call; absent without the other ranks."""
    base_wait_ns: int | None = None
    """Mean wait of one call on one rank; absent without the other ranks."""
    new_wait_ns: int | None = None
    """Mean wait of one call on one rank; absent without the other ranks."""
    base_bus_bytes_per_second: float | None = None
    """As in the report."""
    new_bus_bytes_per_second: float | None = None
    """As in the report."""


class SignalChange(Part, frozen=True, kw_only=True):
    """One signal, the mean over its devices."""

    signal: str
    """Its name."""
    unit: str
    """Its unit."""
    base: float
    """Of the base."""
    new: float
    """Of the new side."""
    difference: float
    """`new - base`."""


class MemoryChange(Part, frozen=True, kw_only=True):
    """The most memory that any rank's device handed out at once."""

    base_bytes: int
    """Of the base."""
    new_bytes: int
    """Of the new side."""
    share: float
    """`new_bytes / base_bytes - 1`."""


class ConfigDifference(Part, frozen=True, kw_only=True):
    """One setting that differs."""

    key: str
    """What it is of: `device`, `world_size`, `precision`, `tokens_per_step`, or a name as the recording has
    it."""
    base: str | None = None
    """Absent where the base does not say."""
    new: str | None = None
    """Absent where the new side does not say."""


class FindingChange(Part, frozen=True, kw_only=True):
    """One rule that fired on a side, or on both."""

    rule: str
    """Its id."""
    status: FindingStatus
    """Whether it appeared, is gone, or is found on both sides."""
    title: str
    """The finding as one line: the new side's where it has it."""
    severity: Severity
    """Of the same finding."""
    base_share: float | None = None
    """What it costs, of the time; absent where it is not found there or costs none."""
    new_share: float | None = None
    """The same of the new side."""


def _schema() -> Literal["stepscope.compare/1"]:
    return SCHEMA


class Comparison(Part, frozen=True, kw_only=True):
    """The whole comparison."""

    schema: Literal["stepscope.compare/1"] = field(default_factory=_schema)
    """The version of this shape."""
    tool: Tool
    """Who wrote it."""
    lang: Lang
    """The language of its sentences."""
    verdict: CompareVerdict
    """The one-line answer."""
    is_comparable: bool
    """Whether a difference in time means anything."""
    obstacles: tuple[NotComparable, ...] = field(default_factory=written)
    """Why they are not comparable."""
    base: ComparedSide
    """What it was."""
    new: ComparedSide
    """What it is now."""
    step_time: tuple[StepTime, ...] = field(default_factory=written)
    """The median first; by token or sample where steps differ in these."""
    parts: tuple[PartChange, ...] = field(default_factory=written)
    """Parts of the accounting, largest difference first."""
    operators: tuple[OpChange, ...] = field(default_factory=written)
    """Ops by name, largest difference first, at most 20."""
    operator_shapes: tuple[OpChange, ...] = field(default_factory=written)
    """Ops by name, shapes and types, largest difference first, at most 20."""
    collectives: tuple[CollectiveChange, ...] = field(default_factory=written)
    """By kind and size."""
    signals: tuple[SignalChange, ...] = field(default_factory=written)
    """Signals that both sides have."""
    memory: MemoryChange | None = None
    """Absent where a side recorded no memory."""
    config: tuple[ConfigDifference, ...] = field(default_factory=written)
    """Settings that differ; of what only one side says nothing is concluded."""
    findings: tuple[FindingChange, ...] = field(default_factory=written)
    """What appeared, what is gone, what is on both sides."""
    next: str
    """The next command to run."""


def encode(comparison: Comparison) -> bytes:
    """The comparison as compact JSON in UTF-8."""
    return msgspec.json.encode(comparison)


def decode(data: bytes | str) -> Comparison:
    """A comparison from its JSON; a field that does not fit raises `msgspec.ValidationError`."""
    return msgspec.json.decode(data, type=Comparison)
