"""From an alarm to the card, over a simulated job: the right cause and ranks, once, and nothing of a healthy
job."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.act.capture.request import Request
from stepscope.model.alarm import About, Alarm
from stepscope.model.error import RefusedError
from stepscope.model.incident import Incident
from stepscope.model.report import Report
from stepscope.offline.stored import Asked, Window, diagnose_window
from stepscope.server.feed import Feed
from stepscope.server.judge import Judge, Settings
from tests.server.judge_store import JudgeStore
from tests.server.simulated import NS, Watched

FAULTS = (
    # fault, condition of the alarm, rule of the card, its ranks
    ("loader-stall#1:severe", "data-wait-up", "input-starvation", (1,)),
    ("straggler#2:severe", "rank-slow", "slow-rank", (2,)),
    ("thermal-throttle#1:severe", "clock-thermal", "thermal-throttle", (1,)),
    ("pageable-copy:severe", "step-slow", "pageable-copies", (0, 1, 2, 3)),
    ("cpu-contention:severe", "step-slow", "busy-cores", (0, 1, 2, 3)),
    ("wrong-transport:severe", "communication-up", "slow-transfer", (0, 1, 2, 3)),
    ("power-cap:severe", "power-capped", "power-cap", (0, 1, 2, 3)),
    ("clock-lock:severe", "clock-locked", "locked-clock", (0, 1, 2, 3)),
    ("fragmentation:medium", "step-slow", "allocator-thrash", (0, 1, 2, 3)),
)


@dataclass
class Made:
    """As `server.capture` says it."""

    id: int
    job: str
    run: str
    state: str
    steps: tuple[int, int] | None = None
    ranks: tuple[int, ...] = ()
    refusal: str | None = None


@dataclass
class Asking:
    """Captures of a simulated job, made when `make` is called; or refused."""

    watched: Watched
    store: JudgeStore
    feed: Feed
    refusal: str | None = None
    asked: list[Request] = field(default_factory=list)
    stacks: list[str] = field(default_factory=list)

    def ask(self, job: str, run: str, request: Request, *, by: str, why: str) -> Made:
        if self.refusal is not None:
            raise RefusedError(self.refusal)
        self.asked.append(request)
        return Made(len(self.asked), job, run, "agreeing", ranks=(0, 1, 2, 3))

    def ask_stacks(self, job: str, run: str, *, by: str, why: str) -> bool:
        self.stacks.append(job)
        return True

    def make(self) -> Made:
        """What was asked last, done."""
        number, request = len(self.asked), self.asked[-1]
        paths, steps = self.watched.capture(request.num_steps, number)
        self.store.keep(self.watched.batches[len(self.store.kept) :])
        row = self.store.runs()[0]
        for path in paths:
            rank = int(Path(path).name.partition("-")[0].removeprefix("rank"))
            self.store.put_trace(row.job, row.run, number, Path(path).name, rank, Path(path).read_bytes())
        return Made(number, row.job, row.run, "done", steps, (0, 1, 2, 3))


class Loop:
    """A judge over a job. `told` are the cards."""

    def __init__(self, folder: Path, watched: Watched, **settings: Any) -> None:
        self.watched = watched
        self.store = JudgeStore(folder)
        self.store.keep(watched.batches)
        self.feed = Feed()
        self.asking = Asking(watched, self.store, self.feed)
        self.told: list[tuple[Incident, Report]] = []
        self.feed.listen("card", self.told.append)
        self.looks: list[Window] = []
        self.ahead_ns = 0
        self.settings = settings
        self.judge = self.another()

    def another(self) -> Judge:
        """A judge on the same store."""
        return Judge(
            self.store, self.feed, self.asking, self._diagnose,
            lambda: self.watched.now_ns + self.ahead_ns, Settings(**self.settings),
        )  # fmt: skip

    def _diagnose(self, window: Window, asked: Asked) -> Report:
        self.looks.append(window)
        return diagnose_window(window, asked).report

    def alarm(self, condition: str, onset_ns: int, *ranks: int, **more: Any) -> Alarm:
        """An alarm of a condition, heard by the judge."""
        row = self.store.runs()[0]
        given = {"level": "performance", "severity": "warning", "text": condition, **more}
        alarm = Alarm(
            id=f"{condition}-{onset_ns}-{ranks}", condition=condition,
            about=About(job=row.job, run=row.run, ranks=ranks),
            onset_ns=onset_ns, seen_ns=self.judge.now_ns(), **given,
        )  # fmt: skip
        self.feed.tell("alarm", alarm)
        self.judge.turn()
        return alarm

    def traces(self) -> None:
        """The capture that was asked for is made, and its traces come."""
        self.feed.tell("capture", self.asking.make())
        self.judge.turn()

    def incidents(self) -> list[Incident]:
        """As they are stored, oldest first."""
        found = [msgspec.json.decode(each.body, type=Incident) for each in self.store.documents("incident")]
        return found[::-1]


def faulty(folder: Path, fault: str | None, **settings: Any) -> tuple[Loop, int]:
    """A job that ran well for 20 s and with this fault for 10 s: the loop over it, and when it began."""
    watched = Watched(folder / "job", ranks=4)
    watched.until(20)
    onset = watched.now_ns
    if fault is not None:
        watched.job.service.switch(f"{fault} on")
    watched.until(30)
    return Loop(folder, watched, **settings), onset


@pytest.mark.parametrize(("fault", "condition", "rule", "ranks"), FAULTS)
def test_the_card_names_the_cause_and_the_ranks(
    tmp_path: Path, fault: str, condition: str, rule: str, ranks: tuple[int, ...]
) -> None:
    loop, onset = faulty(tmp_path, fault)
    level = "resource" if rule in ("thermal-throttle", "power-cap", "locked-clock") else "performance"
    loop.alarm(condition, onset + NS, level=level)
    if loop.asking.asked:
        loop.traces()
    incident, report = loop.told[-1]
    assert (incident.rule, incident.card) == (rule, rule)
    assert incident.about.ranks == ranks
    (card,) = [each for each in report.cards if each.id == rule]
    assert abs((card.onset_ns or 0) - onset) < 2 * NS
    assert incident.state == "open"
    assert [each.rule for each, _ in loop.told] == [rule]
    assert loop.store.get("report", incident.report or "") is not None
