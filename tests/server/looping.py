"""A judge over a simulated job, with captures that a test makes when it likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

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

__all__ = ["NS", "Loop", "Made", "Played", "faulty"]


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
    ready: tuple[list[str], tuple[int, int]] | None = None
    """Traces that were made beforehand."""

    def ask(self, job: str, run: str, request: Request, *, by: str, why: str) -> Made:
        if self.refusal is not None:
            raise RefusedError(self.refusal)
        self.asked.append(request)
        return Made(len(self.asked), job, run, "agreeing", ranks=(0, 1))

    def ask_stacks(self, job: str, run: str) -> tuple[int, ...]:
        self.stacks.append(job)
        return (0, 1)

    def make(self) -> Made:
        """What was asked last, done."""
        number, request = len(self.asked), self.asked[-1]
        paths, steps = self.ready or self.watched.capture(request.num_steps, number)
        self.store.keep(self.watched.batches[len(self.store.kept) :])
        row = self.store.runs()[0]
        for path in paths:
            rank = int(Path(path).name.partition("-")[0].removeprefix("rank"))
            self.store.put_trace(row.job, row.run, number, Path(path).name, rank, Path(path).read_bytes())
        return Made(number, row.job, row.run, "done", steps, (0, 1))


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
        self.settings = {"counters_ns": 0, **settings}  # the job stands still: more do not come
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
        self.tell(alarm)
        return alarm

    def over(self, alarm: Alarm) -> None:
        """This alarm has ended."""
        self.tell(msgspec.structs.replace(alarm, end_ns=self.judge.now_ns()))

    def tell(self, alarm: Alarm) -> None:
        """An alarm in its newest form."""
        self.feed.tell("alarm", alarm)
        self.judge.turn()

    def catch_up(self) -> None:
        """What the job did meanwhile is in the store."""
        self.store.keep(self.watched.batches[len(self.store.kept) :])

    def traces(self) -> None:
        """The capture that was asked for is made, and its traces come."""
        self.feed.tell("capture", self.asking.make())
        self.judge.turn()

    def incidents(self) -> list[Incident]:
        """As they are stored, oldest first."""
        found = [msgspec.json.decode(each.body, type=Incident) for each in self.store.documents("incident")]
        return found[::-1]


@dataclass(frozen=True)
class Played:
    """A job that was played beforehand: for tests that only read it. `onset_ns` is when its fault began."""

    watched: Watched
    onset_ns: int
    ready: tuple[list[str], tuple[int, int]]

    def loop(self, folder: Path, **settings: Any) -> Loop:
        """A new loop over it."""
        loop = Loop(folder, self.watched, **settings)
        loop.asking.ready = self.ready
        return loop


def played(folder: Path, fault: str | None) -> Played:
    """A job as `faulty` has it, with a capture behind."""
    loop, onset = faulty(folder, fault)
    return Played(loop.watched, onset, loop.watched.capture())


def faulty(folder: Path, fault: str | None, ranks: int = 2) -> tuple[Loop, int]:
    """A job that ran well for 10 s and with this fault for 9 s: the loop over it, and when it began."""
    watched = Watched(folder / "job", ranks=ranks)
    watched.until(10)
    onset = watched.now_ns
    if fault is not None:
        watched.job.service.switch(f"{fault} on")
    watched.until(19)
    return Loop(folder, watched), onset
