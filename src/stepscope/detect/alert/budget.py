"""How many pages a job may have: of performance that is not critical, four a day. The rest is kept."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

DAY_NS = 24 * 3600 * 1_000_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """`num_pages` in each `over_ns`, of a job, of performance alarms below critical for which no cause was
    found, or not yet. What is beyond is kept with `pages` false, and counted. What is critical, of resources
    or of the task is never held back.

    The gate itself is what keeps false pages rare; the budget bounds what a job can do that swings. One a
    week would also mute the second true slowdown."""

    num_pages: int = 4
    over_ns: int = DAY_NS

    def __post_init__(self) -> None:
        if self.num_pages < 0 or self.over_ns <= 0:
            raise ValueError("a budget is 0 or more pages in some time")


@dataclass(slots=True)
class Spent:
    """Pages of each job, and how many were held back."""

    budget: Budget = field(default_factory=Budget)
    num_held_back: dict[str, int] = field(default_factory=dict)
    _at_ns: dict[str, deque[int]] = field(default_factory=dict)

    def may_page(self, job: str, now_ns: int) -> bool:
        """Spend a page of this job's, where there is one left; else it is counted as held back."""
        times = self._at_ns.setdefault(job, deque())
        while times and times[0] <= now_ns - self.budget.over_ns:
            times.popleft()
        if len(times) < self.budget.num_pages:
            times.append(now_ns)
            return True
        self.num_held_back[job] = self.num_held_back.get(job, 0) + 1
        return False

    def refund(self, job: str) -> bool:
        """The last page of this job's was right: it does not count. False where there was none."""
        times = self._at_ns.get(job)
        if not times:
            return False
        times.pop()
        return True

    def give_back(self, job: str) -> None:
        """One that was held back is told after all."""
        self.num_held_back[job] = max(self.num_held_back.get(job, 0) - 1, 0)

    def forget(self, now_ns: int) -> None:
        """Drop jobs whose pages are all older than the budget looks back."""
        for job, times in list(self._at_ns.items()):
            if not times or times[-1] <= now_ns - self.budget.over_ns:
                del self._at_ns[job]
                self.num_held_back.pop(job, None)
