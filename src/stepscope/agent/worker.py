"""One source of the loop: how it does, and when it is asked next."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from stepscope.agent.source import Kind, Reading, Source

MOST_PAUSE_NS = 60_000_000_000
"""The longest pause before a source that failed, or is not here, is asked again."""


@dataclass(slots=True)
class Worker:
    """One source and how it does. `began_ns` is when the look that is under way began."""

    source: Source
    kind: Kind
    due_ns: int
    num_failures: int = 0
    """In a row."""
    is_absent: bool = False
    is_told: bool = False
    """Whether its fault was told."""
    is_hung: bool = False
    began_ns: int | None = None
    last_ns: int = 0
    """When the last look began."""
    hurry_ns: int | None = None
    """The period up to `hurried_ns`, where somebody waits for what it gives."""
    hurried_ns: int = 0
    wake: threading.Event = field(default_factory=threading.Event)

    def period_ns(self, usual_ns: int, now_ns: int) -> int:
        """How long from one look to the next."""
        if self.hurry_ns is None or now_ns >= self.hurried_ns:
            return usual_ns
        return min(usual_ns, self.hurry_ns)


@dataclass(frozen=True, slots=True)
class Said:
    """What one look gave, or how it failed."""

    worker: Worker
    readings: Sequence[Reading]
    began_ns: int
    took_ns: int
    failure: str | None = None
    is_absent: bool = False


def next_due_ns(due_ns: int, now_ns: int, period_ns: int) -> tuple[int, int]:
    """(when to look next, looks left out): on the grid of the source's own beginning, so that what lasts long
    moves nothing else."""
    num = max((now_ns - due_ns) // period_ns, 0)
    return due_ns + (num + 1) * period_ns, num


def pause_ns(period_ns: int, num_failures: int) -> int:
    """How long to leave a source alone that failed so often in a row."""
    return int(min(max(period_ns, 1_000_000_000) << min(num_failures - 1, 16), MOST_PAUSE_NS))
