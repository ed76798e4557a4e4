"""English sentences in Simplified Chinese, by patterns: JSON keeps them as they were written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

Rows: TypeAlias = Iterable[tuple[str, str]]
"""Patterns of English clauses, and the Chinese with what they hold (`\\1`)."""

_STOP = {",": "，", ";": "；"}


def in_chinese(text: str, rows: Rows) -> str:
    """The text in Chinese, clause by clause; as it was written where a clause is in no row."""
    return _clauses(text, tuple(rows)) or text


def _clauses(text: str, rows: tuple[tuple[str, str], ...]) -> str | None:
    for pattern, chinese in rows:
        found = re.fullmatch(rf"(?:{pattern})(?:(?P<stop>[,;]) (?P<rest>.+))?", text, re.DOTALL)
        if found is None:
            continue
        if found["rest"] is None:
            return found.expand(chinese)
        rest = _clauses(found["rest"], rows)
        if rest is not None:
            return found.expand(chinese) + _STOP[found["stop"]] + rest
    return None
