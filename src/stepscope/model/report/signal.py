"""What telemetry and logs say."""

from __future__ import annotations

from stepscope.model.report.account import Device
from stepscope.model.report.base import EventKind, Part, Severity


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
    """Its values a step; absent where no steps are known."""


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
