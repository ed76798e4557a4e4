"""Sends requests to one server, within bounds of time and bytes, and says what came back.

The standard library's client: it follows no redirect, so that a token goes to nobody else, asks no proxy, and
trusts the certificates that the system trusts, or those of the context given.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO
from urllib.parse import SplitResult, urlsplit

from stepscope.model.error import UsageError
from stepscope.version import VERSION

MOST_ANSWER_BYTES = 1 << 16
_PLAIN = frozenset(map(chr, range(33, 127)))
_GONE = (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server said. `retry_after` is that header, as it stands."""

    status: int
    body: bytes
    retry_after: str | None = None
    location: str | None = None


class Poster:
    """Posts to one address, or asks for others of its server (`ask`), over one connection. Not for several
    threads, but `cut` may come from another.

    `url` is `http(s)://HOST[:PORT]/PATH`. Credentials in it are refused: `token` is asked before each
    request, so that a file with a new one is read. OSError where no answer came.
    """

    def __init__(
        self,
        url: str,
        token: Callable[[], str | None] | None = None,
        *,
        context: ssl.SSLContext | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self._parts = parts_of(url)
        self.shown = f"{self._parts.scheme}://{self._parts.netloc}{self._parts.path}"
        self._token, self._context, self._timeout_s = token, context, timeout_s
        self._connection: http.client.HTTPConnection | None = None

    def __call__(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        return self.ask("POST", self._parts.path or "/", body, headers)

    def ask(
        self, method: str, target: str, body: bytes | BinaryIO | None, headers: Mapping[str, str]
    ) -> Answer:
        """One request. A file is sent from its beginning; `headers` then say its length."""
        sent = {"User-Agent": f"stepscope/{VERSION}", **headers}
        token = self._token() if self._token is not None else None
        if token:
            sent["Authorization"] = f"Bearer {token}"
        was_open = self._connection is not None
        try:
            answer, text = self._ask(method, target, body, sent)
        except _GONE:
            # A connection that was kept may have been closed by the other side meanwhile.
            if not was_open:
                raise
            answer, text = self._ask(method, target, body, sent)
        if answer.will_close or len(text) > MOST_ANSWER_BYTES:
            self.cut()
        return Answer(answer.status, text, answer.getheader("Retry-After"), answer.getheader("Location"))

    def _ask(
        self, method: str, target: str, body: bytes | BinaryIO | None, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        connection = self._connection or self._connect()
        if body is not None and not isinstance(body, bytes):
            body.seek(0)
        try:
            with _within(connection, self._timeout_s):
                connection.request(method, target, body, dict(headers))
                answer = connection.getresponse()
                return answer, answer.read(MOST_ANSWER_BYTES + 1)
        except OSError:
            self.cut()
            raise
        # ValueError, AttributeError: of ssl and http.client, when another thread closes what they read.
        except (http.client.HTTPException, ValueError, AttributeError) as error:
            self.cut()
            raise OSError(f"no answer that is HTTP ({type(error).__name__})") from error

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = self._context or ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        return self._connection

    def cut(self) -> None:
        """End the connection, from any thread: who waits for an answer gets an OSError."""
        connection, self._connection = self._connection, None
        if connection is not None:
            _shut(connection)
            with contextlib.suppress(OSError):
                connection.close()


def parts_of(url: str) -> SplitResult:
    """The parts of an address. UsageError where it is none or holds credentials; the line shows neither."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UsageError("the server's address is none; give https://HOST[:PORT]") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not set(url) <= _PLAIN:
        raise UsageError("the server's address is none; give https://HOST[:PORT]")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        shown = f"{parts.scheme}://{parts.hostname}"
        raise UsageError(
            f"{shown}: no credentials and no question in the address; "
            "the token comes from STEPSCOPE_TOKEN or a file"
        )
    return parts


@contextlib.contextmanager
def _within(connection: http.client.HTTPConnection, seconds: float) -> Iterator[None]:
    """The socket's own time-out begins anew with every byte: this one does not."""
    watch = threading.Timer(seconds, _shut, (connection,))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()


def _shut(connection: http.client.HTTPConnection) -> None:
    live = connection.sock
    if live is not None:
        with contextlib.suppress(OSError):
            # Not SSLSocket's own, which takes the TLS state away from a reader that is in it.
            socket.socket.shutdown(live, socket.SHUT_RDWR)
