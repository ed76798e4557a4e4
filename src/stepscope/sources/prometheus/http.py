"""Asks one service over HTTP within bounds of time and bytes, and says in one line why it did not answer.

The standard library's client: it follows no redirect, so that credentials go to nobody else, asks no proxy,
and trusts the certificates that the system trusts. A time-out of a socket restarts with every byte; here a
watch cuts the connection when the time of the whole question is over.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urljoin, urlsplit

import msgspec

from stepscope.model.error import InputError, RefusedError, ServiceError, StepscopeError
from stepscope.model.redact import without_secrets
from stepscope.sources.prometheus import failure
from stepscope.sources.prometheus.failure import Failure
from stepscope.sources.prometheus.url import Endpoint
from stepscope.version import VERSION

_CHUNK = 1 << 16
_ERROR_BYTES = 1 << 16
"""Of an answer that only says what went wrong."""
_MOST_SHOWN = 300
_NARROW = "ask for fewer hosts (host=, match=) or a shorter window (start=, end=)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one reading may take at most."""

    connect_seconds: float = 5.0
    query_seconds: float = 30.0
    """Of one question, its second try apart."""
    total_seconds: float = 120.0
    again_after_seconds: float = 1.0
    max_answer_bytes: int = 64 << 20
    """Of one answer, unpacked."""
    max_samples: int = 20_000_000
    samples_per_query: int = 200_000
    """About 6 MB as JSON; servers stop at 50 million and more."""
    max_address_characters: int = 4000
    """Of one question: servers and what stands before them take 8 KB."""


class QueryRefused(Exception):
    """The server understood the question and will not answer it: 400 or 422. `why` is its own word."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(why)


class _Failed(Exception):
    """A question was not answered: `row` says why and whether to ask again."""

    def __init__(self, row: Failure) -> None:
        self.row = row
        super().__init__(row.what)


class Service:
    """One service, asked one question after another over one connection."""

    def __init__(self, endpoint: Endpoint, limits: Limits) -> None:
        self.endpoint = endpoint
        self.limits = limits
        self.query_seconds = endpoint.query_seconds or limits.query_seconds
        self._until = time.monotonic() + max(limits.total_seconds, 2 * self.query_seconds)
        self._connection: _Connection | None = None

    @property
    def seconds_left(self) -> float:
        return self._until - time.monotonic()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, pairs: Sequence[tuple[str, str]]) -> bytes:
        """The body of the answer to `GET PREFIX/api/v1/PATH`: JSON, or begins as it.

        QueryRefused where the server refuses the question; ServiceError where it cannot be reached, lets us
        not in or fails; InputError where it is no Prometheus; RefusedError beyond our own bounds.
        """
        target = self.address(path, pairs)
        is_last = False
        while True:
            try:
                return self._ask(target)
            except _Failed as failed:
                self.close()
                row = failed.row
                is_last = is_last or self.seconds_left <= self.limits.again_after_seconds
                if row.kind == "refused":
                    raise QueryRefused(row.what) from None
                if row.kind != "again" or is_last:
                    kind = InputError if row.kind == "input" else ServiceError
                    raise kind(self.endpoint.shown, row.what, row.mend) from failed
            except BaseException:
                self.close()  # what is left of this answer is not the next one's
                raise
            is_last = True
            time.sleep(self.limits.again_after_seconds)

    def address(self, path: str, pairs: Sequence[tuple[str, str]]) -> str:
        """What is asked for, as it goes over the wire."""
        return f"{self.endpoint.prefix}/api/v1/{path}?{urlencode(pairs, quote_via=quote)}"

    def clean(self, text: str) -> str:
        """The server's own words, as one short line without secrets, ours among them."""
        for secret in (*self.endpoint.secrets, *_basic(self.endpoint)):
            text = text.replace(secret, "[redacted]")
        line = without_secrets(" ".join("".join(c if c.isprintable() else " " for c in text).split()))[0]
        return line if len(line) <= _MOST_SHOWN else f"{line[:_MOST_SHOWN]}…"

    def _ask(self, target: str) -> bytes:
        seconds = min(self.query_seconds, self.seconds_left)
        if seconds <= 0:
            raise _Failed(Failure("service", f"not done after {self.limits.total_seconds:g} s", _NARROW))
        late = Failure(
            "again", f"no whole answer within {seconds:.3g} s", f"add query_timeout=60s, or {_NARROW}"
        )
        if self._connection is None:
            self._connection = _Connection(self.endpoint, self.limits.connect_seconds)
        connection = self._connection
        with _watch(connection, seconds) as watch:
            try:
                if connection.sock is None:
                    connection.connect()
                connection.sock.settimeout(seconds)
                connection.request("GET", target, headers=_headers(self.endpoint))
                response = connection.getresponse()
                with response:  # an answer that ends with its connection holds the socket by itself
                    body = self._body(response)
            except (StepscopeError, _Failed) as error:
                if watch.is_over:
                    raise _Failed(late) from error
                raise
            # ValueError, AttributeError: of ssl and http.client, when the watch closes what they read.
            except (OSError, http.client.HTTPException, zlib.error, ValueError, AttributeError) as error:
                if watch.is_over:
                    raise _Failed(late) from error
                if isinstance(error, TimeoutError):
                    raise _Failed(self._unreached(connection, late)) from error
                row = failure.of_network(error)
                what = row.what.format(why=self.clean(failure.word(error)))
                raise _Failed(Failure(row.kind, what, row.mend)) from error
        if watch.is_over:
            raise _Failed(late)
        if response.will_close:
            self.close()
        self._judge(response, body)
        return body

    def _unreached(self, connection: _Connection, late: Failure) -> Failure:
        """A time-out of the socket: before there was a connection, or after."""
        if connection.is_open:
            return late
        what = f"no connection within {self.limits.connect_seconds:g} s"
        return Failure("again", what, "is the address right, and may this machine reach it?")

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        """The whole body, unpacked. RefusedError beyond `max_answer_bytes`."""
        is_answer = response.status == 200
        most = self.limits.max_answer_bytes if is_answer else _ERROR_BYTES
        packing = (response.getheader("Content-Encoding") or "identity").strip().lower()
        if packing not in ("identity", "gzip"):
            raise _Failed(Failure("input", f"an answer packed as {self.clean(packing)}", failure.OTHER))
        unpack = zlib.decompressobj(31) if packing == "gzip" else None
        body = bytearray()
        while data := response.read1(_CHUNK):
            while data:
                if unpack is None:
                    body += data
                    data = b""
                else:
                    body += unpack.decompress(data, most + 1 - len(body))
                    data = unpack.unconsumed_tail
                if len(body) > most:
                    self.close()
                    if not is_answer:
                        return bytes(body[:most])
                    size = f"{most >> 20} MB" if most >= 1 << 20 else f"{most} bytes"
                    raise RefusedError(f"{self.endpoint.shown}: an answer of more than {size}; {_NARROW}")
        # read1 ends quietly where the server hangs up before Content-Length; gzip has an end of its own.
        # Cut within the headers it has no length, and no body.
        is_empty = is_answer and not body and response.length is None
        if response.length or is_empty or (unpack is not None and not unpack.eof):
            raise _Failed(failure.TRUNCATED)
        return bytes(body)

    def _judge(self, response: http.client.HTTPResponse, body: bytes) -> None:
        """_Failed where the answer is none."""
        endpoint = self.endpoint
        row = failure.of_answer(response.status, body, bool(endpoint.token or endpoint.user))
        if row is None:
            return
        said = self.clean(_words(body))
        if row.kind == "refused":
            raise _Failed(Failure("refused", said or f"answers {response.status}", ""))
        what = row.what.format(
            status=response.status,
            said=f" ({said})" if said else "",
            why=self._elsewhere(response.getheader("Location") or ""),
            who="token" if endpoint.token else "user and password",
        )
        raise _Failed(Failure(row.kind, what, row.mend))

    def _elsewhere(self, location: str) -> str:
        """Where a redirect points, without the question and without secrets."""
        here = f"{self.endpoint.scheme}://{self.endpoint.host}:{self.endpoint.port}{self.endpoint.prefix}/"
        try:
            to = urlsplit(urljoin(here, location))
            place = f"{to.scheme}://{to.hostname or ''}{f':{to.port}' if to.port else ''}{to.path}"
        except ValueError:
            return "an address that is none"
        return self.clean(place.partition("/api/v1")[0])


