"""Times and windows as they are asked for: int64 nanoseconds, RFC 3339, or `now-1h`."""

from __future__ import annotations

import re
from datetime import datetime, timezone

from stepscope.model.error import UsageError
from stepscope.server.limit import Limits

PATTERN = (
    r"^(\d{1,19}|now(-\d{1,9}(ms|s|m|h|d|w))?|"
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|z|[+-]\d\d:\d\d))$"
)
FORM = "give nanoseconds since 1970, 2026-01-31T12:00:00Z, or now-1h"
_RELATIVE = re.compile(r"now(?:-(\d{1,9})(ms|s|m|h|d|w))?")
_STATED = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|z|[+-]\d\d:\d\d)")
_UNIT_NS = {
    "ms": 1_000_000, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9,
    "w": 7 * 86_400 * 10**9,
}  # fmt: skip
_LAST_NS = 1 << 62


def moment_ns(text: str, now_ns: int, name: str) -> int:
    """One time. UsageError where it is none; `name` is the question that it was given to."""
    found: int | None = None
    if text.isascii() and text.isdigit() and len(text) <= 19:
        found = int(text)
    elif relative := _RELATIVE.fullmatch(text):
        num, unit = relative.groups()
        found = now_ns - (int(num) * _UNIT_NS[unit] if num else 0)
    elif stated := _STATED.fullmatch(text):
        day, minute, second, fraction, zone = stated.groups()
        zone = "+00:00" if zone in "Zz" else zone
        try:
            moment = datetime.fromisoformat(f"{day}T{minute}:{second or '00'}{zone}")
            whole = int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds())
        except (ValueError, OverflowError):
            raise UsageError(f"{name} is no time; {FORM}") from None
        found = whole * 10**9 + int((fraction or "").ljust(9, "0"))
    if found is None or not 0 <= found < _LAST_NS:
        raise UsageError(f"{name} is no time; {FORM}")
    return found


def window_ns(
    start: str | None, end: str | None, now_ns: int, limits: Limits, *, default_ns: int
) -> tuple[int, int]:
    """[start, end): until now, and from `default_ns` before the end, where it is not told. UsageError where
    it is empty or too long."""
    end_ns = moment_ns(end, now_ns, "end") if end else now_ns
    start_ns = moment_ns(start, now_ns, "start") if start else max(end_ns - default_ns, 0)
    if start_ns >= end_ns:
        raise UsageError("the window ends before it starts; let start be before end")
    if end_ns - start_ns > limits.range_ns:
        days = limits.range_ns // _UNIT_NS["d"]
        raise UsageError(f"a window of more than {days} days; ask for a shorter one")
    return start_ns, end_ns
