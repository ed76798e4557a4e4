"""Reports, and what stands in them: cards and findings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from litestar import Response, get
from litestar.datastructures import State
from litestar.params import FromQuery

from stepscope.model.incident import Incident
from stepscope.model.report import Report
from stepscope.model.text import LANGS, Lang, Text
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
_MEDIA = {"json": "application/json", "html": "text/html", "markdown": "text/markdown", "text": "text/plain"}
"""Of texts the framework says the charset."""


@get(
    "/api/v1/reports/{report:str}",
    guards=[needs("viewer")],
    responses=responses(404, 503),
    tags=["reports"],
    summary="One report",
    description="JSON in the form of docs/reference/report.md; with `format`, or where `text/html` is "
    "accepted, as a page. With `lang` that of this language where it is kept (people are told in it), else "
    "as it is; `Content-Language` says which.",
)
async def report(
    request: Ask,
    state: State,
    report: Id,
    format: FromQuery[Form | None] = None,
    lang: FromQuery[Lang | None] = None,
) -> Response[dict[str, Any]]:
    """One report, as it is kept or as a page; `Content-Language` says in which language it is."""
    form = format or ("html" if "text/html" in request.headers.get("accept", "") else "json")

    def work() -> Spoken:
        found = in_language(state.parts.store, report, lang)
        if found is None:
            raise unknown("report", "/api/v1/reports")
        return found

    found = await in_thread(state.querying, work)
    return await _sent(request, state, found, form)


@dataclass(frozen=True, slots=True)
class Spoken:
    """A stored report in the language that was asked for, or in its own where it is kept in no other."""

    body: bytes
    lang: Lang
    lacks: Lang | None = None
    """The language that was asked for and in which it is not kept."""

    @property
    def headers(self) -> dict[str, str]:
        return {"content-language": self.lang}


class _Lang(msgspec.Struct):
    lang: Lang | None = None


def in_language(store: Store, id: str, lang: Lang | None) -> Spoken | None:
    """The report of this id, that of the other language (`ID.zh`) where it is kept and asked for."""
    body = store.get("report", id)
    if body is None:
        return None
    own: Lang = msgspec.json.decode(body, type=_Lang).lang or "en"
    if lang is not None and lang != own:
        base = next((id.removesuffix(f".{each}") for each in LANGS if id.endswith(f".{each}")), id)
        for name in (f"{base}.{lang}", base):
            other = store.get("report", name) if name != id else None
            if other is not None and (msgspec.json.decode(other, type=_Lang).lang or "en") == lang:
                return Spoken(other, lang)
        return Spoken(body, own, lang)
    return Spoken(body, own)


NOT_KEPT = Text(
    en="This report is kept in Chinese alone: people are not told in English here.",
    zh="此报告仅保存了英文版：此处没有以中文通知的通道。",
)


async def _sent(request: Ask, state: State, found: Spoken, form: str) -> Response[Any]:
    body = found.body
    if form != "json":
        body = await in_thread(state.querying, lambda: rendered(found.body, form, found.lacks))
    return send(request, body, _MEDIA[form], headers=found.headers)


def rendered(body: bytes, form: str, lacks: Lang | None = None) -> bytes:
    """A stored report as a page, in its own language: sentences are kept in one, and half a page in another
    helps nobody. Where `lacks` was asked for, the first line says that in it."""
    whole = msgspec.json.decode(body, type=Report)
    told = NOT_KEPT.in_(lacks) if lacks is not None else ""
    spoken: Lang = whole.lang or "en"
    if form == "html":
        from stepscope.views import html

        page = html.render(whole, spoken)
        return (page.replace("<body>", f"<body><p>{told}</p>", 1) if told else page).encode()
    if form == "markdown":
        from stepscope.views import markdown

        return (f"> {told}\n\n" * bool(told) + markdown.render(whole, spoken)).encode()
    import io

    from rich.console import Console

    from stepscope.views.terminal import render_report

    sink = io.StringIO()
    sink.write(f"{told}\n\n" * bool(told))
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
    description="The card as JSON; with `format`, or where `text/html` is accepted, the page of its report; "
    "`lang` as of reports.",
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

    def work() -> tuple[Incident, Spoken]:
        told = store.get("incident", incident)
        if told is None:
            raise unknown("incident", "/api/v1/incidents")
        found = msgspec.json.decode(told, type=Incident)
        spoken = in_language(store, found.report, lang) if found.report is not None else None
        if spoken is None:
            raise Refusal(404, "the incident has no report yet", "ask again when its card was told")
        return found, spoken

    found, spoken = await in_thread(state.querying, work)
    if form != "json":
        return await _sent(request, state, spoken, form)
    shown = _cards_of(found, spoken.body, found.about.job, found.about.run, found.opened_ns)
    if not shown:
        raise Refusal(404, "the report of the incident has no card", "GET /api/v1/reports has it whole")
    return reply(request, shown[0], headers=spoken.headers)


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
