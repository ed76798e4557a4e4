"""`GET /api/v1/stream`: what happens, as server-sent events. The last ones are kept for who comes back with
`Last-Event-ID`; who reads too slowly is let go, and comes back so."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import msgspec
from litestar import get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import QueryParameter
from litestar.response import Stream

from stepscope.model.alarm import Alarm
from stepscope.model.incident import Incident
from stepscope.server.feed import Topic
from stepscope.server.parts import Parts
from stepscope.server.query_document import shown_incident
from stepscope.server.query_job import OfJob
from stepscope.server.reply import Ask, Refusal, asker
from stepscope.server.route import needs, responses

TOPICS: tuple[Topic, ...] = ("alarm", "incident", "card", "capture", "run", "silence")
MOST_KEPT = 2048
MOST_QUEUED = 256
BEAT_S = 15.0
assert set(TOPICS) < set(get_args(Topic))


@dataclass(frozen=True, slots=True)
class Told:
    """One event: its number, topic, job, and what is sent of it to whoever sees all, and to viewers."""

    number: int
    topic: str
    job: str | None
    data: bytes
    plain: bytes


class _Reader:
    def __init__(self, wants: Callable[[Told], bool]) -> None:
        self.wants = wants
        self.queue: asyncio.Queue[Told | None] = asyncio.Queue(MOST_QUEUED)
        self.is_slow = False


class Broadcast:
    """From the feed, whose threads it hears, to readers, who are on the loop."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._epoch = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[Told] = deque(maxlen=MOST_KEPT)
        self._readers: set[_Reader] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._is_over = False
        self._ends = [parts.feed.listen(topic, self._teller(topic)) for topic in TOPICS]
        parts.tally.watch("stepscope_server_streams", lambda: [((), len(self._readers))])

    def _teller(self, topic: Topic) -> Callable[[Any], None]:
        return lambda what: self._tell(topic, what)

    def _tell(self, topic: str, what: Any) -> None:
        job, data, plain = shown(topic, what)
        with self._lock:
            self._number += 1
            told = Told(self._number, topic, job, data, plain)
            self._kept.append(told)
            loop = self._loop
            if loop is not None and self._readers:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._hand_out, told)

    def _hand_out(self, told: Told) -> None:
        for reader in tuple(self._readers):
            if not reader.wants(told):
                continue
            try:
                reader.queue.put_nowait(told)
            except asyncio.QueueFull:
                reader.is_slow = True
                self._readers.discard(reader)
                self._parts.tally.add("stepscope_server_streams_dropped_total")

    def close(self) -> None:
        """End every stream, from the loop's thread or another."""
        for end in self._ends:
            end()
        self._ends = []
        self._is_over = True
        loop = self._loop
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._end_readers)

    def _end_readers(self) -> None:
        for reader in tuple(self._readers):
            self._readers.discard(reader)
            with contextlib.suppress(asyncio.QueueFull):
                reader.queue.put_nowait(None)

    async def read(
        self, wants: Callable[[Told], bool], last_id: str | None, sees: bool
    ) -> AsyncIterator[bytes]:
        """Events as they are sent. Refusal where there are too many readers."""
        if len(self._readers) >= self._parts.limits.num_streams or self._is_over:
            raise Refusal(503, "too many streams", "end one, or come again later", retry_s=10)
        reader = _Reader(wants)
        with self._lock:
            self._loop = asyncio.get_running_loop()
            old = self._after(last_id)
            self._readers.add(reader)
        return self._events(reader, [each for each in old if wants(each)], sees)

    def _after(self, last_id: str | None) -> list[Told]:
        """What the reader missed; of an id of another life of the server everything that is kept."""
        if last_id is None:
            return []
        epoch, _, number = last_id.partition("-")
        if epoch != self._epoch or not number.isdigit() or len(number) > 18:
            return list(self._kept)
        return [each for each in self._kept if each.number > int(number)]

    async def _events(self, reader: _Reader, old: list[Told], sees: bool) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 3000\n\n"
            for each in old:
                yield self._sent(each, sees)
            while not reader.is_slow and not self._is_over:
                try:
                    told = await asyncio.wait_for(reader.queue.get(), BEAT_S)
                except (asyncio.TimeoutError, TimeoutError):
                    yield b": beat\n\n"
                    continue
                if told is None:
                    break
                yield self._sent(told, sees)
        finally:
            self._readers.discard(reader)

    def _sent(self, told: Told, sees: bool) -> bytes:
        head = f"id: {self._epoch}-{told.number}\nevent: {told.topic}\ndata: ".encode()
        return head + (told.data if sees else told.plain) + b"\n\n"


def shown(topic: str, what: Any) -> tuple[str | None, bytes, bytes]:
    """(job, what is sent, what is sent to viewers), one line of JSON each."""
    plain = what
    job: str | None = None
    if isinstance(what, Alarm):
        job = what.about.job
    elif isinstance(what, Incident):
        job, plain = what.about.job, shown_incident(what, False)
    elif topic == "card":
        incident, _report = what
        what, plain = incident, shown_incident(incident, False)
        job = incident.about.job
    elif topic == "run":
        job, run = what
        what = plain = {"job": job, "run": run}
    elif isinstance(what, str):
        what = plain = {"id": what}
    elif isinstance(what, dict):
        job = str(what["job"]) if what.get("job") else None
    else:
        job = getattr(what, "job", None)
    return job, msgspec.json.encode(what), msgspec.json.encode(plain)


@get(
    "/api/v1/stream",
    guards=[needs("viewer")],
    responses={
        200: ResponseSpec(str, media_type="text/event-stream", description="Events, until one side ends it."),
        **responses(503),
    },
    media_type="text/event-stream",
    tags=["stream"],
    summary="What happens, as it happens",
    description="Server-sent events: `event` is the topic, `data` one line of JSON (an alarm, an incident, "
    "the incident of a card, a capture, a run). Come back with `Last-Event-ID` for what was missed.",
)
async def stream(
    request: Ask,
    state: State,
    topic: Annotated[
        list[str] | None, QueryParameter(max_items=8, description=f"Of {', '.join(TOPICS)}.")
    ] = None,
    job: OfJob = None,
) -> Stream:
    """Events as they happen."""
    if topic and not set(topic) <= set(TOPICS):
        raise Refusal(400, "no topic of that name", f"there are {', '.join(TOPICS)}")

    def wants(told: Told) -> bool:
        return (not topic or told.topic in topic) and (job is None or told.job == job)

    sees = asker(request).sees_sensitive
    broadcast: Broadcast = state.broadcast
    events = await broadcast.read(wants, request.headers.get("last-event-id"), sees)
    return Stream(
        events,
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


HANDLERS = (stream,)
