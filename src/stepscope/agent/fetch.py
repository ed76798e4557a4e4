"""One page of one exporter over HTTP, within a bound of time and bytes. No proxy, no redirect."""

from __future__ import annotations

import base64
import contextlib
import http.client
import time
from urllib.parse import SplitResult, unquote, urlsplit

from stepscope.model.error import InputError, ServiceError, UsageError
from stepscope.model.redact import without_secrets
from stepscope.version import VERSION

MOST_BYTES = 64 << 20
_CHUNK = 1 << 16


class Refused(ServiceError):
    """Nothing listens there."""


class Page:
    """One URL, asked again and again over one connection."""

    def __init__(self, url: str, timeout_seconds: float) -> None:
        """UsageError where it is no URL of HTTP."""
        self.parts = _parts(url)
        self.shown = without_secrets(
            self.parts._replace(netloc=self.parts.netloc.rpartition("@")[2]).geturl()
        )[0]
        self._timeout_seconds = timeout_seconds
        self._connection: http.client.HTTPConnection | None = None
        self._headers = {"Accept": "text/plain;version=0.0.4", "User-Agent": f"stepscope/{VERSION}"}
        if self.parts.username:
            pair = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
            self._headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()

    @property
    def host(self) -> str:
        return self.parts.hostname or ""

    def get(self) -> str:
        """The body. Refused where nothing listens, ServiceError where it does not answer in time or fails,
        InputError where the answer is too large. The time is that of the whole answer, not of each byte."""
        deadline = time.monotonic() + self._timeout_seconds
        try:
            return self._ask(deadline)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
            self.close()  # a connection that was kept, and that the other side let go
            try:
                return self._ask(deadline)
            except (OSError, http.client.HTTPException) as error:
                raise self._failed(error) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._failed(error) from error

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _ask(self, deadline: float) -> str:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self.parts.scheme == "https" else http.client.HTTPConnection
            self._connection = kind(self.host, self.parts.port, timeout=_left(deadline))
        connection = self._connection
        if connection.sock is not None:
            connection.sock.settimeout(_left(deadline))
        path = (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")
        connection.request("GET", path, headers=self._headers)
        sock = connection.sock  # the answer takes it away where the other side will close
        sock.settimeout(_left(deadline))
        answer = connection.getresponse()
        body, num_bytes = [], 0
        while True:
            sock.settimeout(_left(deadline))
            piece = answer.read1(_CHUNK)
            if not piece:
                break
            body.append(piece)
            num_bytes += len(piece)
            if num_bytes > MOST_BYTES:
                self.close()
                raise InputError(
                    self.shown, f"more than {MOST_BYTES >> 20} MB", "name the exporter's own page"
                )
        answer.read()  # nothing is left, but only this frees the connection for the next question
        if answer.will_close:
            self.close()
        if answer.status != 200:
            raise ServiceError(
                self.shown, f"it answers {answer.status} {answer.reason}", _mend(answer.status)
            )
        return b"".join(body).decode("utf-8", "replace")

    def _failed(self, error: Exception) -> ServiceError:
        self.close()
        if isinstance(error, ConnectionRefusedError):
            return Refused(self.shown, "nothing listens there", "start the exporter, or leave it out")
        if isinstance(error, TimeoutError):
            said = f"no whole answer within {self._timeout_seconds:g} s"
            return ServiceError(self.shown, said, "it is asked again")
        return ServiceError(self.shown, f"{type(error).__name__}: {error}", "it is asked again")


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _mend(status: int) -> str:
    if status in (401, 403):
        return "give user and password in the URL"
    return "give the URL of its page, such as http://127.0.0.1:9400/metrics"


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good:
        shown = without_secrets(url)[0]
        raise UsageError(f"{shown}: no URL of an exporter; give one such as http://127.0.0.1:9400/metrics")
    return parts
