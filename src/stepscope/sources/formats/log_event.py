"""Lines that state an event: patterns are rows, and the first row that matches a line says what it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from stepscope.model.log import LogEvent
from stepscope.model.redact import without_secrets
from stepscope.sources.formats.log_line import Head
from stepscope.sources.formats.log_number import BYTES, finite

MAX_TEXT = 500
"""Characters of a line that an event keeps."""


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of line.

    `needles`: all must be in the line in lower case, before the pattern is tried. Groups of the pattern that
    are called `code`, `rank`, `pid`, `host`, `pci` or `step` become fields of the event; others become
    `numbers` by `scale`, or by the unit in the group `<name>_unit`.
    """

    kind: str
    what: str
    severity: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str] | None = None
    scale: Mapping[str, float] = field(default_factory=dict)
    tells_once: bool = False
    """Said again and again while the same thing goes on: the first of each run counts."""


def row(
    kind: str,
    what: str,
    severity: str,
    needles: str | tuple[str, ...],
    pattern: str | None = None,
    *,
    scale: Mapping[str, float] | None = None,
    tells_once: bool = False,
) -> Row:
    """A row; the pattern takes no notice of case."""
    return Row(
        kind,
        what,
        severity,
        (needles,) if isinstance(needles, str) else needles,
        re.compile(pattern, re.IGNORECASE) if pattern is not None else None,
        scale or {},
        tells_once,
    )


_FIELDS = ("code", "rank", "pid", "step", "host", "pci")


Prepared = tuple[tuple[str, Row], ...]
"""Rows behind their first needle: most lines hold none, and that is all that is looked at."""


def prepared(rows: tuple[Row, ...]) -> Prepared:
    """A table as `match` reads it."""
    return tuple((each.needles[0], each) for each in rows)


def match(rows: Prepared, text: str, lower: str) -> tuple[Row, Mapping[str, str]] | None:
    """The first row that a line matches, with the groups that took part."""
    for needle, each in rows:
        if needle in lower:
            if any(more not in lower for more in each.needles[1:]):
                continue
            if each.pattern is None:
                return each, {}
            found = each.pattern.search(text)
            if found is not None:
                return each, {name: value for name, value in found.groupdict().items() if value is not None}
    return None


def event(
    row: Row, groups: Mapping[str, str], text: str, line: int, at_ns: int | None, head: Head
) -> LogEvent:
    """The event of a line. Its text still holds what it held: `clean` takes secrets out."""
    numbers: dict[str, float] = {}
    if head.boot_seconds is not None:
        numbers["boot_seconds"] = head.boot_seconds
    for name, value in groups.items():
        if name in _FIELDS or name.endswith("_unit"):
            continue
        stated = finite(value)
        if stated is not None:
            factor = row.scale.get(name, 1.0)
            if f"{name}_unit" in groups:
                factor = BYTES.get(groups[f"{name}_unit"].lower(), 1.0)
            numbers[name] = stated * factor
    return LogEvent(
        kind=row.kind,
        what=row.what,
        text=text.strip(),
        at_ns=at_ns,
        line=line,
        severity=row.severity,
        code=_int(groups.get("code")),
        rank=_int(groups.get("rank")) if "rank" in groups else head.rank,
        host=groups.get("host", head.host),
        pci_bus_id=pci_bus_id(groups["pci"]) if "pci" in groups else None,
        pid=_int(groups.get("pid")) if "pid" in groups else head.pid,
        step=_int(groups.get("step")),
        numbers=numbers,
    )


def clean(text: str) -> tuple[str, int]:
    """A text as it may be kept: without secrets, of at most `MAX_TEXT` characters; and how many went."""
    kept, count = without_secrets(text.strip())
    return (kept if len(kept) <= MAX_TEXT else kept[: MAX_TEXT - 1] + "…"), count


_PCI = re.compile(
    r"(?:(?P<domain>[0-9a-f]{4,8}):)?(?P<bus>[0-9a-f]{2}):(?P<device>[0-9a-f]{2})(?:\.(?P<function>\d))?\Z"
)


def pci_bus_id(text: str) -> str | None:
    """`0000:3b:00.0` of what drivers print (`0000:3B:00`, `00000000:86:00.0`); `None` of anything else."""
    match = _PCI.match(text.strip().lower())
    if match is None:
        return None
    domain = (match["domain"] or "0000")[-8:].lstrip("0").rjust(4, "0")
    return f"{domain}:{match['bus']}:{match['device']}.{match['function'] or '0'}"


def _int(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return int(text.replace(",", ""))
    except ValueError:
        return None