class _Connection(http.client.HTTPConnection):
    """A connection whose socket is known from the first moment, so that a watch can end it."""

    def __init__(self, endpoint: Endpoint, connect_seconds: float) -> None:
        super().__init__(endpoint.host, endpoint.port, timeout=connect_seconds)
        self._endpoint = endpoint
        self._connect_seconds = connect_seconds
        self.live: socket.socket | None = None
        self.is_open = False
        """Connected, its TLS agreed."""

    def connect(self) -> None:
        plain = socket.create_connection((self._endpoint.host, self._endpoint.port), self._connect_seconds)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = self.live = plain
        if self._endpoint.scheme == "https":
            context = ssl.create_default_context()
            wrapped = context.wrap_socket(
                plain, server_hostname=self._endpoint.host, do_handshake_on_connect=False
            )
            self.sock = self.live = wrapped
            wrapped.do_handshake()
        self.is_open = True

    def cut(self) -> None:
        """End it from another thread: whoever waits for a byte wakes up."""
        if self.live is not None:
            with contextlib.suppress(OSError):
                # Not SSLSocket's own, which takes the TLS state away from a reader that is in it.
                socket.socket.shutdown(self.live, socket.SHUT_RDWR)


class _Watch:
    is_over = False


@contextlib.contextmanager
def _watch(connection: _Connection, seconds: float) -> Iterator[_Watch]:
    """Cuts the connection when the block takes longer than that."""
    watch = _Watch()
    done = threading.Event()

    def wait() -> None:
        if not done.wait(seconds):
            watch.is_over = True
            while not done.wait(0.05):  # the socket may be made only after the first cut
                connection.cut()

    thread = threading.Thread(target=wait, name="stepscope-watch", daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        done.set()
        thread.join()


def _basic(endpoint: Endpoint) -> tuple[str, ...]:
    """User and password as a header carries them; none without a user."""
    if endpoint.user is None:
        return ()
    return (base64.b64encode(f"{endpoint.user}:{endpoint.password or ''}".encode()).decode(),)


def _headers(endpoint: Endpoint) -> Mapping[str, str]:
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "gzip",
        "User-Agent": f"stepscope/{VERSION}",
    }
    if endpoint.token is not None:
        headers["Authorization"] = f"Bearer {endpoint.token}"
    for pair in _basic(endpoint):
        headers["Authorization"] = f"Basic {pair}"
    return headers


class _Error(msgspec.Struct):
    error: str = ""
    message: str = ""


def _words(body: bytes) -> str:
    """What an answer says of its own failure, of any shape of JSON."""
    try:
        said = msgspec.json.decode(body, type=_Error)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    return said.error or said.message
