"""What agents ask besides ingest: orders, which they wait for, and where traces go."""

from __future__ import annotations

import tempfile
from typing import Annotated

import anyio
from anyio import CapacityLimiter, to_thread
from litestar import Response, get, put
from litestar.datastructures import State
from litestar.params import PathParameter, QueryParameter

from stepscope.model.error import InputError, StepscopeError
from stepscope.model.order import Orders
from stepscope.server.auth import Principal
from stepscope.server.capture_trace import TooLarge
from stepscope.server.gate import body_of
from stepscope.server.parts import Parts
from stepscope.server.reply import Ask, Refusal, absent, asker, refusal_of, reply
from stepscope.server.route import needs, responses
from stepscope.sources.formats.frame import is_agent_id

CROWDED_S = 1.0
"""How often an agent is looked after that found no thread to wait in."""
_SPOOLED_BYTES = 1 << 20
_RING = r"^[A-Za-z0-9][A-Za-z0-9._@+=-]{0,199}$"
_AGENT = r"^[A-Za-z0-9._-]{1,36}$"


def own_agent(who: Principal, agent: str | None) -> str | None:
    """The agent that asks. Refusal where the token is another one's."""
    if agent is not None and not is_agent_id(agent):
        raise Refusal(400, "no agent's id", "give 1 to 36 letters, digits, dots, dashes or underscores")
    if who.agent is not None and agent not in (None, who.agent):
        raise Refusal(403, "the token is another agent's", "give this agent a token of its own", ends=True)
    return agent or who.agent


@get(
    "/api/v1/agents/{agent:str}/orders",
    guards=[needs("agent")],
    responses=responses(501, 503),
    tags=["agents"],
    summary="Wait for orders",
    description="Answers as soon as there is an order newer than `after`, else empty after `wait_s`. "
    "`after=-1` gives nothing old: only `next`, to go on with.",
)
async def orders(
    request: Ask,
    state: State,
    agent: Annotated[str, PathParameter(pattern=_AGENT)],
    after: Annotated[int, QueryParameter(ge=-1, le=(1 << 53) - 1)] = -1,
    wait_s: Annotated[float, QueryParameter(ge=0, le=600)] = 0.0,
) -> Response[Orders]:
    """Wait for orders of this agent."""
    parts: Parts = state.parts
    ask, ask_async = parts.orders, parts.orders_async
    if ask is None and ask_async is None:
        raise absent("orders")
    own_agent(asker(request), agent)
    wait_s = min(wait_s, parts.limits.poll_s)
    if ask_async is not None:
        return reply(request, await ask_async(agent, after, wait_s))
    assert ask is not None
    limiter: CapacityLimiter = state.polling
    if wait_s == 0 or limiter.available_tokens >= 1:
        found = await to_thread.run_sync(
            lambda: ask(agent, after, wait_s),
            limiter=limiter if wait_s else state.querying,
            abandon_on_cancel=True,
        )
        return reply(request, found)
    until_s = anyio.current_time() + wait_s
    while True:
        found = await to_thread.run_sync(lambda: ask(agent, after, 0.0), limiter=state.querying)
        if found.orders or after < 0 or anyio.current_time() >= until_s:
            return reply(request, found)
        await anyio.sleep(CROWDED_S)


@put(
    "/api/v1/captures/{capture:int}/traces/{ring:str}",
    status_code=204,
    guards=[needs("agent")],
    responses=responses(404, 408, 409, 413, 501, 503),
    tags=["agents"],
    summary="Upload a trace that was asked for",
    description="The body is the trace as the profiler wrote it, JSON or gzip.",
)
async def take_trace(
    request: Ask,
    state: State,
    capture: Annotated[int, PathParameter(ge=0, le=(1 << 53) - 1)],
    ring: Annotated[str, PathParameter(pattern=_RING)],
    agent: Annotated[
        str | None, QueryParameter(pattern=_AGENT, description="Whose; a token may say it too.")
    ] = None,
) -> None:
    """Take a trace. It is kept without its secrets, or not at all."""
    parts: Parts = state.parts
    take = parts.take_trace
    if take is None:
        raise absent("captures")
    if ".." in ring:
        raise Refusal(400, "no name of a ring", "give the file's name as in the agent's batches", ends=True)
    whose = own_agent(asker(request), agent)
    limits = parts.limits
    headers = dict(request.headers.items())
    folder = str(parts.folder) if parts.folder is not None else None
    # It has no name on the disk: nothing of it is left, whatever happens.
    with tempfile.SpooledTemporaryFile(_SPOOLED_BYTES, dir=folder) as file:
        async for each in body_of(headers, request.receive, limits.trace_bytes, 10 * limits.body_s):
            await to_thread.run_sync(file.write, each)
        file.seek(0)

        def keep() -> None:
            try:
                take(capture, ring, whose, iter(lambda: file.read(_SPOOLED_BYTES), b""))
            except InputError as error:
                raise Refusal(400, "no trace that can be read", "send what the profiler wrote") from error
            except TooLarge as error:
                raise refusal_of(error, 413) from error
            except StepscopeError as error:
                raise refusal_of(error, 409) from error
            except OSError as error:
                raise Refusal(503, "the store takes nothing now", "send it again later", retry_s=5) from error

        await to_thread.run_sync(keep, limiter=state.querying)


HANDLERS = (orders, take_trace)
