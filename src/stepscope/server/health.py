"""Whether the server lives, whether it can work, and what it counts of itself."""

from __future__ import annotations

from litestar import Response, get
from litestar.datastructures import State

from stepscope.server import shape
from stepscope.server.parts import Parts
from stepscope.server.reply import Ask, reply
from stepscope.server.route import in_thread, needs, responses
from stepscope.server.tally import CONTENT_TYPE


@get(
    "/-/healthy", tags=["health"], summary="Whether it lives", responses=responses(), media_type="text/plain"
)
async def healthy() -> str:
    """It lives, where it answers at all."""
    return "healthy\n"


@get("/-/ready", tags=["health"], summary="Whether it can work", responses=responses(503))
async def ready(request: Ask, state: State) -> Response[shape.Ready]:
    """Whether its store is open and can be written to; 503 where not."""
    parts: Parts = state.parts
    why = await in_thread(state.querying, parts.is_ready)
    return reply(request, shape.Ready(is_ready=why is None, why=why), status=200 if why is None else 503)


@get(
    "/metrics",
    guards=[needs("viewer")],
    responses=responses(),
    media_type=CONTENT_TYPE,
    tags=["health"],
    summary="What the server counts of itself, for Prometheus",
)
async def metrics(request: Ask, state: State) -> Response[str]:
    """Own counters and gauges; series of devices are at the agents' own `/metrics`."""
    text = await in_thread(state.querying, state.parts.tally.text)
    return Response(text, media_type=CONTENT_TYPE, headers={"cache-control": "no-store"})


HANDLERS = (healthy, ready, metrics)
