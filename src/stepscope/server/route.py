"""What all paths have in common: the role that they need, the errors that they may answer, the questions that
they take."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from anyio import CapacityLimiter, to_thread
from litestar.connection import ASGIConnection
from litestar.handlers import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec

from stepscope.model.error import RefusedError, StepscopeError, UsageError
from stepscope.server.auth import Principal, Role
from stepscope.server.reply import Refusal, Wrong, refusal_of

T = TypeVar("T")
_WHY: Mapping[int, str] = {
    400: "The question or the body is none: the line says what is wrong.",
    401: "No token, or one that is not known.",
    403: "The token's role does not allow it.",
    404: "There is none of that id.",
    405: "The path has no such method.",
    408: "The body did not come in time.",
    409: "Refused: a budget, a cool-down, or a state that does not allow it.",
    413: "The body, or what is asked for, is too large.",
    415: "The body is of a kind that is not taken.",
    429: "Too many requests: wait as long as `Retry-After` says.",
    500: "A fault of the server.",
    501: "This server runs without the part that would answer.",
    503: "Not now: wait as long as `Retry-After` says.",
}
_ALWAYS = (401, 403, 429)
_OURS = frozenset(("request", "state", "data"))
"""What Litestar gives a handler besides the questions."""
_PATH_NAME = re.compile(r"\{(\w+)(?::\w+)?\}")


def responses(*codes: int) -> dict[int, ResponseSpec]:
    """The errors that a path may answer, besides those that every path may."""
    return {
        code: ResponseSpec(Wrong, description=_WHY[code], generate_examples=False)
        for code in sorted({400, *_ALWAYS, *codes})
    }


def needs(role: Role) -> Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], None]:
    """A guard: lets in who has the role, and refuses questions that the path does not take."""

    def guard(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
        who: Principal | None = cast("dict[str, Any]", connection.scope).get("stepscope.who")
        if who is None or not who.may(role):
            raise Refusal(
                403,
                f"needs the role {role}, and the token's is {who.role if who else 'none'}",
                f"ask with a token of the role {role}",
                ends=cast("dict[str, Any]", connection.scope)["method"] != "GET",
            )
        check_questions(connection, handler)

    return guard


def check_questions(connection: ASGIConnection[Any, Any, Any, Any], handler: BaseRouteHandler) -> None:
    """Refuse a question that nobody would answer: a name that is misspelt must not pass for none."""
    known = handler.opt.get("questions")
    if known is None:
        inside = {name for path in handler.paths for name in _PATH_NAME.findall(path)}
        known = frozenset(handler.parsed_fn_signature.parameters) - inside - _OURS
        handler.opt["questions"] = known
    given = connection.query_params.keys()
    if not set(given) <= known:
        shown = ", ".join(sorted(known)) or "none"
        raise Refusal(400, "a question that this path does not take", f"it takes: {shown}")


async def in_thread(limiter: CapacityLimiter, work: Callable[[], T]) -> T:
    """Run what asks the store, off the event loop. What it raises of ours becomes an answer."""

    def run() -> T:
        try:
            return work()
        except UsageError as error:
            raise refusal_of(error, 400) from error
        except RefusedError as error:
            raise refusal_of(error, 409) from error
        except (StepscopeError, OSError) as error:
            raise Refusal(503, "the store does not answer now", "ask again later", retry_s=5) from error

    return await to_thread.run_sync(run, limiter=limiter)
