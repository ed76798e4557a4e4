"""The configuration of channels, from TOML that was read already. Unknown keys are errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from stepscope.act.notify.channel import Secrets, Sender, Settings, channels
from stepscope.model.alarm import SEVERITIES, AlertLevel
from stepscope.model.error import UsageError
from stepscope.model.text import LANGS

LEVELS: tuple[str, ...] = get_args(AlertLevel)
_COMMON = frozenset({"name", "kind", "lang", "from", "jobs", "levels", "per_hour", "identities"})


def settings_of(told: Mapping[str, Any]) -> tuple[Settings, ...]:
    """Every `[[channel]]`. UsageError names the channel, what is wrong and what is right."""
    unknown = sorted(set(told) - {"channel"})
    if unknown:
        raise UsageError(f"channels: unknown {unknown[0]!r}; give [[channel]] tables")
    rows = told.get("channel", [])
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise UsageError("channels: channel is no list of tables; write [[channel]]")
    found = tuple(_settings(row, n) for n, row in enumerate(rows, 1))
    names = [each.name for each in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"channels: two are named {twice!r}; give each a name of its own")
    return found


def _settings(row: Mapping[str, Any], number: int) -> Settings:
    kind = row.get("kind")
    name = row.get("name", f"{kind}-{number}")
    if kind not in channels():
        raise UsageError(f"channel {name}: kind {kind!r} is none of {', '.join(channels())}")
    options = channels()[str(kind)].options
    unknown = sorted(set(row) - _COMMON - options)
    if unknown:
        known = ", ".join(sorted(_COMMON | options))
        raise UsageError(f"channel {name}: unknown {unknown[0]!r}; known are {known}")
    jobs, levels = row.get("jobs", "*"), row.get("levels", list(LEVELS))
    _check(name, "name", isinstance(name, str) and bool(name), "a text")
    _check(name, "lang", row.get("lang", "en") in LANGS, "en or zh")
    _check(name, "from", row.get("from", "warning") in SEVERITIES, "info, warning or critical")
    _check(name, "jobs", _is_texts(jobs), "a pattern or a list of patterns")
    _check(
        name, "levels", _is_texts(levels) and not set(_texts(levels)) - set(LEVELS), "of " + ", ".join(LEVELS)
    )
    per_hour = row.get("per_hour", 20)
    _check(name, "per_hour", type(per_hour) is int and 1 <= per_hour <= 3600, "1 to 3600")
    _check(name, "identities", isinstance(row.get("identities", False), bool), "true or false")
    return Settings(
        name=name,
        kind=str(kind),
        lang=row.get("lang", "en"),
        least=row.get("from", "warning"),
        jobs=_texts(jobs),
        levels=_texts(levels),
        per_hour=per_hour,
        shows_identities=row.get("identities", False),
        options={key: row[key] for key in options if key in row},
    )


def _check(name: object, key: str, is_right: bool, right: str) -> None:
    if not is_right:
        raise UsageError(f"channel {name}: {key} is wrong; give {right}")


def _is_texts(value: object) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
    )


def _texts(value: Any) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def sender_of(settings: Settings, secrets: Secrets) -> Sender:
    """The channel, set up. UsageError as its kind says."""
    return channels()[settings.kind].make(settings, secrets)
