"""The book of alarms: one entry a condition and cause, told when it is new, when it changes, when it is over.

Alarms of many devices or ranks of one job are one; one that comes again soon is the same; what another
explains is marked so. An alarm keeps its id: whoever hears of an id again replaces what there was.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256

import msgspec

from stepscope.detect.alert.budget import Budget, Spent
from stepscope.detect.alert.entry import Entry, Fired, Key, Member
from stepscope.detect.alert.relation import Claim, cause_of
from stepscope.detect.alert.wording import LOST, line_of
from stepscope.model.alarm import SEVERITIES, Alarm, Measured

NS = 1_000_000_000
AGAIN_NS = 20 * NS
"""What comes again within it is the same alarm; later it is another one, with a beginning of its own."""
KEPT_NS = 600 * NS
"""What is over may be the cause of what begins so long after."""


class Book:
    """All alarms that hold, or held until lately. `others` are alarms that another watch makes: they explain,
    and are not told from here."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.spent = Spent(budget or Budget())
        self.now_ns = 0
        """Our own time, of this tick: whoever turns it sets it."""
        self._entries: dict[Key, Entry] = {}
        self._others: dict[str, Claim] = {}
        self._past: list[Entry] = []
        """Over, and another of its key came since."""

    def fire(self, each: Fired) -> None:
        """It holds, as of now; told by the next `changed`."""
        entry = self._entries.get(each.key)
        if entry is not None and entry.end_ns is not None and each.onset_ns - entry.end_ns > AGAIN_NS:
            self._past.append(entry)
            entry = None
        if entry is None:
            entry = self._entries[each.key] = Entry(
                each.condition, each.key, each.job, each.run, each.onset_ns,
                max(self.now_ns, each.onset_ns), each.severity, each.pages, _id(each.key, each.onset_ns),
            )  # fmt: skip
        if entry.end_ns is not None:
            entry.begin_again(each.onset_ns, max(self.now_ns, each.onset_ns), each.severity)
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
        if each.is_specified is not None:
            entry.is_specified = bool(entry.is_specified) or each.is_specified
        entry.detail = each.detail or entry.detail

    def confirm(self, ids: Collection[str]) -> None:
        """A cause was found for these alarms: their pages were right, and the budget has them back."""
        for entry in self._all():
            if entry.id in ids and not entry.is_confirmed and entry.job is not None:
                entry.is_confirmed = True
                if entry.is_held_back is False and self.spent.refund(entry.job):
                    for each in self._entries.values():
                        if each.job == entry.job and each.is_held_back and each.end_ns is None:
                            each.is_held_back = None

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
                each.condition, about, hosts | set(about.hosts), each.onset_ns, each.end_ns, False
            )  # fmt: skip

    def changed(self) -> list[Alarm]:
        """Alarms that are new, changed or over since the last time."""
        now_ns = self.now_ns
        self._explain()
        told = []
        for entry in self._all():
            if entry.told is None and entry.end_ns is not None:
                continue  # over before anybody heard of it: as where an old window is looked at again
            self._pay(entry, now_ns)
            alarm = self._alarm(entry)
            if entry.told is None or _differs(alarm, entry.told):
                entry.told = alarm
                told.append(alarm)
        self._forget(now_ns)
        return told

    def _all(self) -> list[Entry]:
        """Oldest first, of one key."""
        return [*self._past, *self._entries.values()]

    def _explain(self) -> None:
        """Every alarm to the one that explains it, through chains to their end."""
        entries = self._all()
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
        of_id = {each.id: each for each in entries}
        for entry in entries:
            if entry.end_ns is None and entry.id in by:
                entry.inhibited_by = _root(entry.id, by)
                self._hand_over(entry, of_id.get(entry.inhibited_by))

    def _hand_over(self, effect: Entry, cause: Entry | None) -> None:
        """A page that was spent on an effect is the cause's, once that is known."""
        if cause is None or effect.is_held_back is not False or cause.is_held_back is False:
            return
        if cause.is_held_back and cause.job is not None:
            self.spent.give_back(cause.job)
        cause.is_held_back = False

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
        old = now_ns - KEPT_NS
        self._past = [each for each in self._past if max(each.end_ns or 0, each.seen_ns) >= old]
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
