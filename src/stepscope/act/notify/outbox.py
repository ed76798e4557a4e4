"""What waits to be told, message by message, as it is stored: a kill loses none of it. Pure but for the
documents that it is given.

A message is one (incident, event, channel). It is written before it is sent and again after: sent at least
once, twice only where the process ends between the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from stepscope.model.alarm import SEVERITIES, AlarmSeverity
from stepscope.model.incident import Incident

Event = Literal["open", "worse", "acknowledged", "changed", "verified", "not_verified", "closed", "ended"]
QueuedState = Literal["waiting", "sent", "failed", "silenced", "held"]
"""`held`: its channel was over its rate, and a later message stands for it."""
HOUR_NS = 3_600_000_000_000
LEAST_WAIT_NS, MOST_WAIT_NS = 5_000_000_000, 600_000_000_000
GIVEN_UP_NS = 24 * HOUR_NS
AFTER_OPEN: tuple[Event, ...] = ("acknowledged", "changed", "verified", "not_verified", "closed", "ended")
"""Told on a channel only where that channel was told that it began."""


class Queued(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One message of one channel. `due_ns` is when it is tried next."""

    id: str
    incident: str
    event: Event
    channel: str
    severity: AlarmSeverity
    at_ns: int
    due_ns: int
    state: QueuedState = "waiting"
    num_tries: int = 0
    sent_ns: int | None = None
    why: str | None = None
    silence: str | None = None


def queued(incident: Incident, event: Event, channel: str, now_ns: int) -> Queued:
    """A message that waits from now on."""
    suffix = f"{event}-{incident.severity}" if event == "worse" else event
    return Queued(
        id=f"{incident.id}.{suffix}.{channel}",
        incident=incident.id,
        event=event,
        channel=channel,
        severity=incident.severity,
        at_ns=now_ns,
        due_ns=now_ns,
    )


def events_of(before: Incident | None, after: Incident) -> tuple[Event, ...]:
    """What has to be told of an incident that changed; nothing of one whose card is not there yet."""
    if before is None:
        return ("open",)
    found: list[Event] = []
    if SEVERITIES.index(after.severity) > SEVERITIES.index(before.severity):
        found.append("worse")
    if before.state != after.state and after.state != "open":
        found.append(after.state)
    if before.ended_ns is None and after.ended_ns is not None and after.state in ("open", "acknowledged"):
        found.append("ended")
    return tuple(found)


def after_failure(
    row: Queued, why: str, is_final: bool, asked_s: float | None, now_ns: int, chance: float
) -> Queued:
    """Tried in vain: later again (twice as long each time, by `chance` 0..1 between half of that and all of
    it), or given up."""
    tries = row.num_tries + 1
    if is_final or now_ns - row.at_ns > GIVEN_UP_NS:
        return msgspec.structs.replace(row, state="failed", num_tries=tries, why=why)
    most = min(LEAST_WAIT_NS * 2 ** min(tries, 16), MOST_WAIT_NS)
    wait = int(asked_s * 1e9) if asked_s is not None else int(most * (0.5 + 0.5 * chance))
    return msgspec.structs.replace(row, num_tries=tries, why=why, due_ns=now_ns + wait)


def next_free_ns(sent_ns: Iterable[int], per_hour: int, now_ns: int) -> int:
    """When a channel may send again: now, or when the oldest of its last `per_hour` messages is an hour
    old."""
    recent = sorted(at for at in sent_ns if now_ns - at < HOUR_NS)
    return now_ns if len(recent) < per_hour else recent[-per_hour] + HOUR_NS


def merged(rows: Sequence[Queued]) -> tuple[Queued, tuple[Queued, ...]]:
    """Of several that were held back by the rate: the worst and newest, which is sent, and the others."""
    best = max(rows, key=lambda row: (SEVERITIES.index(row.severity), row.at_ns))
    return best, tuple(row for row in rows if row is not best)
