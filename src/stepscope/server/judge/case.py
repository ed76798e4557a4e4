"""One case: alarms that are looked at together, from the first of them until long after the last."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, Protocol

from msgspec import structs

from stepscope.act.capture.request import Request
from stepscope.model.alarm import SEVERITIES, About, Alarm
from stepscope.model.incident import CaptureOf, Incident, Noted
from stepscope.model.report import Report
from stepscope.offline.stored import Asked, Window
from stepscope.rules import Catalog
from stepscope.server.judge.relation import Family, explains, family_of
from stepscope.server.judge.verdict import Verdict

APART_NS = 20_000_000_000
"""Between two spells of one fault at most; longer apart they may be two."""
Phase = Literal["look", "stacks", "capture", "counters", "over"]
"""`look`: to be diagnosed now. `stacks`, `capture`: waits for what was asked, `counters` for those of the
steps that were traced. `over`: there is a verdict."""


class CaptureMade(Protocol):
    """What `Captures` says of a capture. `state` is `done`, `failed` or `refused` in the end."""

    @property
    def id(self) -> int: ...
    @property
    def job(self) -> str: ...
    @property
    def run(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def steps(self) -> tuple[int, int] | None: ...
    @property
    def ranks(self) -> tuple[int, ...]: ...
    @property
    def refusal(self) -> str | None: ...


class Captures(Protocol):
    """Who asks the agents (`server.capture`)."""

    def ask(self, job: str, run: str, request: Request, *, by: str, why: str) -> CaptureMade: ...

    def ask_stacks(self, job: str, run: str) -> Collection[int]:
        """The ranks that were asked; their stacks come as `Lines` of the log `stacks`."""
        ...


@dataclass(slots=True)
class Case:
    """Times are wall time. `until_ns` is how long it waits for what it asked for; `told` the rule that people
    were told of (empty: told without a cause), `None` before."""

    id: str
    job: str | None
    run: str | None
    alarms: dict[str, Alarm]
    is_opened: bool = False
    phase: Phase = "look"
    until_ns: int | None = None
    captured: CaptureOf = field(default_factory=CaptureOf)
    report: Report | None = None
    verdict: Verdict | None = None
    told: str | None = None
    onset_step: int | None = None
    is_dismissed: bool = False
    num_reports: int = 0
    unconfirmed: set[str] = field(default_factory=set)
    """Alarms that held when an earlier server ended, and that no watch has told since."""
    traces: tuple[str, ...] = ()
    """Those that are here, while counters are waited for."""
    num_waits: int = 0
    looked: tuple[Window, Asked] | None = None
    """What was diagnosed last, until it was told."""
    notes: list[Noted] = field(default_factory=list)
    """Lines for its history that wait until it is opened."""
    ranks: tuple[int, ...] = ()
    """Those of its incident, where an earlier server judged it."""

    @property
    def first(self) -> Alarm:
        """The alarm that it began with."""
        return min(self.alarms.values(), key=lambda each: (each.seen_ns, each.id))

    @property
    def onset_ns(self) -> int:
        return min(each.onset_ns for each in self.alarms.values())

    @property
    def family(self) -> Family:
        """What is asked for: of several alarms the hardest level decides."""
        levels = {"task": 2, "resource": 1, "performance": 0}
        worst = max(self.alarms.values(), key=lambda each: (levels[each.level], -each.seen_ns))
        return family_of(worst.condition, worst.level)

    @property
    def is_speed(self) -> bool:
        """Whether it is about how fast steps are, and not about what has stopped, or filled up."""
        return all(each.level == "performance" for each in self.alarms.values()) or self.family.name in (
            "heat",
            "clock",
            "link",
        )

    @property
    def ended_ns(self) -> int | None:
        """When all its alarms were over; `None` while one holds."""
        ends = [each.end_ns for each in self.alarms.values()]
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def onset_alarm_step(self) -> int | None:
        """The step that it began with, as the first alarm's own marks say."""
        first = min(self.alarms.values(), key=lambda each: (each.onset_ns, each.steps is None))
        return None if first.steps is None else first.steps[0]

    def heard(self, alarm: Alarm) -> None:
        """This alarm, or one of its condition that an earlier server told under another id."""
        self.alarms[alarm.id] = alarm
        self.unconfirmed.discard(alarm.id)
        for id in list(self.unconfirmed):
            if self.alarms[id].condition == alarm.condition:
                self.give_up(id, alarm.seen_ns)

    def give_up(self, id: str, end_ns: int) -> None:
        """An alarm that nobody tells any more is over."""
        self.unconfirmed.discard(id)
        self.alarms[id] = structs.replace(self.alarms[id], end_ns=end_ns)

    def stands(self, incident: Incident) -> Incident:
        """The incident with the alarms and the capture that this case has now."""
        return structs.replace(
            incident, alarms=tuple(self.alarms), ended_ns=self.ended_ns, capture=self.captured
        )

    @property
    def rule(self) -> str | None:
        return self.told or (self.verdict.rule if self.verdict is not None else None)

    def is_like(self, other: Case) -> bool:
        """Whether the two are told of by the same condition."""
        mine = {each.condition for each in self.alarms.values()}
        return any(each.condition in mine for each in other.alarms.values())

    def is_of(self, job: str | None, run: str | None) -> bool:
        """Whether it is of this job and run, as far as both say."""
        return self.job == job and (run is None or self.run is None or self.run == run)

    def is_again(self, other: Case, ranks: Collection[int]) -> bool:
        """Whether another case that was found to have this one's cause, on these ranks, is this one that goes
        on. One that begins when this one was over for a while, on other ranks, is a matter of its own."""
        mine = set(self.verdict.ranks if self.verdict is not None else self.ranks)
        return not self.is_past(other.onset_ns) or not (mine and ranks) or bool(mine & set(ranks))

    def is_past(self, at_ns: int) -> bool:
        """Whether all of it was over for a while by then: what comes later may have another cause, and is
        looked at."""
        return self.phase == "over" and self.ended_ns is not None and at_ns - self.ended_ns >= APART_NS

    def takes(self, alarm: Alarm, catalog: Catalog) -> bool:
        """Whether this alarm joins without another look: the same condition of the same ranks, one that comes
        while the case is being looked at, or one that its cause explains. Never one of another run."""
        if not self.is_of(alarm.about.job, alarm.about.run) or self.is_past(alarm.onset_ns):
            return False
        same = [each for each in self.alarms.values() if each.condition == alarm.condition]
        if any(_meet(each.about, alarm.about) for each in same):
            return True
        if alarm.level == "task":
            return any(each.level == "task" for each in self.alarms.values())
        if self.phase != "over" or self.family.asks == "stacks":
            return True
        if self.rule is None or self.rule not in catalog.rules:
            return False
        ranks = self.verdict.ranks if self.verdict is not None else ()
        is_near = not (ranks and alarm.about.ranks) or bool(set(ranks) & set(alarm.about.ranks))
        return is_near and explains(self.rule, catalog[self.rule].verdict, alarm.condition, alarm.level)


