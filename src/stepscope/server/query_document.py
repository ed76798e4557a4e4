"""What the store keeps as documents: alarms, incidents, captures, the audit log. Newest first.
The cursor is the time of the last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.params import FromQuery, QueryParameter

from stepscope.model.alarm import Alarm
from stepscope.model.error import UsageError
from stepscope.model.incident import Incident, IncidentState
from stepscope.server import shape
from stepscope.server.audit import Audited
from stepscope.server.moment import moment_ns
from stepscope.server.parts import Parts
from stepscope.server.query_job import After, Id, Limit, OfJob, OfRun
from stepscope.server.query_series import Time
from stepscope.server.reply import Ask, asker, reply, unknown
from stepscope.server.route import in_thread, needs, responses
from stepscope.store.contract import Document

T = TypeVar("T")
MOST_LOOKED_AT = 20_000
"""Documents that one page looks at for those that fit."""
_AT_A_TIME = 500


class AuditPage(shape.Answer, frozen=True, kw_only=True):
    items: list[Audited]
    next: str | None = None


def found(
    parts: Parts,
    kind: str,
    made: Callable[[Document], Sequence[T]],
    *,
    job: str | None = None,
    start: str | None = None,
    end: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> tuple[list[T], str | None]:
    """A page of what documents give, newest first. The cursor is `TIME` or `TIME-SKIP`: documents before that
    time, or of that time but for the first SKIP."""
    now_ns = parts.clock_ns()
    start_ns = moment_ns(start, now_ns, "start") if start else None
    end_ns = moment_ns(end, now_ns, "end") if end else None
    skip = 0
    if after is not None:
        time, _, skipped = after.partition("-")
        if not (
            time.isdigit() and len(time) <= 19 and (not skipped or (skipped.isdigit() and len(skipped) <= 9))
        ):
            raise UsageError("after is no cursor; give `next` of the page before")
        end_ns, skip = int(time) + 1, int(skipped or 0)
    rows: list[T] = []
    looked = 0
    while looked < MOST_LOOKED_AT:
        documents = parts.store.documents(
            kind, job=job, start_ns=start_ns, end_ns=end_ns, limit=_AT_A_TIME + skip
        )
        for place, document in enumerate(documents[skip:], skip):
            looked += 1
            rows += made(document)
            if len(rows) >= limit:
                same = _num_before(documents, place)
                is_last = place + 1 == len(documents) and len(documents) < _AT_A_TIME + skip
                return rows, None if is_last else f"{document.at_ns}-{same + 1}"
        if len(documents) < _AT_A_TIME + skip:
            break
        last = documents[-1].at_ns
        end_ns, skip = last + 1, sum(each.at_ns == last for each in documents)
    return rows, None


def _num_before(documents: Sequence[Document], place: int) -> int:
    """How many documents before this one are of its time."""
    at_ns = documents[place].at_ns
    return sum(each.at_ns == at_ns for each in documents[:place])


def is_of(document: Document, run: str | None) -> bool:
    return run is None or document.run == run


# ── alarms and incidents ──


@get(
    "/api/v1/alarms", guards=[needs("viewer")], responses=responses(503), tags=["incidents"], summary="Alarms"
)
async def alarms(
    request: Ask,
    state: State,
    job: OfJob = None,
    run: OfRun = None,
    level: Annotated[Literal["resource", "performance", "task"] | None, QueryParameter()] = None,
    condition: OfJob = None,
    holds: Annotated[
        bool | None, QueryParameter(description="Only those that still hold, or that are over.")
    ] = None,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[shape.Alarms]:
    """Alarms, those that began last first, hints and inhibited ones included."""

    def made(document: Document) -> list[Alarm]:
        alarm = msgspec.json.decode(document.body, type=Alarm)
        fits = (
            is_of(document, run)
            and level in (None, alarm.level)
            and condition in (None, alarm.condition)
            and holds in (None, alarm.end_ns is None)
        )
        return [alarm] if fits else []

    def work() -> shape.Alarms:
        items, following = found(
            state.parts, "alarm", made, job=job, start=start, end=end, after=after, limit=limit
        )
        return shape.Alarms(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


def shown_incident(incident: Incident, sees: bool) -> Incident:
    """The incident as this asker may see it: differences of configuration from operator up."""
    if sees or incident.change is None:
        return incident
    change = msgspec.structs.replace(incident.change, config={})
    return msgspec.structs.replace(incident, change=change)


@get(
    "/api/v1/incidents",
    guards=[needs("viewer")],
    responses=responses(503),
    tags=["incidents"],
    summary="Incidents",
)
async def incidents(
    request: Ask,
    state: State,
    job: OfJob = None,
    run: OfRun = None,
    status: FromQuery[IncidentState | None] = None,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[shape.Incidents]:
    """Incidents, one cause each, newest first."""
    sees = asker(request).sees_sensitive

    def made(document: Document) -> list[Incident]:
        incident = msgspec.json.decode(document.body, type=Incident)
        fits = is_of(document, run) and status in (None, incident.state)
        return [shown_incident(incident, sees)] if fits else []

    def work() -> shape.Incidents:
        items, following = found(
            state.parts, "incident", made, job=job, start=start, end=end, after=after, limit=limit
        )
        return shape.Incidents(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


@get(
    "/api/v1/incidents/{incident:str}",
    guards=[needs("viewer")],
    responses=responses(404, 503),
    tags=["incidents"],
    summary="One incident",
)
async def incident(request: Ask, state: State, incident: Id) -> Response[Incident]:
    """One incident, with its history."""
    sees = asker(request).sees_sensitive

    def work() -> Incident:
        body = state.parts.store.get("incident", incident)
        if body is None:
            raise unknown("incident", "/api/v1/incidents")
        return shown_incident(msgspec.json.decode(body, type=Incident), sees)

    return reply(request, await in_thread(state.querying, work))


# ── captures, audit ──


@get(
    "/api/v1/captures",
    guards=[needs("viewer")],
    responses=responses(503),
    tags=["captures"],
    summary="Captures",
)
async def captures(
    request: Ask, state: State, job: OfJob = None, run: OfRun = None, after: After = None, limit: Limit = 100
) -> Response[shape.Documents]:
    """Captures that were asked for, newest first, and what came of each."""

    def made(document: Document) -> list[shape.Listed]:
        body = msgspec.json.decode(document.body, type=dict[str, Any])
        row = shape.Listed(
            id=document.id, job=document.job, run=document.run, at_ns=document.at_ns, body=body
        )
        return [row] if is_of(document, run) else []

    def work() -> shape.Documents:
        items, following = found(state.parts, "capture", made, job=job, after=after, limit=limit)
        return shape.Documents(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


@get("/api/v1/audit", guards=[needs("admin")], responses=responses(503), tags=["access"], summary="Audit log")
async def audit(
    request: Ask,
    state: State,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[AuditPage]:
    """Who did what, from where, and what came of it: every write, and every access that was refused."""

    def made(document: Document) -> list[Audited]:
        return [msgspec.json.decode(document.body, type=Audited)]

    def work() -> AuditPage:
        items, following = found(state.parts, "audit", made, start=start, end=end, after=after, limit=limit)
        return AuditPage(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


HANDLERS = (alarms, incidents, incident, captures, audit)
