"""Alertmanager, API v2: one alert an incident, repeated while it lasts, ended by its end.

Labels say who is concerned and stay the same over an incident's life, since they are its identity there;
what changes is in annotations.
"""

from __future__ import annotations

import datetime
from urllib.parse import urlsplit

import msgspec

from stepscope.act.notify.channel import Channel, Message, Secrets, Sender, Sent, Settings
from stepscope.act.notify.post import post
from stepscope.act.notify.secret import address_of, optional
from stepscope.model.notice import Notice

PATH = "/api/v2/alerts"
REPEATS_S = 60.0
"""Alertmanager's own `resolve_timeout` is five minutes by default."""
LASTS_S = 300
"""How long an alert holds without word from us."""
OVER = frozenset({"ended", "closed", "verified"})
MOST_ANNOTATION = 4_000


def alert_of(notice: Notice, body: str, now_ns: int) -> dict[str, object]:
    """The alert as its API takes it. `body` is the text without markup."""
    labels = {
        "alertname": notice.rule or "stepscope",
        "severity": notice.severity,
        "incident": notice.incident,
        "job_name": notice.job,
        "level": ",".join(sorted(notice.levels)),
        "source": "stepscope",
    }
    ends_ns = notice.ended_ns or now_ns if notice.state in OVER else now_ns + LASTS_S * 1_000_000_000
    annotations = {
        "summary": notice.title,
        "description": body[:MOST_ANNOTATION],
        "verdict": notice.verdict,
        "ranks": ",".join(map(str, notice.ranks)),
        "nodes": ",".join(notice.hosts),
        "devices": ",".join(notice.devices),
        "confidence": notice.confidence,
        "state": notice.state,
    }
    return {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": _rfc3339(notice.onset_ns),
        "endsAt": _rfc3339(max(ends_ns, notice.onset_ns)),  # else it is refused
        **({"generatorURL": notice.link} if notice.link else {}),
    }


class Alertmanager:
    """Sends to one Alertmanager; `now_ns` of each message is when it is sent."""

    markup = "text"
    repeats_s: float | None = REPEATS_S

    def __init__(self, url: str, token: str | None) -> None:
        self._url = url.rstrip("/") + ("" if url.rstrip("/").endswith(PATH) else PATH)
        self._token = token
        parts = urlsplit(url)
        self.shown = f"{parts.scheme}://{parts.hostname}:{parts.port or ''}".rstrip(":")

    def send(self, message: Message) -> Sent:
        """Post the alert."""
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        body = msgspec.json.encode([alert_of(message.notice, message.body, _now_ns())])
        return post(self._url, body, headers).sent()

    def preview(self, message: Message) -> str:
        """The alert, indented."""
        body = msgspec.json.encode([alert_of(message.notice, message.body, _now_ns())])
        return msgspec.json.format(body, indent=2).decode()


def _now_ns() -> int:
    import time

    return time.time_ns()


def _rfc3339(at_ns: int) -> str:
    at = datetime.datetime.fromtimestamp(at_ns // 1_000_000_000, tz=datetime.timezone.utc)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + f".{at_ns // 1_000_000 % 1000:03d}Z"


def _make(settings: Settings, secrets: Secrets) -> Sender:
    return Alertmanager(address_of(settings, secrets), optional(settings, "token", secrets))


CHANNEL = Channel(
    kind="alertmanager",
    title="Alertmanager (API v2)",
    options=frozenset({"url", "url_env", "url_file", "token_env", "token_file"}),
    make=_make,
)
