"""Incidents: one cause, from the first alarm to the change that was proved. Stored as they are (JSON)."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model.alarm import About, AlarmSeverity

IncidentState = Literal["open", "acknowledged", "changed", "verified", "not_verified", "closed"]
CaptureState = Literal["none", "asked", "done", "failed", "refused"]


class Change(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What was changed against it: `by` whom, a commit or the difference of configuration (`before` and
    `after` of each key, from the job's labels), and in which run it is first seen."""

    at_ns: int
    what: str
    by: str
    commit: str | None = None
    config: dict[str, tuple[str | None, str | None]] = {}
    run: str | None = None
    remedy: str | None = None
    """`rule#number` of the remedy that was followed; `None` where it was something else."""


class Gain(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Predicted and realised, as shares of the step's time: `predicted` least and most; `realised` with its
    noise band, from `compare`. `verdict` is `better`, `worse`, `same` or `unknown`."""

    verdict: Literal["better", "worse", "same", "unknown"]
    predicted: tuple[float, float] | None = None
    realised: float | None = None
    noise: float | None = None
    why: str | None = None


class Noted(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of an incident's history. `by` is a person's or `stepscope`."""

    at_ns: int
    what: str
    by: str = "stepscope"


class CaptureOf(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The capture that an incident asked for. `steps` are recorded ones, both ends included."""

    state: CaptureState = "none"
    id: int | None = None
    steps: tuple[int, int] | None = None
    ranks: tuple[int, ...] = ()
    why: str | None = None
    """Why it failed or was refused."""


class Incident(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One incident. `alarms` and `cards` are ids; `report` that of its stored report, `None` before there is
    one; `verdict` and `title` of its first card, else of its first alarm."""

    id: str
    about: About
    severity: AlarmSeverity
    title: str
    title_zh: str = ""
    cause: str | None = None
    rule: str | None = None
    onset_ns: int
    onset_step: int | None = None
    opened_ns: int
    told_ns: int | None = None
    """When the first channel took it."""
    state: IncidentState = "open"
    ended_ns: int | None = None
    """When its alarms were over."""
    closed_ns: int | None = None
    alarms: tuple[str, ...] = ()
    report: str | None = None
    card: str | None = None
    """The id of its card in that report."""
    capture: CaptureOf = CaptureOf()
    change: Change | None = None
    gain: Gain | None = None
    history: tuple[Noted, ...] = ()
