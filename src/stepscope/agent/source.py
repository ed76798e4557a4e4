"""The contract of the agent's catalogue: one file a source, its one agreed name `SOURCE`.

A source is read again and again, each time in its own thread and by its own period, and says what it found.
It raises `NotHere` where the machine has no such thing, and any `StepscopeError` or `OSError` where it should
have answered and did not: the loop backs off and asks again.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stepscope.model.batch import Marks
from stepscope.model.sample import Owner

if TYPE_CHECKING:
    from stepscope.agent.context import Context


class Sample(NamedTuple):
    """One value, in the signal's unit. `labels` are those that the source itself knows (a pod, a vendor's
    name of the field), as sorted pairs; a job's come later. `at_ns` where it is not its reading's."""

    owner: Owner
    signal: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()
    at_ns: int | None = None


class Event(NamedTuple):
    """An instant: `what` as in `model.batch.Happened`."""

    at_ns: int
    what: str
    text: str
    code: int | None = None
    owner: Owner | None = None
    labels: tuple[tuple[str, str], ...] = ()


class Line(NamedTuple):
    """A line of a log, without secrets. `log` is `kernel`, `nccl` or `stacks`, `name` the file."""

    log: str
    name: str
    at_ns: int
    text: str
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Reading:
    """What one look at a source gave.

    `at_ns` is the wall time to which its values belong: the end of their window. `window_ns` is what they
    average over and `lag_ns` how old they are, both as measured or as the source declares; `None`: not known.
    `collect_ns` is how often the source itself looks at the device. `missing` counts (field, reason).
    """

    at_ns: int
    samples: list[Sample] = field(default_factory=list)
    window_ns: int | None = None
    collect_ns: int | None = None
    lag_ns: int | None = None
    events: list[Event] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    marks: list[Marks] = field(default_factory=list)
    missing: Counter[tuple[str, str]] = field(default_factory=Counter)
    source: str | None = None
    """What batches call the source, where that is not its own name (an exporter, known by what it says)."""


class NotHere(Exception):
    """The machine has no such thing. Not a failure, and never a sign of health."""


class Source(Protocol):
    """One thing that is read. `name` is what batches call it."""

    name: str

    def read(self) -> Sequence[Reading]:
        """What there is since the last look. May block: it has a thread of its own."""

    def close(self) -> None:
        """Let go of what it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A row of the catalogue.

    `make` gives the sources of this kind on this machine, none where it is not wanted. `least_ns` is the
    shortest period that makes sense for it; `fixed_ns` its period where it follows no profile. A read that
    lasts longer than `patience_ns` is told as hung.
    """

    name: str
    title: str
    gives: str
    """What it gives, for the reference."""
    make: Callable[[Context], Sequence[Source]]
    least_ns: int = 100_000_000
    fixed_ns: int | None = None
    patience_ns: int = 15_000_000_000


@functools.cache
def kinds() -> tuple[Kind, ...]:
    """Every kind of the catalogue, by the names of their files. TypeError where a `SOURCE` is none."""
    from stepscope.agent import catalog

    found = []
    for each in pkgutil.iter_modules(catalog.__path__):
        module = importlib.import_module(f"{catalog.__name__}.{each.name}")
        if not isinstance(getattr(module, "SOURCE", None), Kind):
            raise TypeError(f"{module.__name__}: SOURCE is no source of the agent")
        found.append(module.SOURCE)
    return tuple(found)
