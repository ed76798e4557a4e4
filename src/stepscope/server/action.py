"""What people do: ask for a capture, take an incident on, say what they changed, silence, make tokens."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

import msgspec
from litestar import Response, delete, get, post
from litestar.datastructures import State
from litestar.params import JSONBody
from msgspec import Meta

from stepscope.act.notify.silence import FIELDS, Matcher, Silence, checked
from stepscope.model.error import UsageError
from stepscope.model.incident import Change, Incident
from stepscope.model.redact import tree_without_secrets, without_secrets
from stepscope.rules.load import load_catalog
from stepscope.server import shape
from stepscope.server.auth import Role, TokenOf, check_first, new_token
from stepscope.server.parts import IncidentActions, Parts
from stepscope.server.query_document import found
from stepscope.server.query_job import After, Id, Limit, OfJob
from stepscope.server.reply import Ask, Refusal, absent, asker, refusal_of, reply, unknown
from stepscope.server.route import in_thread, needs, responses
from stepscope.store.contract import Document

Name = Annotated[str, Meta(min_length=1, max_length=256)]
Words = Annotated[str, Meta(min_length=1, max_length=2000)]
MOST_SILENCE_S = 90 * 86_400
Field = Literal["job", "run", "rule", "severity", "level", "rank", "device", "node", "incident"]
assert set(get_args(Field)) == set(FIELDS)


class Body(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is sent: a name that is not known is an error."""


class CaptureAsk(Body, frozen=True, kw_only=True):
    """A capture of a run, now. No ranks: all of them. `num_steps` are recorded; of several the analysis
    leaves the first out."""

    job: Name
    run: Name | None = None
    ranks: Annotated[list[Annotated[int, Meta(ge=0, le=1_000_000)]], Meta(max_length=4096)] = []
    num_steps: Annotated[int, Meta(ge=1, le=50)] = 5


class Note(Body, frozen=True, kw_only=True):
    """A word on it."""

    note: Words | None = None


class ChangeAsk(Body, frozen=True, kw_only=True):
    """What was changed. `config`: the value before and after of each key; `run`: in which run it is first
    seen; `remedy`: `rule#number` of the advice that was followed."""

    what: Words
    commit: Annotated[str, Meta(max_length=80)] | None = None
    config: dict[str, tuple[str | None, str | None]] = {}
    run: Name | None = None
    remedy: Annotated[str, Meta(max_length=128, pattern=r"^[a-z0-9][a-z0-9-]*#[0-9]{1,2}$")] | None = None


class CloseAsk(Body, frozen=True, kw_only=True):
    why: Words | None = None


class MatcherAsk(Body, frozen=True, kw_only=True):
    """`field` has this value, or fits this pattern (`*`, `?`, `[…]`)."""

    field: Field
    value: Annotated[str, Meta(min_length=1, max_length=200)]
    is_pattern: bool = False


class SilenceAsk(Body, frozen=True, kw_only=True):
    """Tell nobody of what fits all matchers, for so many seconds from now, or from `start_ns` on."""

    for_s: Annotated[int, Meta(ge=1, le=MOST_SILENCE_S)]
    why: Words
    matchers: Annotated[list[MatcherAsk], Meta(min_length=1, max_length=16)]
    start_ns: Annotated[int, Meta(ge=0, le=(1 << 62) - 1)] | None = None


class TokenAsk(Body, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=64)]
    role: Role
    agent: Annotated[str, Meta(min_length=1, max_length=36)] | None = None


@post(
    "/api/v1/captures",
    status_code=202,
    guards=[needs("operator")],
    responses=responses(404, 408, 409, 413, 501, 503),
    tags=["captures"],
    summary="Ask for a capture",
)
async def ask_capture(request: Ask, state: State, data: JSONBody[CaptureAsk]) -> Response[dict[str, Any]]:
    """Ask for a capture: the answer is its document; GET /api/v1/captures says what came of it, and the id of
    its report. 409 where a budget, a cool-down or the run itself does not allow it."""
    ask = state.parts.ask_capture
    if ask is None:
        raise absent("captures")
    by = asker(request).name
    done: dict[str, Any] = await in_thread(
        state.querying, lambda: ask(data.job, data.run, data.ranks, data.num_steps, by)
    )
    if done.get("state") == "refused":
        raise Refusal(409, done.get("refusal") or "it was refused", f"see capture {done.get('id')}")
    return reply(request, done, status=202)


