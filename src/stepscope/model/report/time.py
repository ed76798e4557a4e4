"""Clocks, the window and its steps."""

from __future__ import annotations

from typing import Literal

from msgspec import field

from stepscope.model.report.base import ClockMethod, LagStatus, Part, StepUse, written


class RankClock(Part, frozen=True, kw_only=True):
    """One rank's clock against the reference rank's."""

    rank: int
    """Whose clock."""
    method: ClockMethod
    """How it was aligned."""
    component: int | None = None
    """The group of ranks that could be aligned with each other; absent where none could."""
    offset_ns: int | None = None
    """How far this clock is ahead of the reference rank's at the start of the window; absent where nothing
    tells."""
    offset_error_ns: int | None = None
    """How far `offset_ns` may be off."""
    drift_ppm: float | None = None
    """How fast it runs ahead, in parts per million; absent where the window is too short to tell."""
    drift_error_ppm: float | None = None
    """One standard error of `drift_ppm`."""
    residual_ns: int | None = None
    """How far aligned times still disagree: no smaller lateness can be told."""


class TelemetryClock(Part, frozen=True, kw_only=True):
    """How far one telemetry source lags behind, and how well that is known."""

    source: str
    """The telemetry's name."""
    status: LagStatus
    """How well the lag is known."""
    window_ns: int | None = None
    """The time over which the source averages; absent where unknown."""
    lag_ns: int | None = None
    """How much later than the trace it shows the same thing; absent unless found or declared."""
    lag_range_ns: tuple[int, int] | None = None
    """The least and the largest lag that fit as well."""


class Clocks(Part, frozen=True, kw_only=True):
    """The clocks of ranks and of telemetry."""

    reference_rank: int | None = None
    """The rank whose clock the others are given in."""
    pivot_ns: int | None = None
    """When `offset_ns` holds: a drift counts from here; absent where no clocks were aligned."""
    ranks: tuple[RankClock, ...] = field(default_factory=written)
    """One entry a rank."""
    telemetry: tuple[TelemetryClock, ...] = field(default_factory=written)
    """One entry a source."""


class Representative(Part, frozen=True, kw_only=True):
    """Whether the window looks like the rest of the run."""

    status: Literal["yes", "no", "unknown"]
    """Whether it does."""
    why: str
    """By what this was judged."""


class Window(Part, frozen=True, kw_only=True):
    """What time and which steps the report is about."""

    start_ns: int | None = None
    """Start of the first counted or marked step, else of the first input."""
    end_ns: int | None = None
    """End of the last counted or marked step, else of the last input."""
    steps: tuple[int, int] | None = None
    """First and last counted or marked step; absent where no step was marked."""
    representative: Representative | None = None
    """Absent where there is no rest of the run to compare with."""


class Step(Part, frozen=True, kw_only=True):
    """One step of one rank, and how it was used."""

    step: int
    """Its number, as the profiler wrote it."""
    start_ns: int
    """When its annotation begins."""
    end_ns: int
    """When the next step begins, else when its own annotation ends."""
    dur_ns: int
    """`end_ns - start_ns`."""
    use: StepUse
    """Whether the accounting counts it; why not is in `why`."""
    rank: int | None = None
    """Absent where the trace names none."""
    why: str | None = None
    """Why it is not simply counted; absent for counted steps."""
    input: int | None = None
    """The place in `inputs` of its file, where there are several and the file names no rank."""
