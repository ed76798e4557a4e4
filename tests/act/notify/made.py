"""An incident, a notice and a store of documents, as small as they can be."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepscope.act.notify.channel import Message, Sent, Settings
from stepscope.model.alarm import About
from stepscope.model.incident import Incident
from stepscope.model.notice import ChangeOffer, Notice

NS = 1_000_000_000
BEGIN_NS = 1_750_000_000 * NS
"""2025-06-15 15:06:40 UTC."""


OFFER = ChangeOffer(
    text="Raise num_workers.",
    patch=("- DataLoader(d)", "+ DataLoader(d, num_workers=8)"),
    gain="29 % to at most 34 %",
    verify="idle_input_share <= 5 %",
)


def incident(**more: object) -> Incident:
    told: dict[str, object] = {
        "id": "i-1", "about": About(job="llm", ranks=(3,), hosts=("node-7",)), "severity": "warning",
        "title": "The device waits for its next batch", "title_zh": "设备在等待下一个批次",
        "onset_ns": BEGIN_NS, "onset_step": 120, "opened_ns": BEGIN_NS + 9 * NS, "rule": "input-starvation",
    }  # fmt: skip
    return Incident(**(told | more))  # type: ignore[arg-type]


def notice(**more: object) -> Notice:
    told: dict[str, object] = {
        "incident": "i-1", "state": "open", "severity": "warning", "lang": "en",
        "title": "The device waits for its next batch", "verdict": "Waiting for data, 34 % of the step.",
        "rule": "input-starvation", "confidence": "high", "job": "llm", "ranks": (0, 1, 2, 3, 7),
        "hosts": ("node-7",), "levels": ("performance",), "onset_ns": BEGIN_NS, "onset_step": 120,
        "cost": "costs 34 % (170 ms a step)", "evidence": ("idle_input_share 34 % (>= 10 %)",),
        "checks": ("Read num_workers.", "Feed one batch again and again."),
        "changes": (OFFER,),
        "unknown": ("host_cpu_busy (needs host counters)",), "next": "stepscope diagnose NEW_TRACE",
    }  # fmt: skip
    return Notice(**(told | more))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Kept:
    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


@dataclass
class Documents:
    """The documents of a store, in memory: what is kept is there for whoever comes after a kill."""

    kept: dict[tuple[str, str], Kept] = field(default_factory=dict)

    def put(self, kind: str, id: str, body: bytes, *, job=None, run=None, at_ns: int) -> None:  # type: ignore[no-untyped-def]
        self.kept[kind, id] = Kept(kind, id, job, run, at_ns, body)

    def get(self, kind: str, id: str) -> bytes | None:
        found = self.kept.get((kind, id))
        return None if found is None else found.body

    def documents(self, kind: str, **_: object) -> tuple[Kept, ...]:
        rows = [each for each in self.kept.values() if each.kind == kind]
        return tuple(sorted(rows, key=lambda each: -each.at_ns))


@dataclass
class Composer:
    """The notice of whatever incident is in `now`."""

    now: dict[str, Incident] = field(default_factory=dict)

    def notice(self, incident: str, event: str, settings: Settings) -> Notice | None:
        found = self.now.get(incident)
        if found is None:
            return None
        state = "ended" if event == "ended" else found.state
        about = found.about
        return notice(
            incident=found.id, state=state, severity=found.severity, job=about.job, ranks=about.ranks,
            hosts=about.hosts, ended_ns=found.ended_ns,
        )  # fmt: skip

    def text(self, notice: Notice, markup: str) -> tuple[str, str]:
        return notice.title, f"{notice.state} {notice.severity} {notice.num_held_back} {notice.hosts}"


@dataclass
class Recorder:
    """A sender that notes what it is sent, and answers as it is told."""

    answers: list[Sent] = field(default_factory=list)
    got: list[Message] = field(default_factory=list)
    repeats_s: float | None = None
    markup: str = "text"
    shown: str = "here"

    def send(self, message: Message) -> Sent:
        self.got.append(message)
        return self.answers.pop(0) if self.answers else Sent(True)

    def preview(self, message: Message) -> str:
        return message.body
