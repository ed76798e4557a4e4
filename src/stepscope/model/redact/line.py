"""Lines of a log: a secret may go over several of them, and each may come by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model.redact.environment import SECRET
from stepscope.model.redact.pattern import Pattern
from stepscope.model.redact.secret import without_secrets

MOST_KEY_LINES = 256
"""Of a private key: one of 16,384 bits has 200."""
MOST_CONTINUED = 8
_BEGIN = Pattern(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_END = Pattern(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
# Full lines of a key whose first line was lost: 64 characters of PEM and PGP, 70 of OpenSSH, 76 of MIME, none
# a path, a hash (those have no capitals) or a word.
_KEY_LINE = Pattern(
    r"(?:\S{1,64}[: ]\s{0,4}){0,6}(?=[A-Za-z0-9+/]*[a-z])(?=[A-Za-z0-9+/]*[A-Z])(?=[A-Za-z0-9+/]*[0-9])"
    r"(?:[A-Za-z0-9+/]{64}|[A-Za-z0-9+/]{70}|[A-Za-z0-9+/]{76})\s*"
)


@dataclass(slots=True)
class Open:
    """What of a log's lines so far goes on in the next: how many lines of a private key that has not ended,
    and the lines before that a backslash continues."""

    num_key_lines: int = 0
    continued: tuple[str, ...] = ()


def lines_without_secrets(lines: Sequence[str], state: Open) -> tuple[list[str], int]:
    """The lines without secrets, one for each, and how many were removed. `state` is of the same log, changed
    to what goes on behind them: lines that come by themselves are cleaned as if they came together."""
    clean: list[str] = []
    total = 0
    for line in lines:
        kept, count = _line(line, state)
        clean.append(kept)
        total += count
    return clean, total


def _line(line: str, state: Open) -> tuple[str, int]:
    if state.num_key_lines:
        end = _END.search(line)
        if end is None:
            state.num_key_lines = (state.num_key_lines + 1) % (MOST_KEY_LINES + 1)
            return SECRET, 1
        state.num_key_lines = 0
        return SECRET + without_secrets(line[end.end() :])[0], 1
    begin = _BEGIN.search(line)
    if begin is not None and _END.search(line, begin.end()) is None:
        state.num_key_lines, state.continued = 1, ()
        return without_secrets(line)
    if _KEY_LINE.fullmatch(line):
        return SECRET, 1
    before = state.continued
    state.continued = (*before, line)[-MOST_CONTINUED:] if line.rstrip("\r\n").endswith("\\") else ()
    if not before:
        return without_secrets(line)
    alone, count = without_secrets("\n".join(before))
    together, more = without_secrets("\n".join((*before, line)))
    if more == 0 or together == f"{alone}\n{line}":
        return line, 0
    is_apart = together.count("\n") == len(before)
    # A value that began in a line before swallowed the break: what is left of this line cannot be told.
    return (together.rpartition("\n")[2] if is_apart else SECRET), max(more - count, 1)
