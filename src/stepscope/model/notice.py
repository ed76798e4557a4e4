"""Notices: what is told to people of an incident, in one language, before a channel gives it its own markup.
The body of a signed webhook is this, as JSON (`stepscope.notice/1`)."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepscope.model.alarm import AlarmSeverity
from stepscope.model.incident import IncidentState
from stepscope.model.text import Lang

SCHEMA: Literal["stepscope.notice/1"] = "stepscope.notice/1"
NoticeState = Literal["ended"] | IncidentState
"""An incident's state, or that its alarms are over while nobody has closed it."""


def _schema() -> Literal["stepscope.notice/1"]:
    return SCHEMA


class ChangeOffer(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One change to make: `patch` are lines that begin with `-` or `+`."""

    text: str
    patch: tuple[str, ...] = ()
    gain: str = ""
    verify: str = ""


class Notice(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One message. Lists are in the order of their weight; what is not known is absent."""

    schema: Literal["stepscope.notice/1"] = msgspec.field(default_factory=_schema)
    incident: str
    state: NoticeState
    severity: AlarmSeverity
    lang: Lang
    title: str
    verdict: str = ""
    """The report's one-line answer."""
    explanation: str = ""
    rule: str | None = None
    confidence: str | None = None
    job: str | None = None
    run: str | None = None
    ranks: tuple[int, ...] = ()
    devices: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    """Of its alarms: resource, performance, task."""
    onset_ns: int
    onset_step: int | None = None
    ended_ns: int | None = None
    cost: str = ""
    alarms: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    changes: tuple[ChangeOffer, ...] = ()
    ruled_out: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """What became of it: the last lines of its history, and a capture that did not come about."""
    next: str | None = None
    link: str | None = None
    num_held_back: int = 0
    """Messages that this one stands for, because the channel was over its rate."""
