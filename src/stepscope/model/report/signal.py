"""What telemetry and logs say, and what follows from both together."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from stepscope.model.report.account import Device
from stepscope.model.report.base import EventKind, Part, Severity, written
from stepscope.model.report.finding import Evidence


class SignalStep(Part, frozen=True, kw_only=True):
    """One signal over one step."""

    step: int
    """The step's number."""
    value: float
    """The mean over the step, in the signal's unit."""
    samples: int
    """How many samples lie in the step."""


class SignalSummary(Part, frozen=True, kw_only=True):
    """One signal of one device over the window."""

    device: Device
    """Whose signal."""
    signal: str
    """The signal's name, which ends in its unit."""
    unit: str
    """`ratio` is 0..1."""
    mean: float | None = None
    """Over the samples of the window."""
    min: float | None = None
    """The least sample."""
    max: float | None = None
    """The largest sample."""
    samples: int | None = None
    """How many samples lie in the window."""
    coverage: float | None = None
    """The share of the window that samples cover."""
    by_step: tuple[SignalStep, ...] = ()
    """Its values a step; absent where no steps are known, or where they are shorter than the signal tells."""
    rank: int | None = None
    """Whose device; absent where that is not known, and of a host."""
    host: str | None = None
    """Absent where the source does not say."""
    name: str | None = None
    """The process, disk or interface; absent of what has none."""
    source: str | None = None
    """The telemetry's name."""
    points: tuple[tuple[int, float], ...] = ()
    """(time, value) of at most 240 samples, the extremes among them; times are as they were read, the lag not
    taken off."""


class Event(Part, frozen=True, kw_only=True):
    """Something that happened at an instant."""

    at_ns: int
    """When it happened."""
    kind: EventKind
    """What happened."""
    severity: Severity
    """How bad it is."""
    text: str
    """What it says."""
    code: int | None = None
    """The driver's number, as of an Xid; absent where it has none."""
    device: Device | None = None
    """Absent where it is of no device."""
    rank: int | None = None
    """Absent where it is of no rank."""


class PatternSide(Part, frozen=True, kw_only=True):
    """One reading of a pattern: its clauses with their numbers."""

    holds: bool | None = None
    """Whether all clauses hold; absent where the data do not say."""
    evidence: tuple[Evidence, ...] = field(default_factory=written)
    """The clauses that could be checked."""
    missing: tuple[str, ...] = ()
    """Numbers that were not measured."""


class Pattern(Part, frozen=True, kw_only=True):
    """One of the four specified patterns on one device, twice: as it was written, which is shown and decides
    nothing, and as it decides."""

    pattern: Literal["A", "B", "C", "D"]
    """Compute-bound, memory-bound, communication jitter, input."""
    title: str
    """Its name."""
    device: Device | None = None
    """Whose numbers."""
    rank: int | None = None
    """Absent where the rank of the device is not known."""
    as_written: PatternSide
    """The specification's own thresholds: never a verdict."""
    effective: PatternSide
    """The thresholds that decide."""
    advice: str | None = None
    """What to begin with; absent where the effective side does not hold."""


class WalkStep(Part, frozen=True, kw_only=True):
    """One station of an ordered walk."""

    text: str
    """What is looked at."""
    status: Literal["ok", "suspect", "unknown"]
    """What it shows; `unknown` where it was not measured."""
    said: str
    """The numbers, or what is missing."""


class Walk(Part, frozen=True, kw_only=True):
    """One of the specified orders in which a symptom is gone through, as evidence."""

    walk: Literal["low-utilisation", "busy-low-power", "six-causes"]
    """Which one."""
    title: str
    """The symptom that it starts from."""
    device: Device | None = None
    """Absent where it is about the whole job."""
    rank: int | None = None
    """Absent where it is about the whole job, or the rank is not known."""
    steps: tuple[WalkStep, ...]
    """Its stations, in order."""


class Hint(Part, frozen=True, kw_only=True):
    """What one signal alone suggests: never a verdict."""

    hint: str
    """Its name."""
    text: str
    """What it may mean, and what it does not."""
    device: Device | None = None
    """Whose signal."""
    rank: int | None = None
    """Absent where the rank of the device is not known."""
    evidence: tuple[Evidence, ...] = field(default_factory=written)
    """The numbers."""


class OwnCost(Part, frozen=True, kw_only=True):
    """What stepscope itself cost one rank, measured in the run: its marks by blocks of steps without inner
    marks, its captures by what they held the loop up."""

    rank: int | None = None
    """Absent where the rank is not known."""
    num_groups: int | None = None
    """Groups of neighbouring blocks that were compared; absent of a run without unmarked steps."""
    step_ns: int | None = None
    """Median time of an unmarked step; absent where fewer than two groups were compared."""
    marks_ns: int | None = None
    """What the inner marks of one step cost, which may be less than nothing by chance; absent where the run
    cannot resolve it: of fewer than 10 groups, or where the interval is wider than 0.5 % of a step to a
    side."""
    marks_low_ns: int | None = None
    """Lower end of its 95 % interval; absent where fewer than two groups were compared."""
    marks_high_ns: int | None = None
    """Upper end of its 95 % interval."""
    num_captures: int | None = None
    """Captures of this rank; absent where it had none."""
    stall_ns: int | None = None
    """For how long they held the loop up in all; absent where none of them says."""


class Progress(Part, frozen=True, kw_only=True):
    """How a job went forward, by one log."""

    source: str
    """The log's name."""
    first_step: int
    """The first step that it states."""
    last_step: int
    """The largest step that it states."""
    total_steps: int | None = None
    """How many it promises; absent where it does not say."""
    start_ns: int | None = None
    """When it states the first step; absent where lines have no time."""
    end_ns: int | None = None
    """When it states the last step."""
    step_ns: int | None = None
    """Median time of a step; absent where neither lines nor times tell."""
    step_growth_ratio: float | None = None
    """Median step time of the last quarter against the first, after the warm-up; 1 where they do not differ
    beyond the scatter of steps; absent of fewer than 8 lines."""
    tokens_per_second: float | None = None
    """Median; absent where it is not logged."""
    samples_per_second: float | None = None
    """Median; absent where it is not logged."""
    loss_first: float | None = None
    """The first loss."""
    loss_last: float | None = None
    """The last loss."""
    rank: int | None = None
    """Whose log; absent where it does not say."""
