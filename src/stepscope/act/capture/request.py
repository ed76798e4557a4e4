"""What is asked of the ranks of a job, what is seen of them, and what comes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """What to record: `num_steps` active steps (the first of several is left out by the analysis), `flags` of
    `ring_abi.CAPTURE_FLAGS`, and the ranks: `None` for all."""

    num_steps: int = 3
    mode: Literal["full", "light"] = "full"
    flags: frozenset[str] = frozenset()
    ranks: frozenset[int] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.num_steps <= 1000:
            raise ValueError(f"{self.num_steps} steps: 1 to 1000")


@dataclass(frozen=True, slots=True)
class Limits:
    """How patient an agreement is. `answer_ns`: for a rank that marks no steps; else so many of its steps."""

    attempts: int = 4
    answer_ns: int = 5 * NS
    export_ns: int = 60 * NS
    least_margin_steps: int = 3
    most_margin_steps: int = 10_000
    usual_steps: int = 4
    """A step may take so many times as long as the usual one before a rank counts as stuck."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One rank as its ring shows it now: the newest step that began, the usual time of a step (`None` before
    there are two), the last answer to each capture, and what its captures cost."""

    is_alive: bool
    newest_step: int | None = None
    step_ns: int | None = None
    answers: Mapping[int, str] = field(default_factory=dict)
    stall_ns: Mapping[int, int] = field(default_factory=dict)
    num_bytes: Mapping[int, int] = field(default_factory=dict)
    gone: str = "ended"
    """What is said of it where it is not alive."""


@dataclass(frozen=True, slots=True)
class Order:
    """A command for one rank's control file."""

    ring: str
    command: Literal["propose", "commit", "cancel"]
    capture: int
    first_step: int


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """What came of it in one rank: `stall_ns` is how long its steps were held up in all, `None` where it
    did not say."""

    ring: str
    rank: int | None = None
    answer: str | None = None
    stall_ns: int | None = None
    num_bytes: int | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended. `done`: all ranks hold traces of `first_step` … and the next `num_steps` − 1; otherwise
    none does and `why` says what stood in the way."""

    is_done: bool
    why: str | None
    capture: int
    first_step: int | None
    num_steps: int
    attempts: int
    ranks: tuple[RankOutcome, ...] = ()
