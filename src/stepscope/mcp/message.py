"""The id of a line that is no sound message, so that its sender can be answered."""

from __future__ import annotations

import json
import re

# A string, or what opens, closes or parts values.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s"\[\]{}:,]+')


def id_of(line: str) -> int | str | None:
    """What stands under `id` in the outermost object: a whole number or a string that UTF-8 can carry.

    `None` where nothing of the kind does. Works on what no parser takes: depth is counted, not nested.
    """
    depth, is_key, key = 0, False, None
    for match in _TOKEN.finditer(line):
        token = match[0]
        if depth == 1 and key == "id" and token != ":":
            return _value(token)
        if token in "[{":
            depth += 1
            is_key, key = depth == 1 and token == "{", None
        elif token in "]}":
            depth -= 1
        elif token == "," and depth == 1:
            is_key, key = True, None
        elif token == ":" and depth == 1:
            is_key = False
        elif is_key and depth == 1:
            key, is_key = token.strip('"'), False
    return None


def _value(token: str) -> int | str | None:
    try:
        value = json.loads(token)
        if isinstance(value, str):
            value.encode()
    except ValueError:
        return None
    return value if isinstance(value, (int, str)) and not isinstance(value, bool) else None
