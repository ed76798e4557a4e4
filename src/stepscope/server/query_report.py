"""Reports, and what stands in them: cards and findings."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.params import FromQuery

from stepscope.model.incident import Incident
from stepscope.model.report import Report
from stepscope.model.text import Lang
from stepscope.server import shape
from stepscope.server.parts import Parts
from stepscope.server.query_document import found, is_of
from stepscope.server.query_job import After, Id, Limit, OfJob, OfRun
from stepscope.server.query_series import Time
from stepscope.server.reply import Ask, Refusal, reply, send, unknown
from stepscope.server.route import in_thread, needs, responses
from stepscope.store.contract import Document, Store


class _Parts(msgspec.Struct):
    """Of a report, what lists show: the rest is not decoded."""

    verdict: dict[str, Any] = {}
    cards: list[dict[str, Any]] = []
    findings: list[dict[str, Any]] = []


def _parts_of(document: Document) -> _Parts:
    return msgspec.json.decode(document.body, type=_Parts)


@get(
    "/api/v1/reports", guards=[needs("viewer")], responses=responses(503), tags=["reports"], summary="Reports"
)
async def reports(
    request: Ask,
    state: State,
    job: OfJob = None,
    run: OfRun = None,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[shape.Reports]:
    """Reports of incidents and of every hour, newest first, without their tables."""

    def made(document: Document) -> list[shape.ReportOf]:
        if not is_of(document, run):
            return []
        inside = _parts_of(document)
        titles = tuple(str(each.get("title", "")) for each in inside.cards)
        return [
            shape.ReportOf(
                id=document.id,
                job=document.job,
                run=document.run,
                at_ns=document.at_ns,
                verdict=inside.verdict,
                cards=titles,
            )
        ]

    def work() -> shape.Reports:
        items, following = found(
            state.parts, "report", made, job=job, start=start, end=end, after=after, limit=limit
        )
        return shape.Reports(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


Form = Literal["json", "html", "markdown", "text"]
_MEDIA = {
    "json": "application/json",
    "html": "text/html; charset=utf-8",
    "markdown": "text/markdown; charset=utf-8",
    "text": "text/plain; charset=utf-8",
}


@get(
    "/api/v1/reports/{report:str}",
    guards=[needs("viewer")],
    responses=responses(404, 503),
    tags=["reports"],
    summary="One report",
    description="JSON in the form of docs/reference/report.md; with `format`, or where `text/html` is "
    "accepted, as a page.",
)
async def report(
    request: Ask,
    state: State,
    report: Id,
    format: FromQuery[Form | None] = None,
    lang: FromQuery[Lang | None] = None,
) -> Response[dict[str, Any]]:
    """One report, as it is kept or as a page."""
    form = format or ("html" if "text/html" in request.headers.get("accept", "") else "json")

    def work() -> bytes:
        body: bytes | None = state.parts.store.get("report", report)
        if body is None:
            raise unknown("report", "/api/v1/reports")
        return body if form == "json" else rendered(body, form, lang)

    return send(request, await in_thread(state.querying, work), _MEDIA[form])  # type: ignore[return-value]


def rendered(body: bytes, form: str, lang: Lang | None) -> bytes:
    """A stored report as a page."""
    whole = msgspec.json.decode(body, type=Report)
    spoken: Lang = lang or whole.lang or "en"
    if form == "html":
        from stepscope.views import html

        return html.render(whole, spoken).encode()
    if form == "markdown":
        from stepscope.views import markdown

        return markdown.render(whole, spoken).encode()
    import io

    from rich.console import Console

    from stepscope.views.terminal import render_report

    sink = io.StringIO()
    render_report(whole, Console(file=sink, width=100, highlight=False), spoken)
    return sink.getvalue().encode()


@get("/api/v1/cards", guards=[needs("viewer")], responses=responses(503), tags=["reports"], summary="Cards")
async def cards(
    request: Ask,
    state: State,
    job: OfJob = None,
    run: OfRun = None,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[shape.Cards]:
    """Cards of incidents, newest first: what, since when, what it costs, what to check and to change."""
    parts: Parts = state.parts

    def made(document: Document) -> list[shape.CardOf]:
        told = msgspec.json.decode(document.body, type=Incident)
        if told.report is None or not is_of(document, run):
            return []
        body = parts.store.get("report", told.report)
        if body is None:
            return []
        return _cards_of(told, body, document.job, document.run, document.at_ns)

    def work() -> shape.Cards:
        items, following = found(
            parts, "incident", made, job=job, start=start, end=end, after=after, limit=limit
        )
        return shape.Cards(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


@get(
    "/api/v1/cards/{incident:str}",
    guards=[needs("viewer")],
    responses=responses(404, 503),
    tags=["reports"],
    summary="The card of an incident",
    description="The card as JSON; with `format`, or where `text/html` is accepted, the page of its report.",
)
async def card(
    request: Ask,
    state: State,
    incident: Id,
    format: FromQuery[Form | None] = None,
    lang: FromQuery[Lang | None] = None,
) -> Response[shape.CardOf]:
    """The card of one incident: where notices point to."""
    store: Store = state.parts.store
    form = format or ("html" if "text/html" in request.headers.get("accept", "") else "json")

    def work() -> tuple[Incident, bytes]:
        told = store.get("incident", incident)
        if told is None:
            raise unknown("incident", "/api/v1/incidents")
        found = msgspec.json.decode(told, type=Incident)
        body = store.get("report", found.report) if found.report is not None else None
        if body is None:
            raise Refusal(404, "the incident has no report yet", "ask again when its card was told")
        return found, body if form == "json" else rendered(body, form, lang)

    found, body = await in_thread(state.querying, work)
    if form != "json":
        return send(request, body, _MEDIA[form])  # type: ignore[return-value]
    shown = _cards_of(found, body, found.about.job, found.about.run, found.opened_ns)
    if not shown:
        raise Refusal(404, "the report of the incident has no card", "GET /api/v1/reports has it whole")
    return reply(request, shown[0])


def _cards_of(
    told: Incident, body: bytes, job: str | None, run: str | None, at_ns: int
) -> list[shape.CardOf]:
    """The cards of an incident in its report: the one that it names, else all."""
    return [
        shape.CardOf(report=told.report or "", incident=told.id, job=job, run=run, at_ns=at_ns, card=each)
        for each in msgspec.json.decode(body, type=_Parts).cards
        if told.card in (None, each.get("id"))
    ]


@get(
    "/api/v1/findings",
    guards=[needs("viewer")],
    responses=responses(503),
    tags=["reports"],
    summary="Findings",
)
async def findings(
    request: Ask,
    state: State,
    job: OfJob = None,
    run: OfRun = None,
    rule: OfJob = None,
    start: Time = None,
    end: Time = None,
    after: After = None,
    limit: Limit = 100,
) -> Response[shape.Findings]:
    """Findings of reports, those of the newest report first."""

    def made(document: Document) -> list[shape.FindingOf]:
        if not is_of(document, run):
            return []
        return [
            shape.FindingOf(
                report=document.id, job=document.job, run=document.run, at_ns=document.at_ns, finding=each
            )
            for each in _parts_of(document).findings
            if rule in (None, each.get("rule"))
        ]

    def work() -> shape.Findings:
        items, following = found(
            state.parts, "report", made, job=job, start=start, end=end, after=after, limit=limit
        )
        return shape.Findings(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


HANDLERS = (reports, report, cards, card, findings)
