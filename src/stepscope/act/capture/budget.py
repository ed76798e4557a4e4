"""What captures of a job may cost. Over budget is refused and said, never done a little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.model.error import RefusedError

HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds for one job and hour. `overhead_ratio`: share of the hour that ranks may be held up."""

    captures_per_hour: int = 12
    seconds: float = 120.0
    bytes: int = 4 << 30
    overhead_ratio: float = 0.01

    def __post_init__(self) -> None:
        if min(self.captures_per_hour, self.seconds, self.bytes, self.overhead_ratio) < 0:
            raise ValueError(f"{self}: no bound of a budget is negative")


@dataclass(frozen=True, slots=True)
class Spent:
    """One capture that was made or tried: when, how long its steps took, the bytes of all ranks, and the
    longest stall of a rank."""

    at_ns: int
    seconds: float = 0.0
    bytes: int = 0
    stall_ns: int = 0


def refusal(budget: Budget, spent: Sequence[Spent], now_ns: int) -> str | None:
    """Why the budget allows no capture now, `None` where it does."""
    recent = [each for each in spent if now_ns - each.at_ns < HOUR_NS]
    rows = (
        ("captures", len(recent) + 1, budget.captures_per_hour),
        ("seconds of captured steps", sum(each.seconds for each in recent), budget.seconds),
        ("bytes of traces", sum(each.bytes for each in recent), budget.bytes),
        ("of the time held up", sum(each.stall_ns for each in recent) / HOUR_NS, budget.overhead_ratio),
    )
    for what, used, most in rows:
        if used > most:
            used_before = used - 1 if what == "captures" else used
            return f"{used_before:g} {what} in the last hour, the budget is {most:g}"
    return None


def require(budget: Budget, spent: Sequence[Spent], now_ns: int) -> None:
    """RefusedError where the budget is spent."""
    why = refusal(budget, spent, now_ns)
    if why is not None:
        raise RefusedError(f"no capture: {why}; wait, or raise the budget")
