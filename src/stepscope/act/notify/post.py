"""Posts bytes to one address within a time: no redirect is followed, no credentials stand in the address."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from stepscope.act.notify.channel import Sent
from stepscope.model.error import UsageError
from stepscope.version import VERSION

MOST_ANSWER_BYTES = 1 << 16
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Statuses after which it is tried again; another 4xx would come again."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back; `status` is `None` where nothing did, and `why` says it."""

    status: int | None
    body: bytes = b""
    retry_after_s: float | None = None
    why: str = ""

    def sent(self) -> Sent:
        """As a channel tells it."""
        if self.status is None:
            return Sent(False, self.why)
        if 200 <= self.status < 300:
            return Sent(True)
        is_final = 300 <= self.status < 500 and self.status not in AGAIN
        return Sent(False, f"it answers {self.status}", is_final, self.retry_after_s)


def post(url: str, body: bytes, headers: Mapping[str, str], *, timeout_s: float = 15.0) -> Answered:
    """Post once. UsageError for what is no address; the line shows no more of it than its host."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise UsageError("a channel's address is none; give https://HOST[:PORT]/PATH") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError("a channel's address is none; give https://HOST[:PORT]/PATH")
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_s, context=ssl.create_default_context())
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=timeout_s)
    )
    # The socket's time-out begins anew with every byte: this one does not.
    watch = threading.Timer(timeout_s, connection.close)
    watch.daemon = True
    watch.start()
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        connection.request("POST", path, body, {"User-Agent": f"stepscope/{VERSION}", **headers})
        answer = connection.getresponse()
        text = answer.read(MOST_ANSWER_BYTES)
        return Answered(answer.status, text, _seconds(answer.getheader("Retry-After")))
    except TimeoutError:
        return Answered(None, why="no answer in time")
    # ValueError, AttributeError: of ssl and http.client, when the timer closes what they read.
    except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return Answered(None, why=str(why).lower())
    finally:
        watch.cancel()
        connection.close()


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return min(seconds, 3600.0) if 0 <= seconds < 1e9 else None
