"""The report `stepscope.report/1`: what every verb, server and page says, in one fixed shape.

Times are integer nanoseconds since the Unix epoch, shares and ratios are 0..1, step ranges are
inclusive. What is not known is `None` here and absent in JSON; a measured zero is always written.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import field

from stepscope.model.report.account import (
    COMPUTE_KINDS,
    HOST_KINDS,
    IDLE_CAUSES,
    Accounting,
    Communication,
    Compute,
    Device,
    HostShares,
    Idle,
    Phases,
    StepIdle,
    StepParts,
    Variation,
)
from stepscope.model.report.base import (
    SCHEMA,
    Bound,
    ClockMethod,
    Confidence,
    Effect,
    EventKind,
    HealthVerdict,
    InputKind,
    LagStatus,
    LayerName,
    Op,
    Origin,
    Part,
    PatchKind,
    Persistence,
    RowStatus,
    Scope,
    Severity,
    StepUse,
    VerdictClass,
    WindowKind,
    written,
)
from stepscope.model.report.finding import (
    Card,
    Cost,
    Evidence,
    Finding,
    Named,
    Patch,
    Remedy,
    RemedyHistory,
    RuledOut,
    Subject,
    Undecided,
    Where,
)
from stepscope.model.report.health import Health, HealthIssue, Withheld
from stepscope.model.report.job import (
    Imbalance,
    ImbalanceClass,
    Lateness,
    PathPart,
    RankCells,
    RankLateness,
    RankMap,
    Replay,
    Straggler,
    WhatIf,
)
from stepscope.model.report.memory import (
    MEMORY_KINDS,
    DriverCalls,
    HeldMemory,
    Memory,
    MemoryBasis,
    MemoryCategory,
    MemoryEstimate,
    MemoryGrowth,
    MemoryKind,
    MemoryPeak,
    MemoryPoint,
    MemoryReserve,
    MemorySite,
    MemorySource,
    MemoryStep,
    OomReason,
    OutOfMemory,
)
from stepscope.model.report.signal import (
    Event,
    Hint,
    OwnCost,
    Pattern,
    PatternSide,
    Progress,
    SignalStep,
    SignalSummary,
    Walk,
    WalkStep,
)
from stepscope.model.report.source import Input, Tool, Verdict
from stepscope.model.report.table import (
    Collective,
    Efficiency,
    Kernel,
    Module,
    Operator,
    OperatorShape,
)
from stepscope.model.report.time import Clocks, RankClock, Representative, Step, TelemetryClock, Window
from stepscope.model.report.timeline import Lane, LaneKind, Timeline
from stepscope.model.text import Lang

__all__ = [
    "COMPUTE_KINDS",
    "HOST_KINDS",
    "IDLE_CAUSES",
    "MEMORY_KINDS",
    "SCHEMA",
    "Accounting",
    "Bound",
    "Card",
    "ClockMethod",
    "Clocks",
    "Collective",
    "Communication",
    "Compute",
    "Confidence",
    "Cost",
    "Device",
    "DriverCalls",
    "Effect",
    "Efficiency",
    "Event",
    "EventKind",
    "Evidence",
    "Finding",
    "Health",
    "HealthIssue",
    "HealthVerdict",
    "HeldMemory",
    "Hint",
    "HostShares",
    "Idle",
    "Imbalance",
    "ImbalanceClass",
    "Input",
    "InputKind",
    "Kernel",
    "LagStatus",
    "Lane",
    "LaneKind",
    "Lateness",
    "LayerName",
    "Memory",
    "MemoryBasis",
    "MemoryCategory",
    "MemoryEstimate",
    "MemoryGrowth",
    "MemoryKind",
    "MemoryPeak",
    "MemoryPoint",
    "MemoryReserve",
    "MemorySite",
    "MemorySource",
    "MemoryStep",
    "Module",
    "Named",
    "OomReason",
    "Op",
    "Operator",
    "OperatorShape",
    "Origin",
    "OutOfMemory",
    "OwnCost",
    "Patch",
    "PatchKind",
    "PathPart",
    "Pattern",
    "PatternSide",
    "Persistence",
    "Phases",
    "Progress",
    "RankCells",
    "RankClock",
    "RankLateness",
    "RankMap",
    "Remedy",
    "RemedyHistory",
    "Replay",
    "Report",
    "Representative",
    "RowStatus",
    "RuledOut",
    "Scope",
    "Severity",
    "SignalStep",
    "SignalSummary",
    "Step",
    "StepIdle",
    "StepParts",
    "StepUse",
    "Straggler",
    "Subject",
    "TelemetryClock",
    "Timeline",
    "Tool",
    "Undecided",
    "Variation",
    "Verdict",
    "VerdictClass",
    "Walk",
    "WalkStep",
    "WhatIf",
    "Where",
    "Window",
    "WindowKind",
    "Withheld",
    "decode",
    "encode",
]


def _schema() -> Literal["stepscope.report/1"]:
    return SCHEMA


class Report(Part, frozen=True, kw_only=True):
    """The whole report."""

    schema: Literal["stepscope.report/1"] = field(default_factory=_schema)
    """The version of this shape."""
    tool: Tool
    """Who wrote it."""
    lang: Lang | None = None
    """The language of its sentences; absent where the writer did not say."""
    verdict: Verdict
    """The one-line answer."""
    health: Health
    """Whether the data can carry it."""
    inputs: tuple[Input, ...] = field(default_factory=written)
    """Everything given, also what could not be used."""
    clocks: Clocks | None = None
    """Absent where no clocks were aligned."""
    window: Window | None = None
    """What time it is about; absent where the inputs have no wall time and no steps."""
    steps: tuple[Step, ...] = field(default_factory=written)
    """Every step of every rank, also those not counted."""
    accounting: tuple[Accounting, ...] = field(default_factory=written)
    """For every rank and device a row over steps, where there are any, and one over the trace."""
    timelines: tuple[Timeline, ...] = field(default_factory=written)
    """The longest step of the row that the verdict speaks of, then of a few other rows."""
    operators: tuple[Operator, ...] = field(default_factory=written)
    """Up to 50 a rank, hottest first; of more than four ranks 200 in all, but 10 of each."""
    top_operators: tuple[Operator, ...] = field(default_factory=written)
    """The five hottest of the rank of the largest finding, else of the row that the verdict speaks of."""
    operator_shapes: tuple[OperatorShape, ...] = field(default_factory=written)
    """Ops by the shapes of their arguments, as many as `operators`, hottest first; empty if not recorded."""
    modules: tuple[Module, ...] = field(default_factory=written)
    """Modules of the model, as many as `operators`, hottest first; empty without Python stacks."""
    efficiency: tuple[Efficiency, ...] = field(default_factory=written)
    """Arithmetic of each device against its peak; empty where no shapes of matrix work are known."""
    kernels: tuple[Kernel, ...] = field(default_factory=written)
    """Up to 50 a rank, hottest first; of more than four ranks 200 in all, but 10 of each."""
    collectives: tuple[Collective, ...] = field(default_factory=written)
    """By kind, group and message size, by total time."""
    stragglers: tuple[Straggler, ...] = field(default_factory=written)
    """Who others wait for; empty where it is nobody, and where `lateness` says that it cannot be told."""
    lateness: Lateness | None = None
    """Absent where there are no ranks to compare."""
    rank_map: RankMap | None = None
    """Absent of one rank alone, and where clocks could not be aligned."""
    imbalance: Imbalance | None = None
    """Absent where nothing tells how work is spread over ranks."""
    replay: Replay | None = None
    """Absent where there is nothing to play: no steps, or no device work."""
    signals: tuple[SignalSummary, ...] = field(default_factory=written)
    """Empty without telemetry."""
    events: tuple[Event, ...] = field(default_factory=written)
    """Empty without logs."""
    progress: tuple[Progress, ...] = field(default_factory=written)
    """One entry a log that states steps; empty without logs."""
    own_cost: tuple[OwnCost, ...] = field(default_factory=written)
    """One entry a rank whose marks tell what marking or captures cost it; empty without."""
    patterns: tuple[Pattern, ...] = field(default_factory=written)
    """The specified patterns of every device with telemetry; empty without."""
    walks: tuple[Walk, ...] = field(default_factory=written)
    """The specified orders of looking, where their symptom is there; empty without telemetry."""
    hints: tuple[Hint, ...] = field(default_factory=written)
    """What single signals suggest; empty without telemetry."""
    memory: tuple[Memory, ...] = field(default_factory=written)
    """For every (rank, device) and recording of its allocator a row; empty where none was recorded."""
    memory_estimates: tuple[MemoryEstimate, ...] = field(default_factory=written)
    """What training is reckoned to need, beside what each device uses; only where parameters were told."""
    findings: tuple[Finding, ...] = field(default_factory=written)
    """Consequences after causes, then by cost."""
    cards: tuple[Card, ...] = field(default_factory=written)
    """One an incident, in the order of their first finding."""
    ruled_out: tuple[RuledOut, ...] = field(default_factory=written)
    """Causes that no device of any rank has; `because` is the first device's."""
    undecided: tuple[Undecided, ...] = field(default_factory=written)
    """Questions that stay open."""
    next: str | None = None
    """The next command to run."""


def encode(report: Report) -> bytes:
    """The report as compact JSON in UTF-8, fields in the order of the schema's classes.

    A lone surrogate, as in the name of a file that is no UTF-8, is U+FFFD: JSON in UTF-8 has no other way.
    """
    try:
        return msgspec.json.encode(report)
    except UnicodeEncodeError:
        from stepscope.model.redact import map_strings

        sound = map_strings(report, _without_surrogates, skip=frozenset())
        return msgspec.json.encode(sound)


def _without_surrogates(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def decode(data: bytes | str) -> Report:
    """A report from its JSON; a field that does not fit raises `msgspec.ValidationError` with its path."""
    return msgspec.json.decode(data, type=Report)
