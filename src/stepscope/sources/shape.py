"""What shape a text has, by its first lines."""

from __future__ import annotations

import re

_SAMPLE = re.compile(
    r"[A-Za-z_:][A-Za-z0-9_:]*(\{.*\})?\s+[+-]?([0-9.]+([eE][+-]?\d+)?|[iI]nf|[nN]a[nN])(\s+-?[0-9.]+)?\s*(#.*)?"
)
_DECLARED = re.compile(r"# (HELP|TYPE|UNIT) [A-Za-z_:][A-Za-z0-9_:]*( |$)")
_ENOUGH = 20
"""Lines that are looked at."""


def is_exposition(text: str) -> bool:
    """Prometheus text: most of the first lines are comments of it or samples, and one is such."""
    lines = [line.strip("\r\t ") for line in text.split("\n")[:400] if line.strip()]
    if not text.endswith("\n") and len(lines) > 1:
        lines = lines[:-1]
    declared = sum(bool(_DECLARED.match(line)) for line in lines)
    samples = [line for line in lines if not line.startswith("#")][:_ENOUGH]
    good = sum(bool(_SAMPLE.fullmatch(line)) for line in samples)
    if any(line.startswith("# scraped_at_ns") for line in lines) and not samples:
        return True
    return (declared > 0 and 2 * good >= len(samples)) or (good > 0 and 2 * good >= len(samples))


def is_api_json(text: str) -> bool:
    """An answer of Prometheus' API: an object, or a list of them, with a status of its own words."""
    start = text.lstrip("\ufeff \t\r\n")[:4096]
    if not start.startswith(("{", "[")):
        return False
    return bool(re.match(r'\[?\s*\{[^{}]*"status"\s*:\s*"(success|error)"', start)) or bool(
        re.match(r'\[?\s*\{\s*"data"\s*:\s*\{\s*"result', start)
    )
