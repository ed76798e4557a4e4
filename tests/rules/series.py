"""The one-line series notation of worked runs: `0.95x5 _x12 0.95x3`; `_` is missing."""

from __future__ import annotations

import re

_ITEM = re.compile(r"(?P<value>_|-?\d+(?:\.\d+)?(?:e-?\d+)?|[a-z]+)(?:x(?P<times>[1-9]\d*))?")


def series(notation: str) -> list[float | None]:
    """The values of a series, `None` where missing."""
    return [None if value == "_" else float(value) for value in _items(notation)]


def outcomes(notation: str) -> list[str]:
    """Words in the same notation: `clear x3` is written `clearx3`, or `clear` for one."""
    return _items(notation)


def _items(notation: str) -> list[str]:
    items: list[str] = []
    for part in notation.split():
        match = _ITEM.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} in {notation!r}: a value, or a value x a count, is wanted")
        items += [match["value"]] * int(match["times"] or 1)
    return items