def _meet(one: About, other: About) -> bool:
    """Whether two alarms may be about the same: of what both name they have one in common."""
    pairs = ((one.ranks, other.ranks), (one.devices, other.devices), (one.hosts, other.hosts))
    return all(not (mine and theirs) or bool(set(mine) & set(theirs)) for mine, theirs in pairs)


def is_same_matter(one: Alarm, other: Alarm) -> bool:
    """Whether two alarms tell of one condition of one run, of ranks or devices that both may be about."""
    mine, theirs = one.about, other.about
    return (one.condition, mine.job, mine.run) == (other.condition, theirs.job, theirs.run) and _meet(
        mine, theirs
    )


def id_of(alarm: Alarm, spell: str = "") -> str:
    """The id of the incident that an alarm opens: the same after a restart. `spell` tells apart those that
    one alarm opens which holds again."""
    return f"i{sha256(f'{alarm.id}{spell}'.encode()).hexdigest()[:15]}"


def incident_of_case(case: Case, now_ns: int) -> Incident:
    """The incident as it is opened: of its cause nothing is known yet."""
    alarms = list(case.alarms.values())
    first = case.first
    about = About(
        job=case.job,
        run=case.run,
        ranks=tuple(sorted({r for a in alarms for r in a.about.ranks})),
        devices=tuple(sorted({d for a in alarms for d in a.about.devices})),
        hosts=tuple(sorted({h for a in alarms for h in a.about.hosts})),
    )
    return Incident(
        id=case.id,
        about=about,
        severity=max((a.severity for a in alarms), key=SEVERITIES.index),
        title=first.text or first.condition,
        title_zh=first.text_zh,
        onset_ns=case.onset_ns,
        onset_step=case.onset_alarm_step,
        opened_ns=now_ns,
        alarms=tuple(case.alarms),
        capture=case.captured,
        history=(
            Noted(at_ns=first.seen_ns, what=f"alarm {first.condition}: {first.text}".rstrip(": ")),
            *case.notes,
        ),
    )


def with_ranks(request: Request, case: Case, ranks: Collection[int], most: int) -> Request:
    """The request for at most so many of the job's ranks: those in question, then the others in order, which
    they are held against."""
    if len(ranks) <= most:
        return replace(request, ranks=None)
    named = {rank for each in case.alarms.values() for rank in each.about.ranks}
    named |= set(case.verdict.ranks) if case.verdict is not None else set()
    chosen = [*sorted(named & set(ranks)), *sorted(set(ranks) - named)][:most]
    return replace(request, ranks=frozenset(chosen))
