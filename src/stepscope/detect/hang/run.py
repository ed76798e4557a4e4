"""One run of a job: its ranks, and which of them are silent for longer than anything excuses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stepscope.detect.hang.counter import Counters, Who
from stepscope.detect.hang.limit import HangLimits, Tail
from stepscope.detect.hang.rank import STEP, RankSeen
from stepscope.model.standing import Standing, elsewhere


@dataclass(frozen=True, slots=True)
class Silence:
    """A rank that made no progress: since when, for how long, and how long is left alone."""

    rank: RankSeen
    since_ns: int
    silence_ns: int
    bound_ns: int
    tail_ns: int | None
    spins: float | None = None

    @property
    def is_hang(self) -> bool:
        return self.silence_ns > self.bound_ns


@dataclass(slots=True)
class RunSeen:
    """One run. `tails` are its job's: those of earlier runs are in them."""

    job: str | None
    run: str | None
    tails: dict[str, Tail]
    ranks: dict[tuple[str, str], RankSeen] = field(default_factory=dict)

    @property
    def begin_ns(self) -> int:
        """When its first rank began to mark; 0 where nobody said so."""
        return min((each.start_ns for each in self.ranks.values() if each.start_ns is not None), default=0)

    @property
    def progress_ns(self) -> int | None:
        """The last progress of any rank."""
        return max((e.progress_ns for e in self.ranks.values() if e.progress_ns is not None), default=None)

    @property
    def living(self) -> list[RankSeen]:
        return [each for each in self.ranks.values() if not each.has_ended]

    @property
    def has_whole_step(self) -> bool:
        return any(each.num_steps for each in self.ranks.values())

    def missing(self) -> tuple[int, ...]:
        """Ranks of the world that never marked; empty where the world is not known."""
        world = max((e.world_size for e in self.ranks.values() if e.world_size is not None), default=0)
        there = {each.rank for each in self.ranks.values()}
        return tuple(rank for rank in range(min(world, 1 << 20)) if rank not in there)

    def standings(self) -> list[Standing]:
        """Where the ranks are, the ended ones too, by rank."""
        stands = [each.standing() for each in self.ranks.values()]
        return sorted(stands, key=lambda each: -1 if each.rank is None else each.rank)

    def silences(
        self, limits: HangLimits, counters: Counters, heard: Mapping[str, int | None]
    ) -> list[Silence]:
        """The silence of every living rank; empty where none is silent for long. `heard`: agent -> the time
        on its host, `None` where nothing is heard of it, nor known of its ranks."""
        living = [
            (each, now)
            for each in self.living
            if (now := heard.get(each.agent)) is not None and each.last_ns is not None
        ]
        if all(now - (each.progress_ns or each.last_ns or now) <= limits.least_ns for each, now in living):
            return []
        return [self._silence(each, limits, counters, now) for each, now in living]

    def _silence(self, rank: RankSeen, limits: HangLimits, counters: Counters, now_ns: int) -> Silence:
        who: Who = (self.job, self.run, rank.rank)
        last = rank.last_ns or now_ns
        apart = rank.apart
        step = self._bound(limits, STEP)
        if not rank.num_steps:
            return self._judged(
                rank, last, now_ns, limits, limits.start_ns, None, counters.works(who, last, now_ns)
            )
        since = rank.progress_ns if rank.progress_ns is not None else last
        spins = counters.spins(who, since, now_ns)
        if apart is None:
            tail = self._tail(STEP)
            bound = step
            if rank.num_capturing:  # our own profiler writes its trace
                bound = max(bound, limits.first_ns)
            elif rank.step is None and rank.phase is None and counters.works(who, since, now_ns):
                bound = max(bound, limits.first_ns)  # an evaluation that nobody marks
            found = self._judged(rank, since, now_ns, limits, bound, tail, None)
        else:
            tail = self._tail(apart.name)
            bound = limits.first_ns if tail is None else self._bound(limits, apart.name)
            if apart.name in ("compile", "init"):
                bound = max(bound, limits.start_ns)
            works = counters.works(who, last, now_ns)
            if apart.name == "checkpoint":
                works = works or counters.writes(rank.host, last, now_ns)
            if spins is not None and tail is None:
                bound = min(bound, step)  # busy without power is waiting, whatever the phase is called
            found = self._judged(rank, last, now_ns, limits, bound, tail, works)
        return Silence(rank, found.since_ns, found.silence_ns, found.bound_ns, found.tail_ns, spins)

    def _judged(
        self,
        rank: RankSeen,
        since_ns: int,
        now_ns: int,
        limits: HangLimits,
        bound_ns: int,
        tail_ns: int | None,
        works: bool | None,
    ) -> Silence:
        bound = max(bound_ns, limits.work_ns) if works else bound_ns
        return Silence(rank, since_ns, max(now_ns - since_ns, 0), bound, tail_ns)

    def _tail(self, name: str) -> int | None:
        known = self.tails.get(name)
        return None if known is None else known.ns

    def _bound(self, limits: HangLimits, name: str) -> int:
        return max(limits.least_ns, round(limits.tail_times * (self._tail(name) or 0)))


def hung(silences: list[Silence]) -> list[Silence]:
    """Those that hang; none while a rank is at something that may take its time: the others wait for it."""
    mine = [each for each in silences if each.is_hang]
    waits_for = [
        each
        for each in silences
        if not each.is_hang
        and (each.rank.apart is not None or not each.rank.num_steps or each.rank.num_capturing)
    ]
    return [] if waits_for else mine


def guilty(stands: list[Standing]) -> tuple[list[Standing], list[Standing], list[int]]:
    """(those elsewhere, the others, ranks that ended) among all: an ended one is what the living wait for."""
    living = [each for each in stands if each.is_alive is not False]
    ended = [each.rank for each in stands if each.is_alive is False and each.rank is not None]
    if ended and living:
        return [], living, ended
    odd = list(elsewhere(living))
    return odd, [each for each in living if each not in odd], []


def by_rank(ranks: Mapping[tuple[str, str], RankSeen], numbers: set[int | None]) -> list[RankSeen]:
    """The processes of these ranks."""
    return [each for each in ranks.values() if each.rank in numbers]
