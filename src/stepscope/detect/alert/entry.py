"""One alarm as the book has it, and what makes it: a condition that holds for a device, a rank or a job."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.relation import Claim
from stepscope.model.alarm import About, Alarm, AlarmSeverity, Measured
from stepscope.model.text import Text

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
    detail: Text | None = None
    inhibited_by: str | None = None
    is_held_back: bool | None = None
    """Its page was refused by the budget; `None` where none was asked for."""
    is_confirmed: bool = False
    """A cause was found for it."""
    told: Alarm | None = None

    def begin_again(self, onset_ns: int, seen_ns: int, severity: AlarmSeverity) -> None:
        """It was over and holds anew: the same alarm, but whose it was, how bad and why was of then."""
        self.onset_ns, self.seen_ns, self.end_ns, self.severity = onset_ns, seen_ns, None, severity
        for kept in (self.members, self.seen, self.lost):
            kept.clear()
        self.steps = self.measured = self.is_specified = self.detail = self.inhibited_by = None

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
            self.condition.id, self.about, self.hosts, self.onset_ns, self.end_ns,
            self.condition.how == "event" and self.severity == "info",
        )  # fmt: skip


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
    detail: Text | None = None
    """In words, where there is no number."""
    pages: bool = True
    hosts: frozenset[str] = frozenset()

    @property
    def key(self) -> Key:
        whose = ("", self.member.host or "") if self.job is None else (self.job, self.run or "")
        return (self.condition.id, *whose, self.part)
