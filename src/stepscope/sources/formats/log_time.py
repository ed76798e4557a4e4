"""Times as logs write them, to nanoseconds since the epoch. The forms are a table.

What has no zone is taken for UTC, and said. What has no year takes the one that lies nearest to a time with
a year before it, else the last one that is not after the file was written. `05/01/2024` is month first, as
the examples of Hugging Face configure it; where that cannot be it is no time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache

NS = 1_000_000_000
_DAY_NS = 86_400 * NS
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_MONTH = r"(?P<name>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d)(?:[.,](?P<fraction>\d{1,9}))?"
_ZONE = r"(?:\s?(?P<zone>Z|UTC|GMT|[+-]\d\d:?\d\d)(?![\w:.]))?"
_WEEKDAY = r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"

FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(rf"[\[(]?{pattern}"))
    for name, pattern in (
        # 2024-05-01T12:00:00.123456+00:00, 2024-05-01 12:00:00,123, 2024/05/01 12:00:00; Ascend joins by `-`
        ("iso", rf"(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T \-]{_CLOCK}{_ZONE}"),
        # dmesg -T: Sun Feb 23 16:24:18 2025
        ("ctime", rf"{_WEEKDAY}{_MONTH} {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK} (?P<year>\d{{4}})\b"),
        # fabric manager: Feb 25 2025 13:59:45
        ("year-third", rf"{_WEEKDAY}{_MONTH} {{1,2}}(?P<day>\d{{1,2}}) (?P<year>\d{{4}}) {_CLOCK}"),
        # syslog: Feb 23 16:24:18
        ("syslog", rf"{_WEEKDAY}{_MONTH} {{1,2}}(?P<day>\d{{1,2}}) {_CLOCK}"),
        # glog, as c10d prints it: E1218 20:27:21.426415540
        ("glog", rf"[IWEF](?P<month>\d\d)(?P<day>\d\d) {_CLOCK}"),
        # 05/01/2024 12:00:00, [05/01/24 12:00:00]
        ("month-first", rf"(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}|\d\d),? {_CLOCK}"),
        # vLLM: 05-01 12:00:00
        ("no-year", rf"(?P<month>\d\d)-(?P<day>\d\d) {_CLOCK}"),
        ("epoch", r"(?P<epoch>1\d{9}(?:\d{3}|\d{6}|\d{9})?)(?:\.(?P<fraction>\d{1,9}))?(?=[\s\]),:;|]|\Z)"),
    )
)
_EPOCH_NS = {10: NS, 13: 1_000_000, 16: 1_000, 19: 1}


@dataclass(frozen=True, slots=True)
class At:
    """A time: `end` is where its text ends, `has_zone` whether it names a zone."""

    at_ns: int
    end: int
    has_zone: bool
    form: str


class Clock:
    """Reads times of one file, in its order. `latest_ns` is when the file was written, `None` if unknown."""

    def __init__(self, latest_ns: int | None = None) -> None:
        self.latest_ns = latest_ns
        self.last_ns: int | None = None
        """The last time that had a year."""
        self.num_without_year = 0

    def at(self, text: str, start: int = 0) -> At | None:
        """The time that begins at a place of a text, `None` where none does."""
        for form, pattern in FORMS:
            match = pattern.match(text, start)
            if match is not None:
                found = self._read(form, match)
                if found is not None:
                    return found
        return None

    def whole(self, text: str) -> int | None:
        """Nanoseconds of a text that is a time and nothing else; a bare number counts as epoch time."""
        text = text.strip().strip("[]()").strip()
        found = self.at(text)
        return found.at_ns if found is not None and not text[found.end :].strip(" ])") else None

    def _read(self, form: str, match: re.Match[str]) -> At | None:
        group = match.groupdict()
        end = match.end()
        if match[0][0] in "[(" and match.string[end : end + 1] in ("]", ")"):
            end += 1
        fraction = int((group.get("fraction") or "0").ljust(9, "0"))
        if form == "epoch":
            unit = _EPOCH_NS[len(group["epoch"])]
            return At(int(group["epoch"]) * unit + (fraction if unit == NS else 0), end, True, form)
        month = _MONTHS.index(group["name"]) + 1 if "name" in group else int(group["month"])
        day, clock, zone = int(group["day"]), group["clock"], group.get("zone")
        if "year" in group:
            year = int(group["year"])
            second = _second(year + 2000 if year < 100 else year, month, day, clock, zone)
        else:
            second = self._without_year(month, day, clock)
        if second is None:
            return None
        at_ns = second * NS + fraction
        if "year" in group:
            self.last_ns = at_ns
        return At(at_ns, end, zone is not None, form)

    def _without_year(self, month: int, day: int, clock: str) -> int | None:
        base_ns = self.last_ns if self.last_ns is not None else self.latest_ns
        if base_ns is None:
            return None
        year = datetime.fromtimestamp(base_ns // NS, timezone.utc).year
        near = [
            second
            for each in (year - 1, year, year + 1)
            if (second := _second(each, month, day, clock, None)) is not None
        ]
        if self.last_ns is None:
            near = [second for second in near if second * NS <= base_ns + _DAY_NS]
        if not near:
            return None
        self.num_without_year += 1
        return min(near, key=lambda second: abs(second * NS - base_ns))


_DATED = re.compile(rb"(?<!\d)(20\d\d)[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)")


def first_dated_ns(data: bytes) -> int | None:
    """The first time with a year in a file's bytes, from which times without one take theirs."""
    match = _DATED.search(data)
    if match is None:
        return None
    year, month, day, clock = (each.decode("ascii") for each in match.groups())
    second = _second(int(year), int(month), int(day), clock, None)
    return second * NS if second is not None else None


@lru_cache(maxsize=4096)
def _second(year: int, month: int, day: int, clock: str, zone: str | None) -> int | None:
    """Seconds since the epoch, `None` where there is no such date."""
    offset = timedelta(0)
    if zone is not None and zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:])) * (-1 if zone[0] == "-" else 1)
        if abs(offset) >= timedelta(hours=24):
            return None
    hour, minute, second = map(int, clock.split(":"))
    if not 1970 <= year <= 2200:
        return None
    try:
        at = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone(offset))
    except ValueError:
        return None
    return int(at.timestamp()) + (second == 60)
