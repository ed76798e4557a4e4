"""`POST /api/v1/ingest`: a body of batches is kept, and only then acknowledged. Off the event loop, a few at
a time: what waits too long is asked to wait, what is too much is turned away. docs/reference/ingest.md."""

from __future__ import annotations

from collections.abc import Sequence

import anyio
from anyio import CapacityLimiter, to_thread
from litestar import Response, post
from litestar.datastructures import State

from stepscope.model.batch import Ack, Samples
from stepscope.model.error import InputError, StepscopeError
from stepscope.server.auth import Principal
from stepscope.server.entry import Entered, TooLarge, entered, gunzipped
from stepscope.server.gate import read_body
from stepscope.server.parts import Parts
from stepscope.server.reply import Ask, Refusal, asker, refusal_of, reply
from stepscope.server.route import needs, responses
from stepscope.sources.formats.frame import CONTENT_TYPE
from stepscope.store.contract import Kept
from stepscope.store.error import AnotherAgentError

RETRY_S = 5.0
"""After which a body that had no room is sent again."""
MOST_WAIT_S = 5.0
"""Of back-pressure: what an agent is asked to wait where the queue is nearly full."""


class Intake:
    """The bodies that are being kept, and those that wait for it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._limiter: CapacityLimiter | None = None
        self._waiting = 0
        parts.tally.watch("stepscope_server_ingest_waiting", lambda: [((), self._waiting)])

    async def take(self, body: bytes, is_packed: bool, who: Principal) -> Ack:
        """Keep a body. Refusal where it cannot be."""
        limits = self._parts.limits
        if self._waiting >= limits.num_ingest_waiting:
            self._parts.tally.add("stepscope_server_refused_total", reason="full")
            raise Refusal(503, "too many bodies wait to be kept", "send it again later", retry_s=RETRY_S)
        if self._limiter is None:  # made here: it belongs to the loop that runs
            self._limiter = CapacityLimiter(limits.num_ingesting)
        self._waiting += 1
        try:
            seq, agent = await to_thread.run_sync(
                lambda: self._keep(body, is_packed, who), limiter=self._limiter
            )
        finally:
            self._waiting -= 1
        share = self._waiting / limits.num_ingest_waiting
        return Ack(agent, seq, wait_s=round(MOST_WAIT_S * share, 2) if share > 0.5 else 0.0)

    def _keep(self, body: bytes, is_packed: bool, who: Principal) -> tuple[int, str]:
        """In a thread of its own: (number up to which all is kept, agent)."""
        tally, limits = self._parts.tally, self._parts.limits
        tally.add("stepscope_server_ingest_bytes_total", len(body))
        try:
            data = gunzipped(body, limits.ingest_bytes) if is_packed else body
            found = entered(data, limits)
        except TooLarge as error:
            raise refusal_of(error, 413) from error
        except InputError as error:
            tally.add("stepscope_server_refused_total", reason="damaged")
            raise refusal_of(error, 400) from error
        if who.agent is not None and who.agent != found.agent:
            raise Refusal(403, "the token is another agent's", "give this agent a token of its own")
        if who.role == "agent" and who.agent is None and self._parts.auth.is_bound(found.agent):
            raise Refusal(403, "this agent has a token of its own", "give it that token")
        kept = self._kept(found)
        self._count(found, kept)
        if kept is None or not found.batches or kept.seq >= found.batches[-1].seq:
            return found.last_seq, found.agent
        return min(kept.seq, found.last_seq), found.agent

    def _kept(self, found: Entered) -> Kept | None:
        """What the store says; `None` where there is nothing to keep."""
        if not found.batches:
            return None
        try:
            kept = self._parts.store.keep(found.batches)
        except AnotherAgentError as error:
            self._parts.tally.add("stepscope_server_refused_total", reason="agent")
            raise Refusal(
                503,
                "another agent ships a ring of this body",
                "end one of the two; the other one is taken once it is silent",
                retry_s=RETRY_S,
            ) from error
        except (OSError, StepscopeError) as error:
            self._parts.tally.add("stepscope_server_refused_total", reason="store")
            raise Refusal(
                503,
                "the store takes nothing now",
                "free the disk of the server, or see the line that it wrote",
                retry_s=RETRY_S,
            ) from error
        if kept.fresh:
            self._parts.feed.tell("batches", kept.fresh)
        return kept

    def _count(self, found: Entered, kept: Kept | None) -> None:
        tally = self._parts.tally
        fresh: Sequence[object] = kept.fresh if kept is not None else ()
        tally.add("stepscope_server_ingest_batches_total", len(fresh))
        tally.add("stepscope_server_ingest_duplicate_batches_total", len(found.batches) - len(fresh))
        tally.add("stepscope_server_ingest_unknown_batches_total", found.num_unknown)
        num = sum(len(s.value) for each in fresh if isinstance(each, Samples) for s in each.series)
        tally.add("stepscope_server_ingest_samples_total", num)


@post(
    "/api/v1/ingest",
    status_code=200,
    guards=[needs("agent")],
    responses=responses(400, 408, 413, 415, 503),
    tags=["agents"],
    summary="Keep batches of an agent",
    description=f"The body is a spool segment (`{CONTENT_TYPE}`, see docs/reference/ingest.md), which may be "
    "packed with gzip. The answer comes when it is on the disk.",
)
async def ingest(request: Ask, state: State) -> Response[Ack]:
    """Keep batches of an agent."""
    limits = state.parts.limits
    headers = dict(request.headers.items())
    if headers.get("content-type", "").partition(";")[0].strip().lower() != CONTENT_TYPE:
        raise Refusal(415, "not batches of an agent", f"send them as {CONTENT_TYPE}", ends=True)
    packing = headers.get("content-encoding", "identity").strip().lower()
    if packing not in ("identity", "gzip"):
        raise Refusal(415, "packed in a way that is not known", "leave Content-Encoding out", ends=True)
    with anyio.CancelScope(shield=True):  # what is being kept is kept, whoever hangs up meanwhile
        body = await read_body(headers, request.receive, limits.ingest_bytes, limits.body_s)
        ack = await state.intake.take(body, packing == "gzip", asker(request))
    return reply(request, ack)
