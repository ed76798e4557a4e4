"""What tells where the ranks of a job that stands still are: stacks, dumps of collectives; who is accused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame: `file` without the folders above its package, `line` `None` where not known."""

    function: str
    file: str
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.function} ({self.file}{'' if self.line is None else f':{self.line}'})"


@dataclass(frozen=True, slots=True)
class Thread:
    """One thread: `frames` innermost first. `is_idle` as the reader of stacks says, `None` where it does
    not."""

    name: str
    frames: tuple[Frame, ...]
    is_idle: bool | None = None


@dataclass(frozen=True, slots=True)
class Stack:
    """The threads of one process at one moment, the main one first. `None` where it is not known whose or
    when it is."""

    threads: tuple[Thread, ...]
    rank: int | None = None
    pid: int | None = None
    host: str | None = None
    at_ns: int | None = None

    @property
    def main(self) -> Thread | None:
        return self.threads[0] if self.threads else None


CallState = Literal["scheduled", "started", "completed", "timed_out"]


@dataclass(frozen=True, slots=True)
class Call:
    """One collective that a rank recorded. `sequence` counts the collectives of its group; `op` is without
    the library's name. Sizes and types are `None` where the dump does not tell."""

    group: str
    sequence: int
    op: str
    state: CallState
    created_ns: int | None = None
    input_sizes: tuple[tuple[int, ...], ...] | None = None
    output_sizes: tuple[tuple[int, ...], ...] | None = None
    input_types: tuple[str, ...] | None = None
    is_p2p: bool = False
    frames: tuple[Frame, ...] = ()

    @property
    def is_done(self) -> bool:
        return self.state == "completed"


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: `ranks` as the dump names them, empty where it does not."""

    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()

    def __str__(self) -> str:
        told = self.description if self.description not in ("", "undefined") else ""
        return f"{self.name} ({told})" if told else self.name


@dataclass(frozen=True, slots=True)
class Flight:
    """One rank's dump of PyTorch's flight recorder. `calls` in the order of recording: the recorder keeps the
    last few thousand. `enqueued` and `completed` are the last sequence of each group as the dump's own status
    says, also where its calls are gone."""

    rank: int | None
    version: str
    calls: tuple[Call, ...]
    groups: Mapping[str, Group]
    enqueued: Mapping[str, int]
    completed: Mapping[str, int]
    name: str = ""
    num_odd: int = 0
    """Entries that do not fit, left out."""

    def last(self, group: str) -> int | None:
        """The last collective of a group that this rank entered; `None`: none that is known."""
        known = [call.sequence for call in self.calls if call.group == group and not call.is_p2p]
        status = self.enqueued.get(group)
        return max([*known, *([status] if status is not None and status >= 0 else [])], default=None)


Needs = Literal["stacks", "flights", "all-flights", "none"]
Witness = Literal["gone", "flight", "stacks", "marks", "watchdog"]
WITNESSES: tuple[Witness, ...] = ("gone", "flight", "stacks", "marks", "watchdog")
"""By trust: a process that is gone is a fact; a recorder states who entered what; stacks show one moment;
marks are as fine as phases; a watchdog says who waited."""
STRONG: frozenset[Witness] = frozenset({"gone", "flight", "stacks"})


@dataclass(frozen=True, slots=True)
class Accused:
    """What one witness says: that the others wait for `ranks`, and where these are. Empty ranks: it saw
    nothing that tells."""

    by: Witness
    ranks: tuple[int, ...]
    en: str
    zh: str
    is_mismatch: bool = False
    """They are in the collective, but call another one than the others."""


@dataclass(frozen=True, slots=True)
class Stuck:
    """Who holds a job up. `ranks` is empty where nobody can be named: `needs` is then what would settle it.
    `disagrees` are witnesses that accuse others than `ranks`; `absent` and `mismatched` as the recorder
    says."""

    ranks: tuple[int, ...] = ()
    accused: tuple[Accused, ...] = ()
    disagrees: tuple[Accused, ...] = ()
    absent: tuple[int, ...] = ()
    mismatched: tuple[int, ...] = ()
    has_flights: bool = False
    has_stacks: bool = False
    needs: Needs = "none"


NOT_STUCK = Stuck()
