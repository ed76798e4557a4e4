"""One message to one address, and what its answer means for a channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from stepscope.act.notify.channel import Sent
from stepscope.act.post import Poster
from stepscope.model.error import UsageError

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
    """Post once. UsageError for what is no address; the line shows no more of it than its host. Other than an
    agent's, an address may hold a question: robots have their token there."""
    try:
        parts = urlsplit(url)
        poster = Poster(f"{parts.scheme}://{parts.netloc}", timeout_s=timeout_s)
    except (ValueError, UsageError):
        raise UsageError("a channel's address is none; give https://HOST[:PORT]/PATH") from None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        answer = poster.ask("POST", target, body, headers)
    except TimeoutError:
        return Answered(None, why="no answer in time")
    except OSError as error:
        return Answered(None, why=str(error.strerror or error or type(error).__name__).lower())
    finally:
        poster.cut()
    return Answered(answer.status, answer.body, _seconds(answer.retry_after))


def _seconds(text: str | None) -> float | None:
    try:
        seconds = float(text or "")
    except ValueError:
        return None
    return min(seconds, 3600.0) if 0 <= seconds < 1e9 else None
