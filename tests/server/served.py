"""A server for tests: its HTTP side with a store in memory, asked over real sockets."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stepscope.model.batch import Batch
from stepscope.server.audit import Audit
from stepscope.server.auth import Auth, Role, token_of
from stepscope.server.feed import Feed
from stepscope.server.limit import Limits
from stepscope.server.parts import Parts
from stepscope.server.serve import bound, serve
from stepscope.sources.formats.frame import CONTENT_TYPE, Header, pack_frame, pack_header
from tests.server.memory_store import MemoryStore

TOKENS: dict[Role, str] = {
    role: f"{role}-{'0123456789abcdef' * 2}" for role in ("viewer", "operator", "admin", "agent")
}


@dataclass
class Said:
    """An answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Asked:
    """A server that runs, and how it is asked. `lines` are those that it wrote for whoever runs it."""

    port: int
    parts: Parts
    store: MemoryStore
    lines: list[str] = field(default_factory=list)

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, role: Role | None = None, **headers: str
    ) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if role is not None:
            sent["Authorization"] = f"Bearer {TOKENS[role]}"
        if body is not None and "Content-Type" not in sent:
            sent["Content-Type"] = "application/json"
        try:
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            told = {name.lower(): value for name, value in answer.getheaders()}
            return Said(answer.status, told, answer.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: Any) -> Said:
        return self.ask("GET", path, **headers)

    def post(self, path: str, what: Any, **headers: Any) -> Said:
        return self.ask("POST", path, json.dumps(what).encode(), **headers)

    def ingest(self, body: bytes, **headers: Any) -> Said:
        return self.ask("POST", "/api/v1/ingest", body, **{"Content_Type": CONTENT_TYPE, **headers})


def body_of(*batches: Batch, agent: str = "agent-1", first: int = 1) -> bytes:
    """An ingest body of these batches, numbered from `first`."""
    numbered = [msgspec.structs.replace(each, agent=agent, seq=n) for n, each in enumerate(batches, first)]
    return pack_header(Header(agent, first)) + b"".join(map(pack_frame, numbered))


@contextlib.contextmanager
def serving(
    *,
    has_tokens: bool = False,
    agent: str | None = None,
    limits: Limits | None = None,
    store: MemoryStore | None = None,
    more: Callable[[Parts], Parts] = lambda parts: parts,
) -> Iterator[Asked]:
    """A server until the block ends. `agent`: the one that the agents' token is bound to."""
    store = store or MemoryStore()
    tokens = [
        token_of(token, f"the-{role}", role, 1, agent if role == "agent" else None)
        for role, token in TOKENS.items()
    ]
    parts = Parts(
        store=store,
        feed=Feed(),
        auth=Auth(tokens if has_tokens else (), is_open=not has_tokens),
        clock_ns=time.time_ns,
        audit=Audit(store, time.time_ns),
        limits=limits or Limits(),
    )
    parts = more(parts)
    asked = Asked(0, parts, store)
    served = serve(parts, bound("127.0.0.1", 0), asked.lines.append)
    asked.port = served.port
    try:
        yield asked
    finally:
        served.stop()


__all__ = ["TOKENS", "Asked", "Said", "body_of", "serving"]