async def _incident(state: State, id: str, act: Callable[[IncidentActions], Incident]) -> Incident:
    actions: IncidentActions | None = state.parts.incidents
    if actions is None:
        raise absent("incidents")

    def work() -> Incident:
        try:
            return act(actions)
        except KeyError:
            raise unknown("incident", "/api/v1/incidents") from None

    return await in_thread(state.querying, work)


_INCIDENT = (404, 408, 409, 413, 501, 503)


@post(
    "/api/v1/incidents/{incident:str}/acknowledge",
    status_code=200,
    guards=[needs("operator")],
    responses=responses(*_INCIDENT),
    tags=["incidents"],
    summary="Take an incident on",
)
async def acknowledge(request: Ask, state: State, incident: Id, data: JSONBody[Note]) -> Response[Incident]:
    """Say that somebody looks after it."""
    by = asker(request).name
    note = without_secrets(data.note)[0] if data.note else None
    return reply(request, await _incident(state, incident, lambda do: do.acknowledge(incident, by, note)))


@post(
    "/api/v1/incidents/{incident:str}/change",
    status_code=200,
    guards=[needs("operator")],
    responses=responses(*_INCIDENT),
    tags=["incidents"],
    summary="Say what was changed against an incident",
)
async def change(request: Ask, state: State, incident: Id, data: JSONBody[ChangeAsk]) -> Response[Incident]:
    """Record a change: whether it worked is judged from what comes after it."""
    clean, _ = tree_without_secrets(msgspec.to_builtins(data))
    before, after = (
        tree_without_secrets({key: pair[side] for key, pair in data.config.items()})[0] for side in (0, 1)
    )
    if data.remedy is not None and data.remedy not in load_catalog().remedy_ids:
        raise Refusal(
            400,
            "remedy: no advice has this id",
            "give `findings[].remedies[].id` of a report, or leave remedy out",
        )
    clean["config"] = {key: (before[key], after[key]) for key in before}
    made = Change(at_ns=state.parts.clock_ns(), by=asker(request).name, **clean)
    if data.remedy is not None:
        check_remedy(data.remedy)
    return reply(request, await _incident(state, incident, lambda do: do.change(incident, made)))


def check_remedy(remedy: str) -> None:
    """Refusal where no rule has such a piece of advice."""
    from stepscope.rules import load_catalog

    rule, _, number = remedy.partition("#")
    found = load_catalog().rules.get(rule)
    num = 0 if found is None else len(found.remedies) + len(found.on_host.remedies if found.on_host else ())
    if not 1 <= int(number) <= num:
        raise Refusal(400, "remedy: no rule has such an advice", "give it as the card names it, RULE#NUMBER")


@post(
    "/api/v1/incidents/{incident:str}/close",
    status_code=200,
    guards=[needs("operator")],
    responses=responses(*_INCIDENT),
    tags=["incidents"],
    summary="Close an incident",
)
async def close(request: Ask, state: State, incident: Id, data: JSONBody[CloseAsk]) -> Response[Incident]:
    """Close it."""
    by = asker(request).name
    why = without_secrets(data.why)[0] if data.why else None
    return reply(request, await _incident(state, incident, lambda do: do.close(incident, by, why)))


# ── silences ──


@get(
    "/api/v1/silences",
    guards=[needs("viewer")],
    responses=responses(503),
    tags=["silences"],
    summary="Silences",
)
async def silences(
    request: Ask, state: State, job: OfJob = None, after: After = None, limit: Limit = 100
) -> Response[shape.Silences]:
    """Silences, newest first, those that are over included."""

    def made(document: Document) -> list[Silence]:
        return [msgspec.json.decode(document.body, type=Silence)]

    def work() -> shape.Silences:
        items, following = found(state.parts, "silence", made, job=job, after=after, limit=limit)
        return shape.Silences(items=items, next=following)

    return reply(request, await in_thread(state.querying, work))


