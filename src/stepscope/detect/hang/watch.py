"""`HangWatch`: which jobs stand still, whose processes are gone, who never began."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

import msgspec

from stepscope.detect.hang import word
from stepscope.detect.hang.counter import Counters, Who
from stepscope.detect.hang.limit import HangLimits, Tail
from stepscope.detect.hang.rank import RankSeen
from stepscope.detect.hang.run import RunSeen, Silence, by_rank, guilty, hung
from stepscope.model.alarm import About, Alarm, AlarmSeverity, Measured
from stepscope.model.batch import Batch, Happened, Lines, Marks, Samples
from stepscope.model.text import Text

CONDITIONS = ("hang", "process-gone", "never-started", "agent-silent")
"""Conditions of these alarms, all of level `task`; rows of `detect.alert.table`. `agent-silent` is a hint."""
_SEVERITY: dict[str, AlarmSeverity] = {"hang": "critical", "never-started": "warning"}
RECENT_BATCHES = 50
"""Batches of an agent whose newest time is the time on its host: after a clock was set back, soon the new."""
STEPPING_NS = 5_000_000_000
"""A rank whose last progress is no older works at its steps."""
MOST_JOBS = 20_000
Key = tuple[str | None, str | None]


@dataclass(slots=True)
class _Agent:
    times: deque[int] = field(default_factory=lambda: deque(maxlen=RECENT_BATCHES))
    host: str = ""
    is_fresh: bool = True
    """It was heard since the last tick."""
    heard_ns: int | None = None
    """When it was heard last, by the clock of `tick`."""

    @property
    def now_ns(self) -> int | None:
        return max(self.times, default=None)


@dataclass(slots=True)
class _Doubt:
    """A condition that holds and was not told yet: since when by the clock that it is counted on."""

    at_ns: int


class HangWatch:
    """Marks, counters and times of all agents in, alarms out. Only a job's newest run is watched."""

    def __init__(self, limits: HangLimits | None = None, *, least_ns: int | None = None) -> None:
        """`least_ns` in the place of that of `limits`: no silence below it is a hang."""
        limits = limits or HangLimits()
        self.limits = limits if least_ns is None else replace(limits, least_ns=least_ns)
        self._agents: dict[str, _Agent] = {}
        self._runs: dict[Key, RunSeen] = {}
        self._tails: dict[str | None, dict[str, Tail]] = {}
        self._newest: dict[str | None, Key] = {}
        self._ranks: dict[Who, RankSeen] = {}
        self._gone: set[Key] = set()
        """Runs of which processes are gone."""
        self._counters = Counters()
        self._alarms: dict[tuple[str, Key | str], Alarm] = {}
        self._doubts: dict[tuple[str, Key | str], _Doubt] = {}
        self._told: list[Alarm] = []

    def take(self, batches: Iterable[Batch]) -> None:
        """Batches of any agents, each agent's in the order of its numbers, each once."""
        for batch in batches:
            agent = self._agents.setdefault(batch.agent, _Agent())
            agent.host, agent.is_fresh = batch.host, True
            at = _newest(batch)
            if at is not None:
                agent.times.append(at)
            if isinstance(batch, Marks):
                self._marks(batch)
            elif isinstance(batch, Samples):
                self._counters.take(batch, self._is_stepping)

    def _marks(self, batch: Marks) -> None:
        known = batch.identity
        job, run = _text(known.get("job")), _text(known.get("run"))
        restart = known.get("restart")
        key: Key = (job, run if run is not None else None if restart is None else f"restart {restart}")
        tails = self._tails.setdefault(job, {})
        seen = self._runs.get(key)
        if seen is None:
            seen = self._runs[key] = RunSeen(job, run, tails)
        place = (batch.host, batch.ring)
        rank = seen.ranks.get(place)
        if rank is None:
            rank = seen.ranks[place] = RankSeen(
                batch.agent, batch.host, batch.ring, len(seen.ranks), job, run
            )
        for name in ("rank", "world_size"):
            value = known.get(name)
            if isinstance(value, int) and value >= 0:
                setattr(rank, name, value)
        rank.agent = batch.agent
        self._ranks[job, run, rank.rank] = rank

        def learn(name: str, took_ns: int, owner: int) -> None:
            tails.setdefault(name, Tail()).add(took_ns, owner)

        was_alive = not rank.has_ended
        rank.take(batch, learn)
        if was_alive and rank.is_alive is False and rank.gone_ns is None:
            now = self._agents[batch.agent].now_ns
            rank.gone_ns = max(now or 0, rank.last_ns or 0) or None
            self._gone.add(key)
        if seen.begin_ns >= self._begin_of(self._newest.get(job)):
            self._newest[job] = key

    def _begin_of(self, key: Key | None) -> int:
        return -1 if key is None or key not in self._runs else self._runs[key].begin_ns

    def _is_stepping(self, who: Who) -> bool:
        """Whether steps of this rank go on: its power is that of work."""
        rank = self._ranks.get(who)
        now = None if rank is None else self._agents[rank.agent].now_ns
        if rank is None or rank.progress_ns is None or now is None:
            return False
        return now - rank.progress_ns <= STEPPING_NS and rank.apart is None

    # ── alarms ──

    def tick(self, now_ns: int) -> list[Alarm]:
        """The alarms that began or ended since the last call. `now_ns` is the time here."""
        self._told = []
        heard: dict[str, int | None] = {}
        for name, agent in self._agents.items():
            if agent.is_fresh or agent.heard_ns is None:
                agent.is_fresh, agent.heard_ns = False, now_ns
            is_silent = now_ns - agent.heard_ns > self.limits.agent_ns
            heard[name] = None if is_silent else agent.now_ns
            self._tell_unheard(name, agent, is_silent, now_ns)
        for key, run in list(self._runs.items()):
            if self._newest.get(run.job) != key:
                self._end_all(key, run.progress_ns or now_ns)
                del self._runs[key]
                continue
            if key in self._gone:
                self._tell_gone(key, run, now_ns)
            self._still(key, run, now_ns, heard)
        self._tidy(now_ns)
        return self._told

    def _tell_unheard(self, name: str, agent: _Agent, is_silent: bool, now_ns: int) -> None:
        place = ("agent-silent", name)
        if not is_silent:
            self._end(place, now_ns)
        elif place not in self._alarms and any(
            each.agent == name for run in self._runs.values() for each in run.living
        ):
            heard = agent.heard_ns or now_ns
            text = word.unheard(agent.host, (now_ns - heard) / 1e9)
            self._begin(
                place, About(hosts=(agent.host,)), heard, now_ns, text, severity="warning", pages=False
            )

    def _tell_gone(self, key: Key, run: RunSeen, now_ns: int) -> None:
        """Processes whose ring nobody holds, and that never said that they end."""
        place = ("process-gone", key)
        again = {e.rank: e.progress_ns for e in run.living if e.rank is not None and e.progress_ns}
        mine = [
            e
            for e in run.ranks.values()
            if e.is_alive is False
            and e.exit_code is None
            and (e.rank is None or again.get(e.rank, -1) <= (e.gone_ns or 0))
        ]
        if not mine:  # each was started again within its run, and makes steps
            self._doubts.pop(place, None)
            self._end(place, now_ns)
            return
        if place in self._alarms:
            return
        doubt = self._doubts.setdefault(place, _Doubt(now_ns))
        if now_ns - doubt.at_ns < self.limits.settle_ns:
            return
        del self._doubts[place]
        stands = [each.standing() for each in mine]
        ranks = tuple(sorted(each.rank for each in mine if each.rank is not None))
        onset = min(each.gone_ns or now_ns for each in mine)
        text = word.gone(ranks, word.place(stands))
        self._begin(place, self._about(run, mine), onset, now_ns, text, steps=_steps(mine))

    def _still(self, key: Key, run: RunSeen, now_ns: int, heard: Mapping[str, int | None]) -> None:
        """No steps, or never one."""
        silences = run.silences(self.limits, self._counters, heard)
        mine = hung(silences)
        condition = "hang" if run.has_whole_step else "never-started"
        place = (condition, key)
        if not mine:
            self._doubts.pop(place, None)
            for each in ("hang", "never-started"):
                told = self._alarms.get((each, key))
                progress = run.progress_ns
                if told is not None and (not run.living or (progress or 0) > told.onset_ns):
                    self._end(
                        (each, key), progress if (progress or 0) > told.onset_ns and progress else now_ns
                    )
            return
        if place in self._alarms:
            return
        clock = max(each.since_ns + each.silence_ns for each in mine)
        doubt = self._doubts.setdefault(place, _Doubt(clock))
        if clock - doubt.at_ns < min(self.limits.confirm_ns, self.limits.least_ns // 4):
            return
        del self._doubts[place]
        self._begin_still(place, run, silences, mine, now_ns)

    def _begin_still(
        self,
        place: tuple[str, Key | str],
        run: RunSeen,
        silences: Sequence[Silence],
        mine: Sequence[Silence],
        now_ns: int,
    ) -> None:
        unheard = [each for each in run.living if each not in [s.rank for s in silences]]
        stands = [e.standing() for e in run.ranks.values() if e not in unheard]
        odd, others, ended = guilty(sorted(stands, key=lambda e: -1 if e.rank is None else e.rank))
        longest = max(mine, key=lambda each: each.silence_ns)
        least = min(mine, key=lambda each: each.silence_ns)
        missing = run.missing() if place[0] == "never-started" else ()
        wanted: set[int | None] = {each.rank for each in odd} | set(ended) | set(missing)
        about = self._about(run, by_rank(run.ranks, wanted), missing)
        if place[0] == "hang":
            spins = [each.spins for each in mine if each.spins is not None]
            text = word.still(
                word.Still(
                    least.silence_ns / 1e9, least.bound_ns / 1e9, odd, others, ended,
                    sorted({each.host for each in unheard}), min(spins, default=None),
                )
            )  # fmt: skip
        else:
            text = word.never(longest.silence_ns / 1e9, missing, word.place(odd or others))
        measured = Measured(
            "seconds_without_step",
            "s",
            least.silence_ns / 1e9,
            normal=None if least.tail_ns is None else least.tail_ns / 1e9,
            threshold=least.bound_ns / 1e9,
        )
        gone = self._alarms.get(("process-gone", place[1]))
        onset = max(each.since_ns for each in mine)
        self._begin(
            place, about, onset, now_ns, text, measured=measured,
            severity=_SEVERITY[place[0]], steps=_steps(run.ranks.values()),
            inhibited_by=gone.id if gone is not None else None,
        )  # fmt: skip

    def _about(self, run: RunSeen, mine: Sequence[RankSeen], missing: Sequence[int] = ()) -> About:
        devices = (self._counters.devices.get((run.job, run.run, each.rank)) for each in mine)
        ranks = {each.rank for each in mine if each.rank is not None} | set(missing)
        return About(
            job=run.job,
            run=run.run,
            ranks=tuple(sorted(ranks)),
            devices=tuple(sorted({each.name for each in devices if each is not None})),
            hosts=tuple(sorted({each.host for each in mine})),
        )

    def _begin(
        self,
        place: tuple[str, Key | str],
        about: About,
        onset_ns: int,
        now_ns: int,
        text: Text,
        *,
        severity: AlarmSeverity = "critical",
        measured: Measured | None = None,
        steps: tuple[int, int] | None = None,
        inhibited_by: str | None = None,
        pages: bool = True,
    ) -> None:
        if place in self._alarms:
            return
        named = f"{place[0]}|{place[1]}|{onset_ns}".encode()
        alarm = Alarm(
            id=f"{place[0]}-{sha256(named).hexdigest()[:16]}",
            condition=place[0],
            level="task",
            severity=severity,
            about=about,
            onset_ns=onset_ns,
            seen_ns=now_ns,
            steps=steps,
            measured=measured,
            inhibited_by=inhibited_by,
            text=text.en,
            text_zh=text.zh,
            pages=pages,
        )
        self._alarms[place] = alarm
        self._told.append(alarm)

    def _end(self, place: tuple[str, Key | str], end_ns: int) -> None:
        alarm = self._alarms.pop(place, None)
        if alarm is not None:
            self._told.append(msgspec.structs.replace(alarm, end_ns=max(end_ns, alarm.onset_ns)))

    def _end_all(self, key: Key, end_ns: int) -> None:
        for condition in CONDITIONS:
            self._doubts.pop((condition, key), None)
            self._end((condition, key), end_ns)

    def _tidy(self, now_ns: int) -> None:
        """Runs that are over are forgotten: the oldest, where there are too many."""
        if len(self._runs) <= MOST_JOBS:
            return
        over = [(run.progress_ns or 0, key) for key, run in self._runs.items() if not run.living]
        for _, key in sorted(over, key=lambda each: each[0])[: len(self._runs) - MOST_JOBS]:
            self._end_all(key, now_ns)
            job = self._runs.pop(key).job
            self._newest.pop(job, None)
            self._tails.pop(job, None)


def _newest(batch: Batch) -> int | None:
    """The newest time that a batch tells of."""
    if isinstance(batch, Samples):
        return max((each.at_ns[-1] for each in batch.series if each.at_ns), default=None)
    if isinstance(batch, Marks):
        return batch.real_ns[-1] if batch.real_ns else None
    if isinstance(batch, Lines):
        return None  # a log's own times may be of long ago
    return batch.at_ns if isinstance(batch, Happened) else None


def _steps(ranks: Iterable[RankSeen]) -> tuple[int, int] | None:
    """The last whole step and the furthest one that is known."""
    known = list(ranks)
    whole = [each.last_step for each in known if each.last_step is not None]
    begun = [each.step for each in known if each.step is not None]
    return (max(whole or begun), max(whole + begun)) if whole or begun else None


def _text(value: object) -> str | None:
    return str(value) if value not in (None, "") else None
