"""Whether the data can carry a verdict."""

from __future__ import annotations

from msgspec import field

from stepscope.model.report.base import Effect, HealthVerdict, Part, written


class HealthIssue(Part, frozen=True, kw_only=True):
    """Something wrong or noteworthy in the data; `affects` names the numbers it touches."""

    code: str
    """What is wrong: the codes are in [health](health.md)."""
    count: int
    """How many events, steps or inputs it is about."""
    effect: Effect
    """What it does to the numbers in `affects`: nothing, less confidence, or they are not given."""
    detail: str
    """One sentence with the numbers, in English."""
    rank: int | None = None
    """Whose data; absent where the issue is of the whole job or of a file without a rank."""
    affects: tuple[str, ...] = ()
    """Names of the numbers that it touches."""


class Withheld(Part, frozen=True, kw_only=True):
    """A number that is not given, why, and what would give it."""

    what: str
    """The number's name."""
    why: str
    """Why the data cannot carry it, in English."""
    would_settle: str | None = None
    """The recording that would give it; absent where none is known."""


class Health(Part, frozen=True, kw_only=True):
    """Whether the data can carry a verdict."""

    verdict: HealthVerdict
    """`unusable` where nothing was timed, `degraded` where any number is degraded or withheld."""
    issues: tuple[HealthIssue, ...] = field(default_factory=written)
    """Everything noted, over all inputs."""
    withheld: tuple[Withheld, ...] = field(default_factory=written)
    """Numbers that are not given."""
