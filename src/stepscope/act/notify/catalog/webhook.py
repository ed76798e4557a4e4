"""A signed webhook: the notice as JSON, with a signature that the receiver can check.

`X-Stepscope-Signature: v1=HEX` is HMAC-SHA256 under the shared secret over the timestamp's digits, a dot, and
the body's bytes; `X-Stepscope-Timestamp` is in seconds. A receiver refuses what is older than five minutes,
and keeps the `X-Stepscope-Delivery` of these minutes to refuse what comes twice.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import msgspec

from stepscope.act.notify.channel import Channel, Message, Secrets, Sender, Sent, Settings
from stepscope.act.notify.post import post
from stepscope.act.notify.secret import address_of, required


def signature(secret: bytes, timestamp: int, body: bytes) -> str:
    """The value of `X-Stepscope-Signature`."""
    signed = str(timestamp).encode() + b"." + body
    return "v1=" + hmac.new(secret, signed, hashlib.sha256).hexdigest()


class Webhook:
    """Sends to one address. `now_s` is seconds since the Unix epoch."""

    markup = "text"
    repeats_s: float | None = None

    def __init__(self, url: str, secret: str, now_s: Callable[[], float] = time.time) -> None:
        self._url, self._secret, self._now_s = url, secret.encode(), now_s
        parts = urlsplit(url)
        self.shown = f"{parts.scheme}://{parts.hostname}"

    def send(self, message: Message) -> Sent:
        """Post the notice."""
        body = msgspec.json.encode(message.notice)
        at = int(self._now_s())
        headers = {
            "Content-Type": "application/json",
            "X-Stepscope-Timestamp": str(at),
            "X-Stepscope-Delivery": message.key,
            "X-Stepscope-Signature": signature(self._secret, at, body),
        }
        return post(self._url, body, headers).sent()

    def preview(self, message: Message) -> str:
        """The body, indented."""
        return msgspec.json.format(msgspec.json.encode(message.notice), indent=2).decode()


def _make(settings: Settings, secrets: Secrets) -> Sender:
    return Webhook(address_of(settings, secrets), required(settings, "secret", secrets))


CHANNEL = Channel(
    kind="webhook",
    title="Signed webhook",
    options=frozenset({"url", "url_env", "url_file", "secret_env", "secret_file"}),
    make=_make,
)
