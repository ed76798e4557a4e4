"""Answers: in JSON or msgpack, packed where the asker takes it, named by a tag that saves sending it again;
and errors, each one line of what is wrong and one of what to do."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from litestar import Request, Response
from litestar.connection import ASGIConnection

from stepscope.model.error import StepscopeError
from stepscope.model.redact import without_secrets
from stepscope.server.auth import Principal

Ask = Request[Any, Any, Any]
JSON, MSGPACK = "application/json", "application/vnd.msgpack"
_PACK_BYTES = 1024
"""Below which packing does not pay."""
T = TypeVar("T")


def asker(ask: ASGIConnection[Any, Any, Any, Any]) -> Principal:
    """Who asks: the gate found out, and the path's guard let them in."""
    who: Principal = cast("dict[str, Any]", ask.scope)["stepscope.who"]
    return who


class Wrong(msgspec.Struct, frozen=True):
    """What every error says."""

    error: str
    mend: str


class Refusal(Exception):
    """An answer that is an error. `status` of HTTP; the words show nothing that the asker sent."""

    def __init__(
        self, status: int, error: str, mend: str, *, retry_s: float | None = None, ends: bool = False
    ) -> None:
        self.status, self.error, self.mend, self.retry_s = status, error, mend, retry_s
        self.ends = ends
        """The connection cannot be used again: its body was not read."""
        super().__init__(error)

    @property
    def body(self) -> bytes:
        words = (without_secrets(" ".join(each.split()))[0] for each in (self.error, self.mend))
        return msgspec.json.encode(Wrong(*words))

    @property
    def headers(self) -> dict[str, str]:
        headers = {"cache-control": "no-store"}
        if self.retry_s is not None:
            headers["retry-after"] = str(max(1, round(self.retry_s + 0.499)))
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.ends:
            headers["connection"] = "close"
        return headers


def refusal_of(error: StepscopeError, status: int) -> Refusal:
    """An error of ours as an answer: its own line, cut where the mend begins."""
    what, mark, mend = str(error).rpartition("; ")
    return Refusal(status, what if mark else mend, mend if mark else "see docs/reference/server.md")


def absent(part: str) -> Refusal:
    """The answer of a path whose part this server runs without."""
    return Refusal(501, f"this server runs without {part}", "start it with that part, or ask another server")


def unknown(what: str, path: str) -> Refusal:
    """The answer where there is none of that id."""
    return Refusal(404, f"no {what} of that id", f"GET {path} lists those there are")


def reply(ask: Ask, answer: T, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Response[T]:
    """The answer in the form that the asker prefers."""
    wants_msgpack = MSGPACK in ask.headers.get("accept", "")
    body = msgspec.msgpack.encode(answer) if wants_msgpack else msgspec.json.encode(answer)
    return cast("Response[T]", send(ask, body, MSGPACK if wants_msgpack else JSON, status, headers))


def send(
    ask: Ask,
    body: bytes,
    media_type: str,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response[bytes]:
    """Bytes as they are, packed where that pays; 304 where the asker has them."""
    told = {"cache-control": "private, no-cache", "vary": "Accept, Accept-Encoding, Authorization"}
    told |= headers or {}
    if status == 200 and ask.method == "GET":
        tag = f'W/"{hashlib.sha256(body).hexdigest()[:20]}"'
        told["etag"] = tag
        if tag in ask.headers.get("if-none-match", ""):
            return Response(b"", status_code=304, headers=told)
    if len(body) > _PACK_BYTES and "gzip" in ask.headers.get("accept-encoding", ""):
        body = gzip.compress(body, 1, mtime=0)
        told["content-encoding"] = "gzip"
    return Response(body, status_code=status, media_type=media_type, headers=told)
