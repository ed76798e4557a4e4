"""Silences: what is not told for a while, and why. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

import msgspec

from stepscope.model.error import UsageError
from stepscope.model.notice import Notice

FIELDS = ("job", "run", "rule", "severity", "level", "rank", "device", "node", "incident")
MOST_MATCHERS, MOST_PATTERN = 16, 200


class Matcher(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`field` has this value, or fits this pattern (`*`, `?`, `[…]`: bounded work, unlike an expression)."""

    field: str
    value: str
    is_pattern: bool = False


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """Nothing that all matchers fit is told from `start_ns` to `end_ns`; it is kept and shown."""

    id: str
    matchers: tuple[Matcher, ...]
    start_ns: int
    end_ns: int
    by: str
    why: str


def checked(silence: Silence) -> Silence:
    """The silence. UsageError where it can match nothing, or would match all."""
    if not 1 <= len(silence.matchers) <= MOST_MATCHERS:
        raise UsageError(f"silence: {len(silence.matchers)} matchers; give 1 to {MOST_MATCHERS}")
    for each in silence.matchers:
        if each.field not in FIELDS:
            raise UsageError(f"silence: no field {each.field!r}; give one of {', '.join(FIELDS)}")
        if not 0 < len(each.value) <= MOST_PATTERN or each.value.count("*") > 8:
            raise UsageError(f"silence: the value of {each.field} is empty or too long; shorten it")
    if silence.end_ns <= silence.start_ns:
        raise UsageError("silence: it ends before it begins; give a later end")
    if not silence.why.strip():
        raise UsageError("silence: no reason; say why, for whoever wonders later")
    return silence


def silenced_by(notice: Notice, silences: Iterable[Silence], now_ns: int) -> str | None:
    """The id of a silence that covers it now, `None` where none does."""
    for silence in silences:
        if silence.start_ns <= now_ns < silence.end_ns and all(
            _fits(notice, each) for each in silence.matchers
        ):
            return silence.id
    return None


def _fits(notice: Notice, matcher: Matcher) -> bool:
    values = _values(notice, matcher.field)
    if matcher.is_pattern:
        return any(fnmatchcase(value, matcher.value) for value in values)
    return matcher.value in values


def _values(notice: Notice, field: Literal["job"] | str) -> tuple[str, ...]:
    many = {
        "rank": tuple(map(str, notice.ranks)),
        "device": notice.devices,
        "node": notice.hosts,
        "level": notice.levels,
    }
    if field in many:
        return many[field]
    value = getattr(notice, field)
    return () if value is None else (value,)
