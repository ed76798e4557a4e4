"""The time there is: shared over stages; what does not fit is left out and said. Pure but for its clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Budget:
    """`total_seconds` from the first look at `clock` (seconds, monotonic)."""

    total_seconds: float
    clock: Callable[[], float]
    skipped: list[str] = field(default_factory=list)
    """What did not fit, a line each."""
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    def spent(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._start

    def left(self) -> float:
        """Seconds until the end; never below 0."""
        return max(self.total_seconds - self.spent(), 0.0)

    def share(self, num_left: int, keep_seconds: float) -> float:
        """Seconds for the next of `num_left` equal stages when `keep_seconds` stay for what follows them."""
        return max(self.left() - keep_seconds, 0.0) / max(num_left, 1)

    def has(self, what: str, least_seconds: float, keep_seconds: float = 0.0) -> bool:
        """Whether a stage fits; one that does not is noted."""
        room = self.left() - keep_seconds
        if room >= least_seconds:
            return True
        self.skipped.append(f"{what}: needs {least_seconds:.0f} s, {max(room, 0.0):.0f} s are left")
        return False
