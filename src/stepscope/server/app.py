"""The HTTP application: every path, its errors in one form, and its own description."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from anyio import CapacityLimiter
from litestar import Litestar, Response, get
from litestar.datastructures import State
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from stepscope.server import (
    action,
    agents,
    health,
    query_document,
    query_job,
    query_report,
    query_rule,
    query_series,
    stream,
)
from stepscope.server.gate import Gate
from stepscope.server.ingest import Intake, ingest
from stepscope.server.parts import Parts
from stepscope.server.reply import Ask, Refusal
from stepscope.sources.formats.frame import CONTENT_TYPE

VERSION = "1"
DESCRIPTION = (
    "What stepscope's server keeps and knows of training jobs. Times are int64 nanoseconds since 1970; what "
    "is not known is absent; every error is one line `error` and one line `mend`."
)
_SAID = {
    400: ("the question or the body is none", "see /openapi.json for what this path takes"),
    404: ("no such path", "see /openapi.json for those there are"),
    405: ("the path has no such method", "see /openapi.json for those it has"),
    413: ("the body is too large", "send less at a time"),
    415: ("a body of a kind that is not taken", "send application/json"),
}
_BINARY_BODIES = (
    ("post", "/api/v1/ingest", CONTENT_TYPE),
    ("put", "/api/v1/captures/{capture}/traces/{ring}", "application/octet-stream"),
)
HANDLERS = (
    ingest,
    *agents.HANDLERS,
    *query_job.HANDLERS,
    *query_series.HANDLERS,
    *query_document.HANDLERS,
    *query_report.HANDLERS,
    *query_rule.HANDLERS,
    *action.HANDLERS,
    *stream.HANDLERS,
    *health.HANDLERS,
)


@get("/openapi.json", include_in_schema=False)
async def openapi(request: Ask) -> Response[dict[str, Any]]:
    """The API's own description."""
    return Response(request.app.state.description, media_type="application/json")


def _refused(_: Ask, error: Exception) -> Response[Any]:
    assert isinstance(error, Refusal)
    return Response(
        error.body, status_code=error.status, headers=error.headers, media_type="application/json"
    )


def _failed(ask: Ask, error: Exception) -> Response[Any]:
    """An error of the framework's own. What was sent is not shown: only where in it."""
    assert isinstance(error, HTTPException)
    status = error.status_code
    what, mend = _SAID.get(status, ("the question or the body is none", "see /openapi.json"))
    keys = _keys(error)
    headers = dict(error.headers or {})
    if status == 405 and "allow" not in {name.lower() for name in headers}:
        headers["allow"] = "GET"
    refusal = Refusal(status, f"{what} ({keys})" if keys else what, mend)
    return Response(
        refusal.body,
        status_code=status,
        headers={**headers, **refusal.headers},
        media_type="application/json",
    )


def _keys(error: HTTPException) -> str:
    """The names that an error is about: ours, never the asker's."""
    rows = [each for each in error.extra if isinstance(each, dict)] if isinstance(error.extra, list) else []
    names = [_key(str(row.get("key", "")), str(row.get("message", ""))) for row in rows]
    if not rows and isinstance(error.__cause__, msgspec.MsgspecError):
        names = [_key("", str(error.__cause__))]
    return ", ".join(dict.fromkeys(filter(None, names)))[:200]


_AT = re.compile(r" - at `\$\.?([\w.\[\]]*)`\Z")
_LACKS = re.compile(r"missing required field `(\w{1,64})`")


def _key(key: str, message: str) -> str:
    """The place in a body, of msgspec's line about it: `matchers[0].field`. A field that we do not know is
    the asker's word, and is not said again."""
    at = _AT.search(message)
    place = (at[1] if at else "") or key
    place = "" if place == "data" or not re.fullmatch(r"[A-Za-z_][\w.\[\]]{0,99}", place) else place
    lacks = _LACKS.search(message)
    if lacks:
        return f"{place}.{lacks[1]}".lstrip(".") + " is missing"
    if "contains unknown field" in message:
        return f"a field of {place or 'the body'} that it does not have"
    return place


def _own(_: Ask, error: Exception) -> Response[Any]:
    raise error  # for the gate, which counts it and says it in one line


def _deep(_: Ask, __: Exception) -> Response[Any]:
    return _refused(_, Refusal(400, "JSON that nests too deep", "send a flat object"))


def description() -> dict[str, Any]:
    """The API's own description, as `/openapi.json` answers it."""
    app = Litestar([*HANDLERS], logging_config=None, openapi_config=_openapi())
    found: dict[str, Any] = _plain(app.openapi_schema.to_schema())
    for method, path, media_type in _BINARY_BODIES:  # read as they come: no handler takes them as data
        schema = {"type": "string", "format": "binary"}
        found["paths"][path][method]["requestBody"] = {
            "required": True,
            "content": {media_type: {"schema": schema}},
        }
    return found


def _plain(node: Any) -> Any:
    """Without made-up examples, and defaults as JSON has them."""
    if isinstance(node, dict):
        return {key: _plain(each) for key, each in node.items() if key != "examples"}
    if isinstance(node, (list, tuple)):
        return [_plain(each) for each in node]
    plain = msgspec.to_builtins(node)
    return _plain(plain) if isinstance(plain, (dict, list, tuple)) else plain


def _openapi() -> OpenAPIConfig:
    return OpenAPIConfig(
        title="stepscope server",
        version=VERSION,
        description=DESCRIPTION,
        use_handler_docstrings=True,
        components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
        security=[{"token": []}, {}],
    )


def make_app(parts: Parts) -> Litestar:
    """The application of these parts, without the gate before it."""

    @asynccontextmanager
    async def life(app: Litestar) -> Any:
        app.state.querying = CapacityLimiter(parts.limits.num_querying)
        app.state.polling = CapacityLimiter(parts.limits.num_waiting_agents)
        yield

    app = Litestar(
        [*HANDLERS, openapi],
        state=State({"parts": parts, "intake": Intake(parts), "broadcast": stream.Broadcast(parts)}),
        lifespan=[life],
        exception_handlers={
            Refusal: _refused,
            HTTPException: _failed,
            RecursionError: _deep,
            Exception: _own,
        },
        request_max_body_size=parts.limits.body_bytes,
        logging_config=None,
        openapi_config=_openapi(),
    )
    app.state.description = msgspec.json.encode(description())
    return app


def guarded(parts: Parts, err: Callable[[str], None]) -> tuple[Litestar, Gate]:
    """The application, and the gate before it: what a server runs."""
    logging.getLogger("litestar").setLevel(logging.CRITICAL)
    app = make_app(parts)
    return app, Gate(app, parts, err)
