"""The book of alarms: one entry a condition and cause, told when it is new, when it changes, when it is over.

Alarms of many devices or ranks of one job are one; one that comes again soon is the same; what another
explains is marked so. An alarm keeps its id: whoever hears of an id again replaces what there was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from stepscope.detect.alert.budget import Budget, Spent
from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.relation import Claim, cause_of
from stepscope.detect.alert.wording import LOST, line_of
from stepscope.model.alarm import SEVERITIES, About, Alarm, AlarmSeverity, Measured

NS = 1_000_000_000
COOL_DOWN_NS = 600 * NS
"""What comes again within it is the same alarm."""
MOST_MEMBERS = 256
"""Devices or ranks that an alarm names."""

Key = tuple[str, ...]
"""The condition's id, then whose it is."""


@dataclass(frozen=True, slots=True)
class Member:
    """One device, rank or job for which the condition holds."""

    rank: int | None = None
    device: str | None = None
    host: str | None = None


@dataclass(slots=True)
class Entry:
    """One alarm. `members` hold now, `seen` did at any time since it began; `lost` are those of which
    nothing is known any more. `told` is what was told last."""

    condition: Condition
    key: Key
    job: str | None
    run: str | None
    onset_ns: int
    seen_ns: int
    severity: AlarmSeverity
    pages: bool
    id: str
    members: dict[Member, None] = field(default_factory=dict)
    seen: dict[Member, None] = field(default_factory=dict)
    lost: set[Member] = field(default_factory=set)
    hosts: frozenset[str] = frozenset()
    end_ns: int | None = None
    steps: tuple[int, int] | None = None
    measured: Measured | None = None
    is_specified: bool | None = None
    detail: str | None = None
    inhibited_by: str | None = None
    is_held_back: bool | None = None
    """Its page was refused by the budget; `None` where none was asked for."""
    told: Alarm | None = None

    @property
    def about(self) -> About:
        """Everybody that it was about since it began."""
        seen = list(self.seen)[:MOST_MEMBERS]
        return About(
            self.job,
            self.run,
            tuple(sorted({each.rank for each in seen if each.rank is not None})),
            tuple(sorted({each.device for each in seen if each.device is not None})),
            tuple(sorted({each.host for each in seen if each.host is not None})),
        )

    @property
    def claim(self) -> Claim:
        return Claim(
            self.condition.id, self.about, self.hosts, self.onset_ns, self.end_ns, self.severity == "info"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A condition holds for a member of a job: `job` `None` of a device that is nobody's."""

    condition: Condition
    member: Member
    onset_ns: int
    job: str | None = None
    run: str | None = None
    part: str = ""
    """What tells several alarms of one condition and job apart: an Xid's code, a device that was lost."""
    severity: AlarmSeverity = "warning"
    measured: Measured | None = None
    is_specified: bool | None = None
    steps: tuple[int, int] | None = None
    detail: str | None = None
    """In words, where there is no number."""
    pages: bool = True
    hosts: frozenset[str] = frozenset()

    @property
    def key(self) -> Key:
        whose = ("", self.member.host or "") if self.job is None else (self.job, self.run or "")
        return (self.condition.id, *whose, self.part)


class Book:
    """All alarms that hold, or held until lately. `others` are alarms that another watch makes: they explain,
    and are not told from here."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.spent = Spent(budget or Budget())
        self.now_ns = 0
        """Our own time, of this tick: whoever turns it sets it."""
        self._entries: dict[Key, Entry] = {}
        self._others: dict[str, Claim] = {}

    def fire(self, each: Fired) -> None:
        """It holds, as of now; told by the next `changed`."""
        entry = self._entries.get(each.key)
        if entry is not None and entry.end_ns is not None and each.onset_ns - entry.end_ns > COOL_DOWN_NS:
            entry = None
        if entry is None:
            entry = self._entries[each.key] = Entry(
                each.condition, each.key, each.job, each.run, each.onset_ns,
                max(self.now_ns, each.onset_ns), each.severity, each.pages, _id(each.key, each.onset_ns),
            )  # fmt: skip
        if entry.end_ns is not None:
            entry.end_ns, entry.severity = None, each.severity
            entry.members.clear()
            entry.lost.clear()
        if SEVERITIES.index(each.severity) > SEVERITIES.index(entry.severity):
            entry.severity = each.severity
        entry.members[each.member] = entry.seen[each.member] = None
        entry.lost.discard(each.member)
        entry.pages = entry.pages or each.pages
        entry.hosts |= each.hosts | ({each.member.host} if each.member.host is not None else set())
        if each.steps is not None:
            first = each.steps[0] if entry.steps is None else min(entry.steps[0], each.steps[0])
            entry.steps = (first, max(each.steps[1], first))
        if _is_worse(each.measured, entry.measured):
            entry.measured = each.measured
        entry.is_specified = each.is_specified if each.is_specified is not None else entry.is_specified
        entry.detail = each.detail or entry.detail

    def end(self, key: Key, member: Member, end_ns: int) -> None:
        """It no longer holds for this member; over where that was the last."""
        entry = self._entries.get(key)
        if entry is None or entry.end_ns is not None:
            return
        entry.members.pop(member, None)
        entry.lost.discard(member)
        if not entry.members:
            entry.end_ns = max(end_ns, entry.onset_ns)

    def lose(self, key: Key, member: Member) -> None:
        """Its numbers stopped coming."""
        entry = self._entries.get(key)
        if entry is not None and entry.end_ns is None and member in entry.members:
            entry.lost.add(member)

    def find(self, key: Key, member: Member) -> None:
        """They come again."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.lost.discard(member)

    def end_run(self, job: str, run: str, end_ns: int) -> None:
        """The run ended, and what was of it with it."""
        for entry in self._entries.values():
            if (entry.job, entry.run) == (job, run) and entry.end_ns is None:
                entry.end_ns = max(end_ns, entry.onset_ns)

    def open_of(self, job: str, run: str) -> tuple[Entry, ...]:
        """What holds of a run."""
        return tuple(
            each for each in self._entries.values() if (each.job, each.run) == (job, run) and not each.end_ns
        )

    def heed(self, alarms: Iterable[Alarm], hosts: frozenset[str]) -> None:
        """Alarms of another watch."""
        for each in alarms:
            about = each.about
            self._others[each.id] = Claim(
                each.condition, about, hosts | set(about.hosts), each.onset_ns, each.end_ns,
                each.severity == "info",
            )  # fmt: skip

    def changed(self) -> list[Alarm]:
        """Alarms that are new, changed or over since the last time."""
        now_ns = self.now_ns
        self._explain()
        told = []
        for entry in self._entries.values():
            self._pay(entry, now_ns)
            alarm = self._alarm(entry)
            if entry.told is None or _differs(alarm, entry.told):
                entry.told = alarm
                told.append(alarm)
        self._forget(now_ns)
        return told

    def _explain(self) -> None:
        """Every alarm to the one that explains it, through chains to their end."""
        entries = list(self._entries.values())
        if len(entries) + len(self._others) < 2:
            return
        ids = [each.id for each in entries] + list(self._others)
        claims = [each.claim for each in entries] + list(self._others.values())
        by: dict[str, str] = {}
        for place, entry in enumerate(entries):
            if entry.end_ns is not None:
                continue
            found = cause_of(claims[place], claims)
            if found is not None and found != place:
                by[entry.id] = ids[found]
        for entry in entries:
            if entry.end_ns is None and entry.id in by:
                entry.inhibited_by = _root(entry.id, by)

    def _pay(self, entry: Entry, now_ns: int) -> None:
        """A page of the job's budget, where the alarm needs one."""
        if entry.inhibited_by is not None or not entry.pages or entry.end_ns is not None:
            return
        if not entry.condition.is_bound_by_budget or entry.severity == "critical" or entry.job is None:
            return
        if entry.is_held_back is None:
            entry.is_held_back = not self.spent.may_page(entry.job, now_ns)

    def _alarm(self, entry: Entry) -> Alarm:
        about = entry.about
        is_lost = bool(entry.members) and entry.lost >= set(entry.members) and entry.end_ns is None
        en, zh = line_of(entry.condition, about, entry.measured, entry.detail, is_lost=is_lost)
        # What became critical after its page was refused is told all the same.
        pages = entry.pages and (not entry.is_held_back or entry.severity == "critical")
        return Alarm(
            id=entry.id,
            condition=entry.condition.id,
            level=entry.condition.level,
            severity=entry.severity,
            about=about,
            onset_ns=entry.onset_ns,
            seen_ns=entry.seen_ns,
            end_ns=entry.end_ns,
            steps=entry.steps,
            measured=entry.measured,
            is_specified=entry.is_specified,
            inhibited_by=entry.inhibited_by,
            text=en,
            text_zh=zh,
            pages=pages,
        )

    def _forget(self, now_ns: int) -> None:
        old = now_ns - COOL_DOWN_NS
        for key, entry in list(self._entries.items()):
            if entry.end_ns is not None and entry.end_ns < old and entry.seen_ns < old:
                del self._entries[key]
        for id_, claim in list(self._others.items()):
            if claim.end_ns is not None and claim.end_ns < old:
                del self._others[id_]


def _differs(alarm: Alarm, told: Alarm) -> bool:
    """Whether somebody wants to hear of it again: not of every number that moved a little."""
    quiet = {"measured": None, "steps": None, "text": "", "text_zh": ""}
    if msgspec.structs.replace(alarm, **quiet) != msgspec.structs.replace(told, **quiet):
        return True
    return alarm.text.endswith(LOST.en) != told.text.endswith(LOST.en)





def _is_worse(new: Measured | None, old: Measured | None) -> bool:
    if new is None or old is None:
        return new is not None
    return abs(new.effect or 0.0) >= abs(old.effect or 0.0)


def _root(start: str, by: dict[str, str]) -> str:
    """The end of the chain; in a ring the next one."""
    seen, at = {start}, by[start]
    while at in by and by[at] not in seen:
        seen.add(at)
        at = by[at]
    return at


def _id(key: Sequence[str], onset_ns: int) -> str:
    return sha256("\0".join((*key, str(onset_ns))).encode()).hexdigest()[:16]
