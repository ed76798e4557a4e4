"""Alarms: one condition of one subject that began to hold, and ended. What is told of one: an incident."""

from __future__ import annotations

from typing import Literal

import msgspec

AlertLevel = Literal["resource", "performance", "task"]
AlarmSeverity = Literal["info", "warning", "critical"]
SEVERITIES: tuple[AlarmSeverity, ...] = ("info", "warning", "critical")


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whom an alarm is about. Empty where it is the whole job, or not known."""

    job: str | None = None
    run: str | None = None
    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    """UUIDs, with `/MIG` behind where it is an instance; else `host:index`."""
    hosts: tuple[str, ...] = ()


class Measured(msgspec.Struct, frozen=True, omit_defaults=True):
    """The number that decided. `signal` is a signal's name or a step series' (`step_seconds`,
    `tokens_per_second`, …); `effect` against `normal` as a share of it, of ratios in absolute points."""

    signal: str
    unit: str
    value: float
    normal: float | None = None
    threshold: float | None = None
    effect: float | None = None


class Alarm(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One alarm. `id` is the same for the same condition, subject and beginning.

    `onset_ns` is since when it held, `seen_ns` when that was known, `end_ns` when it was over (`None`: it
    still holds). `is_specified` whether the specified alarm (3 points in a row beyond mean ± 2σ) fired too,
    `None` where that is no matter of a baseline. `inhibited_by` is the id of the alarm that explains it:
    nobody is told of it. `steps` are the first and the last step that it is known of.
    """

    id: str
    condition: str
    """The id of its row in the table of alerts (`detect.alert.table`)."""
    level: AlertLevel
    severity: AlarmSeverity
    about: About
    onset_ns: int
    seen_ns: int
    end_ns: int | None = None
    steps: tuple[int, int] | None = None
    measured: Measured | None = None
    is_specified: bool | None = None
    inhibited_by: str | None = None
    text: str = ""
    """One line, in English."""
    text_zh: str = ""
    pages: bool = True
    """False of a hint: shown, never told to anybody, opens no incident."""