@post(
    "/api/v1/silences",
    status_code=201,
    guards=[needs("operator")],
    responses=responses(408, 413, 503),
    tags=["silences"],
    summary="Silence",
)
async def silence(request: Ask, state: State, data: JSONBody[SilenceAsk]) -> Response[Silence]:
    """Tell nobody of what matches, for a while. Alarms and incidents go on, and are kept."""
    parts: Parts = state.parts
    by = asker(request).name

    def work() -> Silence:
        now_ns = parts.clock_ns()
        start_ns = data.start_ns if data.start_ns is not None else now_ns
        clean, _ = tree_without_secrets(msgspec.to_builtins(data.matchers))
        made = checked(
            Silence(
                id=f"{now_ns:x}-{secrets.token_hex(4)}",
                matchers=tuple(msgspec.convert(clean, list[Matcher])),
                start_ns=start_ns,
                end_ns=start_ns + data.for_s * 10**9,
                by=by,
                why=without_secrets(data.why)[0],
            )
        )
        job = next(
            (each.value for each in made.matchers if each.field == "job" and not each.is_pattern), None
        )
        parts.store.put("silence", made.id, msgspec.json.encode(made), job=job, at_ns=now_ns)
        parts.feed.tell("silence", made)
        return made

    return reply(request, await in_thread(state.querying, work), status=201)


@delete(
    "/api/v1/silences/{silence:str}",
    status_code=204,
    guards=[needs("operator")],
    responses=responses(404, 503),
    tags=["silences"],
    summary="End a silence",
)
async def end_silence(request: Ask, state: State, silence: Id) -> None:
    """Tell again of what it matched."""
    parts: Parts = state.parts

    def work() -> None:
        if not parts.store.remove("silence", silence):
            raise unknown("silence", "/api/v1/silences")
        parts.feed.tell("silence", silence)

    await in_thread(state.querying, work)


# ── tokens ──


@get("/api/v1/tokens", guards=[needs("admin")], responses=responses(503), tags=["access"], summary="Tokens")
async def tokens(request: Ask, state: State) -> Response[shape.Tokens]:
    """Tokens of the store, without themselves."""

    def work() -> shape.Tokens:
        rows = stored_tokens(state.parts)
        items = [
            shape.TokenShown(
                id=each.id, name=each.name, role=each.role, made_ns=each.made_ns, agent=each.agent
            )
            for each in rows
        ]
        return shape.Tokens(items=items)

    return reply(request, await in_thread(state.querying, work))


def stored_tokens(parts: Parts) -> list[TokenOf]:
    """The tokens that the store keeps."""
    rows = parts.store.documents("token", limit=100_000)
    return [msgspec.json.decode(each.body, type=TokenOf) for each in rows]


@post(
    "/api/v1/tokens",
    status_code=201,
    guards=[needs("admin")],
    responses=responses(408, 409, 413, 503),
    tags=["access"],
    summary="Make a token",
)
async def make_token(request: Ask, state: State, data: JSONBody[TokenAsk]) -> Response[shape.TokenMade]:
    """Make a token: it is shown in this answer and kept nowhere."""
    parts: Parts = state.parts

    def work() -> shape.TokenMade:
        try:
            check_first(data.role, parts.auth.num_tokens)
            token, kept = new_token(data.name, data.role, parts.clock_ns(), data.agent)
        except UsageError as error:
            raise refusal_of(error, 400) from error
        parts.store.put("token", kept.id, msgspec.json.encode(kept), at_ns=kept.made_ns)
        parts.auth.set_stored(stored_tokens(parts))
        return shape.TokenMade(id=kept.id, name=kept.name, role=kept.role, token=token, agent=kept.agent)

    done = await in_thread(state.querying, work)
    return reply(request, done, status=201, headers={"cache-control": "no-store"})


@delete(
    "/api/v1/tokens/{token:str}",
    status_code=204,
    guards=[needs("admin")],
    responses=responses(404, 503),
    tags=["access"],
    summary="Take a token back",
)
async def end_token(request: Ask, state: State, token: Id) -> None:
    """Take a token back, by its id."""
    parts: Parts = state.parts

    def work() -> None:
        if not parts.store.remove("token", token):
            raise unknown("token", "/api/v1/tokens")
        parts.auth.set_stored(stored_tokens(parts))

    await in_thread(state.querying, work)


HANDLERS = (
    ask_capture, acknowledge, change, close, silences, silence, end_silence, tokens, make_token, end_token,
)  # fmt: skip
