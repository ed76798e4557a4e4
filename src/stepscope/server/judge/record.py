"""Incidents as they are stored: read, changed and written under one lock, since channels, people and the loop
all change the same ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from stepscope.model.alarm import Alarm
from stepscope.model.incident import Incident, Noted
from stepscope.server.feed import Feed
from stepscope.store.contract import Store

_LOCK = threading.Lock()
MOST_NOTED = 200
"""Lines of one history: the first and the last are kept."""


def incident_of(store: Store, id: str) -> Incident | None:
    """The incident as it is stored now, `None` where there is none."""
    body = store.get("incident", id)
    return None if body is None else msgspec.json.decode(body, type=Incident)


def opened(store: Store, feed: Feed, incident: Incident) -> Incident:
    """A new incident, written down and told; one that is there already stays as it is."""
    with _LOCK:
        there = incident_of(store, incident.id)
        if there is None:
            _put(store, incident)
    if there is None:
        feed.tell("incident", incident)
    return there or incident


def amended(
    store: Store, feed: Feed, id: str, change: Callable[[Incident], Incident], *noted: Noted
) -> Incident | None:
    """The incident after this change and with these lines behind its history, written down and told; `None`
    where it is gone."""
    with _LOCK:
        there = incident_of(store, id)
        if there is None:
            return None
        changed = change(there)
        history = (*changed.history, *noted)
        if len(history) > MOST_NOTED:
            history = (*history[: MOST_NOTED // 2], *history[-MOST_NOTED // 2 :])
        changed = replace(changed, history=history)
        _put(store, changed)
    feed.tell("incident", changed)
    return changed


def keep_alarm(store: Store, alarm: Alarm) -> None:
    """Write an alarm down in its newest form."""
    about = alarm.about
    store.put(
        "alarm", alarm.id, msgspec.json.encode(alarm), job=about.job, run=about.run, at_ns=alarm.onset_ns
    )  # fmt: skip


def _put(store: Store, incident: Incident) -> None:
    store.put(
        "incident",
        incident.id,
        msgspec.json.encode(incident),
        job=incident.about.job,
        run=incident.about.run,
        at_ns=incident.opened_ns,
    )
