"""A pasted environment goes whole: nobody can list the names under which people keep secrets."""

from __future__ import annotations

import re

from stepscope.model.redact.pattern import Pattern

SECRET = "[secret-removed]"
ENVIRONMENT = "[environment-removed]"

ENVIRONMENT_NAME = Pattern(r"^(?:os[._]?)?env(?:iron(?:ment)?)?(?:[_-]?var(?:iable)?s)?$", re.IGNORECASE)
_ASSIGNED = Pattern(r"[A-Za-z_][A-Za-z0-9_]*=")
_PIECE = Pattern(r"[^\s,;\x00]+")
# A pasted `env` has at least so many NAME=value, with at most so many other words between two of them.
_LEAST_ASSIGNED, _MOST_BETWEEN = 5, 12
_ENVIRONMENT_SIGN = Pattern(r"(?<![A-Za-z0-9_])(?:PATH|HOME|PWD|USER|SHELL|HOSTNAME|LD_LIBRARY_PATH)=")


def without_environment(text: str) -> tuple[str, int]:
    """The text without pasted environments; one that held no marked secret counts as one."""
    runs: list[tuple[int, int]] = []
    first = last = num_assigned = num_between = 0
    for piece in _PIECE.finditer(text):
        if _ASSIGNED.match(piece[0]):
            if num_assigned == 0:
                first = piece.start()
            num_assigned, num_between, last = num_assigned + 1, 0, piece.end()
        elif num_assigned:
            num_between += 1
            if num_between > _MOST_BETWEEN:
                runs += [(first, last)] if num_assigned >= _LEAST_ASSIGNED else []
                num_assigned = 0
    runs += [(first, last)] if num_assigned >= _LEAST_ASSIGNED else []
    count = 0
    for begin, end in reversed(runs):
        dump = text[begin:end]
        if _ENVIRONMENT_SIGN.search(dump):
            count += 0 if SECRET in dump else 1
            text = text[:begin] + ENVIRONMENT + text[end:]
    return text, count
