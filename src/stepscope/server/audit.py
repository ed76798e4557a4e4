"""The audit log: who did what, from where, and what came of it. Never a token, never a body."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import msgspec

from stepscope.model.redact import without_secrets
from stepscope.store.contract import Store

MOST_REFUSED = 60
"""Refusals that are written down in a minute: somebody who tries tokens shall not fill the disk."""
_MINUTE_NS = 60_000_000_000


class Audited(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One line of the audit log. `who` is a token's name, absent where nobody was let in; `outcome` is
    `done`, `refused` or `failed`, `status` the answer's."""

    id: str
    at_ns: int
    who: str | None = None
    role: str | None = None
    address: str | None = None
    what: str
    """Method and path, as the list of paths writes it: `POST /api/v1/silences`."""
    target: str | None = None
    """Which one: an id of the path."""
    outcome: str
    status: int
    num_left_out: int = 0
    """Refusals before this one that were too many to write down."""


class Audit:
    """Writes the log. From any thread."""

    def __init__(self, store: Store, clock_ns: Callable[[], int]) -> None:
        self._store, self._clock_ns = store, clock_ns
        self._number = itertools.count()
        self._lock = threading.Lock()
        self._minute = (0, 0)
        self._left_out = 0

    def write(
        self,
        *,
        who: str | None,
        role: str | None,
        address: str | None,
        what: str,
        target: str | None,
        status: int,
    ) -> None:
        """One line; a refusal only where there were not too many in this minute."""
        at_ns = self._clock_ns()
        is_refused = status in (401, 403, 429)
        left_out = 0
        if is_refused:
            with self._lock:
                minute, num = self._minute
                if minute != at_ns // _MINUTE_NS:
                    minute, num = at_ns // _MINUTE_NS, 0
                self._minute = (minute, num + 1)
                if num >= MOST_REFUSED:
                    self._left_out += 1
                    return
                left_out, self._left_out = self._left_out, 0
        line = Audited(
            id=f"{at_ns}-{next(self._number)}",
            at_ns=at_ns,
            who=who,
            role=role,
            address=address,
            what=what,
            target=without_secrets(target)[0] if target else None,
            outcome="refused" if is_refused else "done" if status < 400 else "failed",
            status=status,
            num_left_out=left_out,
        )
        self._store.put("audit", line.id, msgspec.json.encode(line), at_ns=at_ns)
