"""Cases that an earlier server left, from the incidents that it wrote down."""

from __future__ import annotations

import msgspec

from stepscope.model.alarm import Alarm
from stepscope.model.incident import Incident
from stepscope.server.judge.case import Case
from stepscope.store.contract import Store

DAY_NS = 86_400_000_000_000
WEEK_NS = 7 * DAY_NS
MOST, MOST_ALARMS = 500, 10_000
"""Incidents that are taken up."""


def cases_of(store: Store, now_ns: int, cool_down_ns: int) -> list[tuple[Case, Incident]]:
    """Every incident of the last day that is not closed, and holds or ended less than the cool-down ago, as a
    case. One that has its report is over; one that has none is looked at anew, and what it had asked is given
    up: who was asked has forgotten it."""
    found = []
    for document in store.documents("incident", start_ns=now_ns - DAY_NS, limit=MOST):
        incident = msgspec.json.decode(document.body, type=Incident)
        is_old = incident.ended_ns is not None and now_ns - incident.ended_ns > cool_down_ns
        if incident.state == "closed" or is_old or not incident.alarms:
            continue
        alarms = {each: _alarm(store, each, incident) for each in incident.alarms}
        case = Case(
            incident.id,
            incident.about.job,
            incident.about.run,
            alarms,
            unconfirmed={id for id, each in alarms.items() if each.end_ns is None},
            is_opened=True,
            phase="look" if incident.report is None else "over",
            captured=incident.capture,
            told=None if incident.report is None else incident.rule or "",
            num_reports=_num_reports(incident),
            ranks=incident.about.ranks,
        )
        found.append((case, incident))
    return found


def alarms_left(store: Store, now_ns: int) -> dict[str, Alarm]:
    """Alarms that still held when an earlier server ended, by their ids: of an incident or of none."""
    alarms = (
        msgspec.json.decode(each.body, type=Alarm)
        for each in store.documents("alarm", start_ns=now_ns - WEEK_NS, limit=MOST_ALARMS)
    )
    return {each.id: each for each in alarms if each.end_ns is None}


def _alarm(store: Store, id: str, incident: Incident) -> Alarm:
    body = store.get("alarm", id)
    if body is not None:
        return msgspec.json.decode(body, type=Alarm)
    return Alarm(
        id=id, condition="", level="performance", severity=incident.severity, about=incident.about,
        onset_ns=incident.onset_ns, seen_ns=incident.opened_ns, end_ns=incident.ended_ns, text=incident.title,
    )  # fmt: skip


def _num_reports(incident: Incident) -> int:
    """How many reports it has had: the last one's number."""
    number = (incident.report or "").rpartition("-")[2]
    return int(number) if number.isdecimal() else 0
