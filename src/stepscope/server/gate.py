"""What stands before every path: who asks, how often, with how large and how deep a body; and behind it:
what is counted, what is written into the audit log, and that no fault shows more than one line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio import to_thread

from stepscope.model.redact import without_secrets
from stepscope.server.auth import ANYBODY, Principal
from stepscope.server.limit import Bucket, depth_of
from stepscope.server.parts import Parts
from stepscope.server.reply import Refusal

Scope = dict[str, Any]
Receive = Callable[[], Any]
Send = Callable[[Any], Any]
App = Callable[[Any, Any, Any], Any]

OPEN = frozenset(("/-/healthy", "/-/ready", "/openapi.json"))
"""Paths that say nothing of anybody's jobs."""
STREAMED = frozenset(("/api/v1/ingest", "/api/v1/captures/{capture}/traces/{ring}"))
UNLISTED = "other"
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_WRITES = frozenset(("POST", "PUT", "PATCH", "DELETE"))


class Gate:
    """The outermost application. `err` takes a line for whoever runs the server."""

    def __init__(self, app: App, parts: Parts, err: Callable[[str], None]) -> None:
        self._app, self._parts, self._err = app, parts, err
        limits = parts.limits
        self._asked = Bucket(limits.requests_per_s, limits.burst)
        self._wrong = Bucket(limits.refused_per_s, limits.refused_burst)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send)
        try:
            await self._pass(scope, receive, answer)
        except Refusal as refusal:
            await answer.refuse(refusal)
        except Exception as error:  # noqa: BLE001  the outer wall: one line here, none of it outside
            self._parts.tally.add("stepscope_server_faults_total")
            shown = without_secrets(f"{type(error).__name__}: {error}")[0]
            self._err(f"a fault of stepscope at {self._path(scope)}: {' '.join(shown.split())[:500]}")
            await answer.refuse(Refusal(500, "a fault of the server", "see the line that the server wrote"))
        await self._after(scope, answer)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        address = scope["client"][0] if scope.get("client") else None
        scope["stepscope.address"] = address
        who = self._who(scope, headers, address or "")
        scope["stepscope.who"] = who
        is_streamed = scope["path"] == "/api/v1/ingest" or "/traces/" in scope["path"]
        if scope["method"] in _WRITES and not is_streamed:
            receive = await self._body(headers, receive)
        await self._app(scope, receive, answer)

    def _who(self, scope: Scope, headers: dict[str, str], address: str) -> Principal | None:
        parts, now_s = self._parts, time.monotonic()
        if not parts.auth.is_on:
            _check_own_page(scope, headers)
        if scope["path"] in OPEN:
            self._turn(f"address {address}", now_s)
            return None
        # A right token passes whatever others did: behind a proxy everybody comes from one address, and 256
        # random bits need no limit against guessing. The limit is for the audit log and its disk.
        who = parts.auth.who(headers.get("authorization"))
        if who is None:
            wait_s = self._wrong.take(address, now_s)
            if wait_s > 0:
                raise self._often(wait_s, "too many wrong tokens from this address")
            parts.tally.add("stepscope_server_refused_total", reason="token")
            has_token = "authorization" in headers
            raise Refusal(
                401,
                "the token is not known here" if has_token else "no token",
                "send one in the Authorization header, as a bearer's; `stepscope token add` makes it",
                ends=True,
            )
        self._turn(f"address {address}" if who is ANYBODY else f"token {who.name}", now_s)
        return who

    def _turn(self, asker: str, now_s: float) -> None:
        wait_s = self._asked.take(asker, now_s)
        if wait_s > 0:
            raise self._often(wait_s, "too many requests")

    def _often(self, wait_s: float, what: str) -> Refusal:
        self._parts.tally.add("stepscope_server_refused_total", reason="rate")
        return Refusal(429, what, "wait as long as Retry-After says", retry_s=wait_s, ends=True)

    async def _body(self, headers: dict[str, str], receive: Receive) -> Receive:
        """The body of a small request, read whole and looked at before anything is decoded."""
        limits = self._parts.limits
        body = await read_body(headers, receive, limits.body_bytes, limits.body_s)
        if depth_of(body) > limits.json_depth:
            raise Refusal(400, f"JSON that nests deeper than {limits.json_depth}", "send a flat object")
        is_told = False

        async def again() -> Any:
            nonlocal is_told
            if is_told:
                return await receive()
            is_told = True
            return {"type": "http.request", "body": body, "more_body": False}

        return again

    async def _after(self, scope: Scope, answer: _Answer) -> None:
        method, path, who = scope["method"], self._path(scope), scope.get("stepscope.who")
        if method not in (*_WRITES, "GET", "HEAD", "OPTIONS"):
            method = UNLISTED
        code = answer.status or 499
        self._parts.tally.add("stepscope_server_requests_total", path=path, method=method, code=str(code))
        is_write = method in _WRITES and path not in STREAMED and path != UNLISTED
        if not is_write and code not in (401, 403):
            return
        target = next(iter(scope.get("path_params", {}).values()), None)
        try:
            await to_thread.run_sync(
                lambda: self._parts.audit.write(
                    who=who.name if who else None,
                    role=who.role if who else None,
                    address=scope.get("stepscope.address"),
                    what=f"{method} {path}",
                    target=str(target)[:200] if target is not None else None,
                    status=code,
                )
            )
        except Exception as error:  # noqa: BLE001  a full disk must not turn a done write into a failed one
            self._parts.tally.add("stepscope_server_audit_failures_total")
            self._err(f"the audit log cannot be written ({type(error).__name__})")

    @staticmethod
    def _path(scope: Scope) -> str:
        """The path as the list of paths writes it: never what somebody put into it."""
        found = scope.get("path_template")
        if isinstance(found, str) and found:
            return found
        return scope["path"] if scope["path"] in (*OPEN, *STREAMED) else UNLISTED


