"""How often the agent looks: profiles, a table."""

from __future__ import annotations

from dataclasses import dataclass

from stepscope.model.error import UsageError

S = 1_000_000_000
MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Profile:
    """`idle_ns` is the period while no job marks its steps, `busy_ns` while one does. Values wait up to
    `hold_ns` for others of their series, so that a batch tells whose they are once and not each time."""

    name: str
    idle_ns: int
    busy_ns: int
    hold_ns: int
    meaning: str

    def period_ns(self, is_busy: bool, least_ns: int = 0) -> int:
        """How long from one look to the next."""
        return max(self.busy_ns if is_busy else self.idle_ns, least_ns)


PROFILES: dict[str, Profile] = {
    each.name: each
    for each in (
        Profile("training", 10 * S, 1 * S, 5 * S, "every 10 s, every second while a job marks its steps"),
        Profile("inference", 1 * S, 1 * S, 5 * S, "every second"),
        Profile("debug", 100 * MS, 100 * MS, 1 * S, "every 100 ms, the least that counters can tell apart"),
    )
}


def profile(name: str) -> Profile:
    """A profile by its name. UsageError where there is none."""
    found = PROFILES.get(name)
    if found is None:
        raise UsageError(f"no profile {name!r}; choose one of {', '.join(PROFILES)}")
    return found
