"""The contract of a channel: one file in `catalog/`, its one agreed name `CHANNEL`."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Protocol

from stepscope.model.alarm import SEVERITIES, AlarmSeverity
from stepscope.model.notice import Notice
from stepscope.model.text import Lang


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One `[[channel]]` of the configuration, checked. `options` are those of its kind alone."""

    name: str
    kind: str
    lang: Lang = "en"
    least: AlarmSeverity = "warning"
    jobs: tuple[str, ...] = ("*",)
    levels: tuple[str, ...] = ("resource", "performance", "task")
    per_hour: int = 20
    shows_identities: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)

    def wants(self, notice: Notice) -> bool:
        """Whether this channel is told of it: severity, job and level."""
        is_bad = SEVERITIES.index(notice.severity) >= SEVERITIES.index(self.least)
        is_ours = any(fnmatchcase(notice.job or "", pattern) for pattern in self.jobs)
        is_of_level = not notice.levels or any(each in self.levels for each in notice.levels)
        return is_bad and is_ours and is_of_level


@dataclass(frozen=True, slots=True)
class Message:
    """What one channel sends: `body` in the channel's markup. `key` is the same for the same message, however
    often it is tried."""

    key: str
    notice: Notice
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Sent:
    """What came of it. `is_final`: trying again is of no use; `retry_after_s` as the service asked."""

    is_sent: bool
    why: str = ""
    is_final: bool = False
    retry_after_s: float | None = None


class Sender(Protocol):
    """One channel that is set up. `markup` is the name of a row of `views.markup`; `shown` says where it
    sends to, without secrets."""

    markup: str
    shown: str
    repeats_s: float | None
    """Again and again while an incident is open (Alertmanager forgets what is not repeated)."""

    def send(self, message: Message) -> Sent:
        """Send once, within a time; never raises for what a network or a service does."""
        ...

    def preview(self, message: Message) -> str:
        """What `send` would put on the wire, for people to read, without secrets."""
        ...


Secrets = Callable[[str], str | None]
"""An environment variable or a file's content by `env:NAME` or `file:PATH`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """One kind. `options` are the names that its `[[channel]]` may have besides the common ones; `make`
    raises UsageError where they make no sense, without showing a secret."""

    kind: str
    title: str
    options: frozenset[str]
    make: Callable[[Settings, Secrets], Sender]


@functools.cache
def channels() -> Mapping[str, Channel]:
    """Every channel of the catalogue by its kind. TypeError where a `CHANNEL` is none."""
    from stepscope.act.notify import catalog

    found = {}
    for each in pkgutil.iter_modules(catalog.__path__):
        module = importlib.import_module(f"{catalog.__name__}.{each.name}")
        channel = getattr(module, "CHANNEL", None)
        if not isinstance(channel, Channel):
            raise TypeError(f"{module.__name__}: CHANNEL is no Channel")
        found[channel.kind] = channel
    return found
