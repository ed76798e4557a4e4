"""Lines of texts that grow while they are read: the last may be cut, and so may its last number."""

from __future__ import annotations

import re

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def without_cut_line(text: str) -> tuple[str, bool]:
    """The text up to its last line feed, and whether samples were left out with the rest.

    Prometheus' format demands a line feed at the end; a row that a killed process left without one may hold
    a number of which digits are missing, and nothing tells.
    """
    end = text.rfind("\n") + 1
    rest = text[end:].strip()
    return (text, False) if not rest or rest.startswith("#") else (text[:end], True)


def plain_lines(text: str) -> list[str]:
    """Lines without colour codes and carriage returns."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff").split("\n")
