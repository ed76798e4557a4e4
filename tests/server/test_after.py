"""After the change: which windows are compared, what is said of the change, and when an incident is over."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from stepscope.analyse.compare.marked import MarkedWindow
from stepscope.analyse.compare.side import StepSeries
from stepscope.diagnose.gain import gain_of
from stepscope.model import report
from stepscope.model.alarm import About, Alarm
from stepscope.model.error import UsageError
from stepscope.model.incident import Change, Incident
from stepscope.model.mark import Identity, Phases, RankMarks, Steps
from stepscope.model.report import encode
from stepscope.server.after import HOUR_NS, After, Waits
from stepscope.server.feed import Feed
from stepscope.store.contract import RunRow
from tests.diagnose import build

MS, S = 10**6, 10**9
START_NS = 1_700_000_000 * S


class Doc(msgspec.Struct, frozen=True):
    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


class Kept:
    """Of a store what the closed loop asks: runs, marks and documents."""

    def __init__(self) -> None:
        self.rows: list[RunRow] = []
        self.steps: dict[str, list[tuple[int, int]]] = {}
        self.tokens: dict[str, float] = {}
        self.world: dict[str, int] = {}
        self.docs: dict[tuple[str, str], Doc] = {}

    def add_run(self, run: str, start_ns: int, took_ns: list[int], tokens: float = 1e4, **labels: str) -> int:
        at, steps = start_ns, []
        for each in took_ns:
            steps.append((at, at + each))
            at += each
        self.steps[run] = self.steps.get(run, []) + steps
        self.tokens[run] = tokens
        self.rows = [row for row in self.rows if row.run != run]
        first = self.steps[run][0][0]
        self.rows.append(RunRow("j", run, first, at, False, 2, ("h",), labels))
        return at

    def runs(self, job: str | None = None) -> tuple[RunRow, ...]:
        return tuple(self.rows)

    def marks(self, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
        mine = [each for each in self.steps[run] if start_ns <= each[0] and each[1] <= end_ns]
        return tuple(self._rank(rank, run, mine) for rank in range(2))

    def _rank(self, rank: int, run: str, mine: list[tuple[int, int]]) -> RankMarks:
        num = len(mine)
        no, nan = np.zeros(num, dtype=bool), np.full(num, np.nan)
        start, end = (np.array([each[n] for each in mine], dtype=np.int64) for n in (0, 1))
        number = np.array([self.steps[run].index(each) for each in mine], dtype=np.int64)
        none = np.empty(0, dtype=np.int64)
        return RankMarks(
            Identity(job="j", run=run, rank=rank, world_size=self.world.get(run, 2)),
            Steps(number, start, end, np.full(num, self.tokens[run]), nan, nan, no, no, no),
            Phases(none.astype(np.int32), none.astype(np.int32), none, none, none, none.astype(bool)),
            is_alive=True,
        )

    def put(self, kind, id, body, *, job=None, run=None, at_ns):  # type: ignore[no-untyped-def]
        self.docs[kind, id] = Doc(kind, id, job, run, at_ns, body)

    def get(self, kind: str, id: str) -> bytes | None:
        found = self.docs.get((kind, id))
        return found.body if found else None

    def documents(self, kind, *, job=None, start_ns=None, end_ns=None, limit=1000):  # type: ignore[no-untyped-def]
        rows = [d for d in self.docs.values() if d.kind == kind and (start_ns is None or d.at_ns >= start_ns)]
        return tuple(sorted(rows, key=lambda d: -d.at_ns)[:limit])


def steps(random: np.random.Generator, num: int, mean_ms: float, sigma: float = 0.02) -> list[int]:
    return [int(each) for each in random.normal(mean_ms * MS, sigma * mean_ms * MS, num)]


class World:
    """A job that ran well for 200 steps, then slowly for 150; an incident was opened on it."""

    def __init__(self, slow_ms: float = 140.0) -> None:
        self.store, self.feed, self.told = Kept(), Feed(), []  # type: ignore[var-annotated]
        self.random = np.random.default_rng(1)
        self.onset_ns = self.store.add_run("r1", START_NS, steps(self.random, 200, 100), commit="aaa")
        self.now_ns = self.store.add_run("r1", self.onset_ns, steps(self.random, 150, slow_ms), commit="aaa")
        self.feed.listen("incident", self.told.append)
        self.after = After(self.store, self.feed, lambda: self.now_ns)  # type: ignore[arg-type]
        whole = build.input_starved("en")
        finding = msgspec.structs.replace(
            whole.findings[0],
            remedies=(report.Remedy(id="input-starvation#1", text="t", gain_share=(0.2, 0.33), verify="v"),),
        )
        self.store.put("report", "rep", encode(msgspec.structs.replace(whole, findings=(finding,))), at_ns=1)
        self.incident = Incident(
            id="i1", about=About(job="j", run="r1"), severity="critical", title="slow", report="rep",
            onset_ns=self.onset_ns, opened_ns=self.onset_ns + 5 * S,
        )  # fmt: skip
        self.put(self.incident)

    def put(self, incident: Incident) -> None:
        self.store.put("incident", incident.id, msgspec.json.encode(incident), at_ns=incident.opened_ns)

    def now(self) -> Incident:
        body = self.store.get("incident", "i1")
        assert body is not None
        return msgspec.json.decode(body, type=Incident)

    def run_on(self, run: str, num: int, mean_ms: float, tokens: float = 1e4, **labels: str) -> None:
        self.now_ns = self.store.add_run(
            run, self.now_ns, steps(self.random, num, mean_ms), tokens, **({"commit": "aaa"} | labels)
        )

    def change(self, **given: str) -> Incident:
        return self.after.change(
            "i1",
            Change(at_ns=self.now_ns, what="more workers", by="ann", remedy="input-starvation#1", **given),
        )


def test_a_change_that_worked_is_verified_with_predicted_and_realised_gain() -> None:
    world = World()
    world.after.acknowledge("i1", "ann", "mine")
    world.change()
    world.run_on("r1", 150, 100)
    (done,) = world.after.tick()
    gain = done.gain
    assert done.state == "verified"
    assert gain is not None
    assert (gain.verdict, gain.predicted) == ("better", (0.2, 0.33))
    assert gain.realised == pytest.approx(1 - 100 / 140, abs=0.01)
    assert gain.noise is not None
    assert 0 < gain.noise < 0.03
    assert gain.why is not None
    assert gain.why.endswith("100 ms before the incident: as fast as before it")
    assert [each.state for each in world.told] == ["acknowledged", "changed", "verified"]
    assert world.after.tick() == []  # said once


def test_a_change_that_won_half_says_what_is_left() -> None:
    world = World()
    world.change()
    world.run_on("r1", 150, 120)
    (done,) = world.after.tick()
    assert done.state == "verified"
    assert done.gain is not None
    assert "% slower than before it" in (done.gain.why or "")


def test_a_change_that_won_nothing_is_not_verified() -> None:
    world = World()
    world.change()
    world.run_on("r1", 150, 140)
    (done,) = world.after.tick()
    assert (done.state, done.gain.verdict if done.gain else None) == ("not_verified", "same")


def test_an_earlier_fault_of_the_hour_is_no_noise_of_the_healthy_job() -> None:
    world = World()
    store = world.store
    store.steps, store.rows = {}, []
    at = START_NS
    spans = []
    for mean_ms, num in ((100, 180), (400, 130), (100, 180), (250, 130), (100, 180)):
        begun, at = at, store.add_run("r1", at, steps(world.random, num, mean_ms))
        spans += [(begun, at)] if mean_ms > 100 else []
    onset_ns, world.now_ns = at, store.add_run("r1", at, steps(world.random, 150, 140))
    mine = msgspec.structs.replace(world.incident, onset_ns=onset_ns, opened_ns=onset_ns + 5 * S)
    world.put(mine)
    # One fault was an incident of its own, the other's alarm only joined one.
    world.put(
        msgspec.structs.replace(
            mine, id="i0", onset_ns=spans[0][0], opened_ns=spans[0][0], ended_ns=spans[0][1]
        )
    )
    alarm = Alarm(
        id="a1", condition="data-wait-up", level="performance", severity="critical",
        about=About(job="j", run="r1"), onset_ns=spans[1][0], seen_ns=spans[1][0], end_ns=spans[1][1],
    )  # fmt: skip
    store.put("alarm", "a1", msgspec.json.encode(alarm), job="j", run="r1", at_ns=alarm.onset_ns)
    world.change()
    world.run_on("r1", 150, 140)
    done = next(each for each in world.after.tick() if each.id == "i1")
    assert done.state == "not_verified"
    assert done.gain is not None
    assert done.gain.noise is not None
    assert done.gain.noise < 0.05
    assert "still 40" in (done.gain.why or "")


def test_no_faster_and_its_alarms_still_hold_is_not_verified_however_wide_the_noise() -> None:
    random = np.random.default_rng(3)

    def window(*of: int) -> MarkedWindow:
        took = np.array([each for mean_ms in of for each in steps(random, 60, mean_ms)], dtype=np.float64)
        return MarkedWindow(StepSeries(np.arange(len(took)), took, took), None, 2)

    healthy, ill = window(*(100,) * 6, 400, 400, *(100,) * 6), window(800)
    gain = gain_of(healthy, ill, window(800), None, are_alarms_over=False)
    assert gain.noise is not None
    assert gain.noise > 0.5
    assert gain.verdict == "same"
    assert (gain.why or "").startswith("steps are no faster, and its alarms still hold: ")
    gain = gain_of(healthy, ill, window(600), None, are_alarms_over=False)
    assert gain.verdict == "unknown"
    assert "earlier windows of the job differ by ±" in (gain.why or "")


def test_under_sixty_clean_steps_nothing_is_said() -> None:
    world = World()
    world.change()
    world.run_on("r1", 60, 100)  # of which ten are left out: what was on its way belongs to neither
    assert world.after.tick() == []
    world.run_on("r1", 20, 100)
    assert [each.state for each in world.after.tick()] == ["verified"]


def test_a_new_run_with_other_labels_is_taken_for_the_change_and_judged_by_its_own_steps() -> None:
    world = World()
    world.run_on("r2", 30, 100, commit="bbb", num_workers="8")
    (done,) = world.after.tick()
    assert done.state == "changed"
    assert done.change is not None
    assert (done.change.by, done.change.run, done.change.commit) == ("stepscope", "r2", "bbb")
    assert done.change.config["num_workers"] == (None, "8")
    assert "inferred" in done.history[-1].what
    world.run_on("r2", 100, 100, commit="bbb", num_workers="8")
    (done,) = world.after.tick()
    assert (done.state, done.change.run if done.change else None) == ("verified", "r2")


def test_a_new_run_with_the_same_labels_is_no_change() -> None:
    world = World()
    world.run_on("r2", 100, 100)
    assert world.after.tick() == []


def test_a_change_that_is_told_is_completed_from_the_labels_of_the_new_run() -> None:
    world = World()
    world.run_on("r2", 10, 100, commit="bbb", num_workers="8")
    done = world.change()
    assert done.change is not None
    assert (done.change.run, done.change.commit, done.change.by) == ("r2", "bbb", "ann")
    assert done.change.config == {"commit": ("aaa", "bbb"), "num_workers": (None, "8")}


def test_a_run_that_begins_after_the_change_was_told_completes_it_when_it_is_judged() -> None:
    world = World()
    assert world.change().change == Change(
        at_ns=world.now_ns, what="more workers", by="ann", remedy="input-starvation#1"
    )
    world.run_on("r2", 100, 100, commit="bbb")
    (done,) = world.after.tick()
    assert done.state == "verified"
    assert done.change is not None
    assert (done.change.run, done.change.commit) == ("r2", "bbb")


def test_other_work_behind_the_change_is_compared_by_token() -> None:
    world = World()
    world.run_on("r2", 100, 200, tokens=2e4, commit="bbb")  # twice the batch in 1.43 times the time
    (done, *_), _ = world.after.tick(), None
    (done,) = world.after.tick()
    assert done.state == "verified"
    assert done.gain is not None
    assert done.gain.realised == pytest.approx(1 - 100 / 140, abs=0.02)
    assert "token" in (done.gain.why or "")


def test_another_number_of_ranks_is_not_compared() -> None:
    world = World()
    world.store.world["r2"] = 4
    world.run_on("r2", 100, 100, commit="bbb")
    world.after.tick()
    (done,) = world.after.tick()
    assert done.state == "changed"
    assert done.gain is not None
    assert done.gain.why == "not comparable: 2 ranks before, 4 now"
    assert world.after.tick() == []  # looked at again when there are twice as many steps


def test_an_incident_that_cost_no_time_is_judged_by_its_alarms() -> None:
    world = World(slow_ms=100)
    world.change()
    world.run_on("r1", 150, 100)
    (done,) = world.after.tick()
    assert (done.state, done.gain.verdict if done.gain else None) == ("changed", "unknown")
    world.put(msgspec.structs.replace(world.now(), ended_ns=world.now_ns))
    world.run_on("r1", 200, 100)
    (done,) = world.after.tick()
    assert done.state == "verified"
    assert done.gain is not None
    assert done.gain.realised is None


def test_a_verified_incident_is_closed_after_healthy_hours_and_not_before() -> None:
    world = World()
    world.after = After(
        world.store,
        world.feed,
        lambda: world.now_ns,
        waits=Waits(healthy_ns=2 * HOUR_NS),  # type: ignore[arg-type]
    )
    world.change()
    world.run_on("r1", 150, 100)
    world.after.tick()
    world.put(msgspec.structs.replace(world.now(), ended_ns=world.now_ns))
    world.now_ns += HOUR_NS
    assert world.after.tick() == []
    world.now_ns += HOUR_NS
    (done,) = world.after.tick()
    assert (done.state, done.closed_ns) == ("closed", world.now_ns)
    assert done.history[-1].what == "closed: no alarm for 2 hours since the change worked"
    lesson = world.after.lessons()["input-starvation#1"]
    assert (lesson.num_tried, lesson.num_worked) == (1, 1)


def test_what_nobody_knows_is_a_key_error_and_what_does_not_fit_is_refused() -> None:
    world = World()
    with pytest.raises(KeyError):
        world.after.acknowledge("i9", "ann")
    world.after.close("i1", "ann", "not ours")
    with pytest.raises(UsageError, match="is closed"):
        world.after.acknowledge("i1", "ann")
    assert world.after.reopen("i1", "ann", "back").state == "open"
