"""Times as files and their names write them, in nanoseconds since the epoch."""

from __future__ import annotations

import calendar
import re

GRID_NS = 1_000_000_000
"""Rows without any time stand this far apart, from 0."""
EPOCH_NS = 4_102_444_800_000_000_000
"""2100: later is no time of a measurement."""
_FIRST_NS = 946_684_800_000_000_000
"""2000: earlier is none either."""
_DIGITS = re.compile(r"(?<![\d.])(\d{10}|\d{13}|\d{16}|\d{19})(?![\d])")
_WRITTEN = re.compile(
    r"(?<!\d)(20\d\d)[-_/.]?([01]\d)[-_/.]?([0-3]\d)[T_ -]?([0-2]\d)[-_:.h]?([0-5]\d)[-_:.m]?([0-5]\d)"
    r"(?:[.,](\d{1,9}))?(?!\d)"
)
_STAMP = re.compile(
    r"\s*(\d{4})[/-](\d\d)[/-](\d\d)[ T](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?\s*"
)
_DAY = re.compile(r"(\d{4})(\d\d)(\d\d)")
_CLOCK = re.compile(r"(\d\d):(\d\d):(\d\d)")


def is_plausible(at_ns: float) -> bool:
    """Whether it lies between 2000 and 2100."""
    return _FIRST_NS <= at_ns < EPOCH_NS


def time_in_name(name: str) -> int | None:
    """The time that a file's name states: an epoch of 10, 13, 16 or 19 digits, or a date with a time (UTC).

    `None` where it states none, or two that differ.
    """
    base = name.replace("\\", "/").rpartition("/")[2]
    found = {
        int(digits) * 10 ** (19 - len(digits))
        for digits in _DIGITS.findall(base)
        if is_plausible(int(digits) * 10 ** (19 - len(digits)))
    }
    found |= {at for match in _WRITTEN.finditer(base) if (at := _at_ns(match.groups())) is not None}
    return found.pop() if len(found) == 1 else None


def stamp_ns(text: str) -> tuple[int, bool] | None:
    """(nanoseconds, whether the zone is stated) of `2026/07/14 09:00:44.742` and ISO 8601; without a zone
    it is read as UTC. Also an epoch in seconds. `None` where it is no time."""
    match = _STAMP.fullmatch(text)
    if match:
        at_ns = _at_ns(match.groups()[:7])
        if at_ns is None:
            return None
        zone = match[8]
        if zone and zone != "Z":
            minutes = int(zone[1:3]) * 60 + int(zone[-2:])
            at_ns -= (minutes if zone[0] == "+" else -minutes) * 60 * 10**9
        return at_ns, bool(zone)
    text = text.strip()
    if re.fullmatch(r"\d{9,10}(\.\d{1,9})?", text):
        whole, _, part = text.partition(".")
        return int(whole) * 10**9 + int(part.ljust(9, "0") or 0), True
    if re.fullmatch(r"\d{13}|\d{16}|\d{19}", text):
        at_ns = int(text) * 10 ** (19 - len(text))
        return (at_ns, True) if is_plausible(at_ns) else None
    return None


def day_ns(text: str) -> int | None:
    """Midnight (UTC) of `20260714`."""
    match = _DAY.fullmatch(text)
    return _at_ns((*match.groups(), "00", "00", "00", None)) if match else None


def clock_ns(text: str) -> int | None:
    """Nanoseconds since midnight of `09:00:44`."""
    match = _CLOCK.fullmatch(text)
    if not match:
        return None
    hours, minutes, seconds = (int(each) for each in match.groups())
    return (hours * 3600 + minutes * 60 + seconds) * 10**9 if hours < 24 and minutes < 60 else None


def _at_ns(parts: tuple[str | None, ...]) -> int | None:
    year, month, day, hour, minute, second = (int(each or 0) for each in parts[:6])
    if not (1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1] if year else False):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    at_ns = calendar.timegm((year, month, day, hour, minute, second, 0, 0, 0)) * 10**9
    at_ns += int((parts[6] or "0").ljust(9, "0"))
    return at_ns if is_plausible(at_ns) else None