class _Answer:
    """Sends, and knows what was sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", []), *_SAFE]}
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        if self.status is not None:  # half an answer is out: it cannot be taken back
            return
        body = refusal.body
        headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": refusal.status, "headers": raw})
        await self({"type": "http.response.body", "body": body, "more_body": False})


_SAFE = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]


def _check_own_page(scope: Scope, headers: dict[str, str]) -> None:
    """Without tokens a page of the web could ask in its reader's name: by another name for this machine
    (rebinding), or from elsewhere. Both are told by their headers."""
    host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
    if host not in _LOOPBACK and not _is_number(host):
        raise Refusal(403, "asked by a name that is not this machine's", "ask http://127.0.0.1", ends=True)
    origin = headers.get("origin")
    if origin and scope["method"] in _WRITES and urlsplit(origin).netloc != headers.get("host"):
        raise Refusal(403, "asked by a page of another site", "make a token, and ask with it", ends=True)


def _is_number(host: str) -> bool:
    return host.replace(".", "").isdigit() or ":" in host


async def read_body(headers: dict[str, str], receive: Receive, most_bytes: int, within_s: float) -> bytes:
    """A whole body. Refusal 413 where it is larger, 408 where it does not come in time, 400 where it is
    cut."""
    parts: list[bytes] = []
    async for each in body_of(headers, receive, most_bytes, within_s):
        parts.append(each)
    return b"".join(parts)


async def body_of(headers: dict[str, str], receive: Receive, most_bytes: int, within_s: float) -> Any:
    """A body, piece by piece, as `read_body`."""
    large = Refusal(413, f"a body of more than {most_bytes:,} bytes", "send less at a time", ends=True)
    length = headers.get("content-length", "")
    if length.isdigit() and int(length[:20]) > most_bytes:
        raise large
    until_s = anyio.current_time() + within_s
    size, more = 0, True
    while more:
        with anyio.move_on_after(until_s - anyio.current_time()) as in_time:
            message = await receive()
        if in_time.cancelled_caught:
            raise Refusal(
                408, f"no whole body within {within_s:g} s", "send it faster, or less of it", ends=True
            )
        if message["type"] == "http.disconnect":
            raise Refusal(400, "the body ends too early", "send it again", ends=True)
        piece, more = message.get("body", b""), message.get("more_body", False)
        size += len(piece)
        if size > most_bytes:
            raise large
        if piece:
            yield piece
