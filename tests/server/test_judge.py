"""From an alarm to the card, over a simulated job: the right cause and ranks, once, and nothing of a healthy
job."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepscope.model.alarm import About, Alarm
from stepscope.model.batch import Lines
from stepscope.model.incident import IncidentState
from stepscope.model.mark import RankMarks
from stepscope.server.judge import Judge, Worker
from stepscope.server.judge.handling import UNCONFIRMED_NS
from stepscope.views.notice import notice_of
from tests.agent.agents import until
from tests.server.looping import NS, Loop, Made, Played, faulty, played

FAULTS = (
    # fault, condition of the alarm, rule of the card, its ranks
    ("loader-stall#1:severe", "data-wait-up", "input-starvation", (1,)),
    ("straggler#1:severe", "rank-slow", "slow-rank", (1,)),
    ("thermal-throttle#1:severe", "clock-thermal", "thermal-throttle", (1,)),
    ("pageable-copy:severe", "step-slow", "pageable-copies", (0, 1)),
    ("cpu-contention:severe", "step-slow", "busy-cores", (0, 1)),
    ("wrong-transport:severe", "communication-up", "slow-transfer", (0, 1)),
    ("power-cap:severe", "power-capped", "power-cap", (0, 1)),
    ("clock-lock:severe", "clock-locked", "locked-clock", (0, 1)),
    ("fragmentation:medium", "step-slow", "allocator-thrash", (0, 1)),
)


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


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Rank 1 waits for its loader."""
    return played(tmp_path_factory.mktemp("slow"), "loader-stall#1:severe")


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Nothing is wrong."""
    return played(tmp_path_factory.mktemp("well"), None)


def test_an_alarm_that_no_report_confirms_is_dismissed_and_told_to_nobody(
    well: Played, tmp_path: Path
) -> None:
    loop = well.loop(tmp_path)
    loop.alarm("step-slow", well.onset_ns)
    loop.traces()
    (incident,) = loop.incidents()
    assert not loop.told
    assert (incident.state, incident.severity, incident.rule) == ("closed", "info", None)
    assert incident.history[-1].what.startswith("not confirmed: the report says healthy")
    assert loop.judge.handling.telling.num_dismissed == 1
    assert [each[2] for each in loop.store.summarised] == [1]


def test_steps_that_did_slow_are_told_though_no_cause_is_known(well: Played, tmp_path: Path) -> None:
    """A fact of the job itself (a device fault, say) is not dismissed because nothing costs time."""
    loop = well.loop(tmp_path)
    loop.alarm("ecc-uncorrected", well.onset_ns, level="resource", severity="critical", text="3 errors")
    ((incident, report),) = loop.told
    assert (incident.rule, incident.card, incident.severity) == (None, None, "critical")
    assert incident.title == "3 errors"
    assert report.verdict.class_ in ("undecided", "healthy")
    assert not loop.asking.asked


def test_a_second_alarm_of_the_same_cause_joins(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.alarm("step-slow", slow.onset_ns + NS)  # while the capture is under way
    loop.traces()
    loop.alarm("tokens-falling", slow.onset_ns + 2 * NS)  # behind the card
    (incident,) = loop.incidents()
    assert len(incident.alarms) == 3
    assert len(loop.told) == 1
    assert len(loop.asking.asked) == 1
    assert (loop.judge.handling.num_incidents, loop.judge.handling.num_joined) == (1, 2)


def test_another_cause_is_another_incident(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.traces()
    loop.alarm("xid", slow.onset_ns + 3 * NS, 0, level="resource", severity="critical", text="Xid 79")
    rules = [each.rule for each in loop.incidents()]
    assert rules == ["input-starvation", None]
    assert [each.title for each, _ in loop.told] == [
        "The device waits for its next batch (rank 1)",
        "Xid 79",
    ]


def test_an_alarm_whose_look_finds_the_known_cause_joins_it(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.traces()
    loop.alarm("communication-up", slow.onset_ns + 4 * NS, 0)  # rank 0 waits for rank 1
    loop.traces()
    assert len(loop.incidents()) == 1
    assert len(loop.told) == 1


def test_a_card_without_a_trace_says_so(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.asking.refusal = "no capture: 12 captures in the last hour, the budget is 12; wait"
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    ((incident, report),) = loop.told
    assert (incident.rule, incident.about.ranks) == ("input-starvation", (1,))
    assert (incident.capture.state, incident.capture.why) == ("refused", loop.asking.refusal)
    (card,) = [each for each in report.cards if each.id == "input-starvation"]
    assert card.notes[-1] == f"Without a trace, from marks and counters alone: {loop.asking.refusal}"


def test_traces_that_do_not_come_are_waited_for_only_so_long(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.ahead_ns = 19 * NS
    loop.judge.turn()
    assert not loop.told
    loop.ahead_ns = 61 * NS  # 24 slow steps may take longer than 20 s
    loop.judge.turn()
    ((incident, _),) = loop.told
    assert (incident.capture.state, incident.capture.why) == ("failed", "no traces in time")
    loop.traces()  # late: the report is the better one, and nobody is told again
    assert len(loop.told) == 1
    (incident,) = loop.incidents()
    assert incident.capture.state == "done"
    assert incident.report != loop.told[0][0].report


def test_a_capture_that_failed_says_why(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    row = loop.store.runs()[0]
    loop.feed.tell("capture", Made(1, row.job, row.run, "failed", refusal="rank 1 ended"))
    loop.judge.turn()
    ((incident, report),) = loop.told
    assert incident.capture.why == "rank 1 ended"
    assert "rank 1 ended" in report.cards[0].notes[-1]


def test_a_hang_asks_for_stacks_and_for_no_trace(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("hang", slow.onset_ns, level="task", severity="critical", text="no step for 30 s")
    assert (len(loop.asking.stacks), loop.asking.asked, loop.told) == (1, [], [])
    job = loop.store.runs()[0].job
    loop.feed.tell("batches", (Lines("a", 1, "h", "stacks", "1", [1], ["x"], {"job": job}),))
    loop.judge.turn()
    assert not loop.told  # those of other ranks come a moment later
    loop.ahead_ns = 2 * NS
    loop.judge.turn()
    ((incident, _),) = loop.told
    assert (incident.severity, incident.title) == ("critical", "no step for 30 s")
    assert not loop.asking.asked


def test_an_incident_ends_with_its_alarms_and_takes_them_up_again(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    first = loop.alarm("data-wait-up", slow.onset_ns, 1)
    second = loop.alarm("step-slow", slow.onset_ns)
    loop.traces()
    loop.over(first)
    assert loop.incidents()[0].ended_ns is None
    loop.over(second)
    assert loop.incidents()[0].ended_ns == loop.judge.now_ns()
    loop.ahead_ns += 10 * NS
    again = loop.alarm("data-wait-up", slow.watched.now_ns + 10 * NS, 1)  # without another look
    (incident,) = loop.incidents()
    assert (incident.ended_ns, len(incident.alarms), len(loop.told)) == (None, 3, 1)
    loop.over(again)
    loop.ahead_ns += 601 * NS
    loop.judge.turn()
    loop.alarm("data-wait-up", slow.onset_ns + 700 * NS, 1)
    assert len(loop.incidents()) == 2


def test_an_alarm_that_holds_again_later_is_looked_at_and_another_cause_is_another_incident(
    tmp_path: Path,
) -> None:
    """Twice the steps are slow, and the alarm has the same id: first for the loader, then for rank 1."""
    loop, onset = faulty(tmp_path, "loader-stall:severe")
    alarm = loop.alarm("step-slow", onset)
    loop.traces()
    job = loop.watched.job.service
    job.switch("all off")
    loop.watched.until(25)
    loop.catch_up()
    loop.over(alarm)
    loop.watched.until(60)
    again_ns = loop.watched.now_ns
    job.switch("straggler#1:severe on")
    loop.watched.until(70)
    loop.catch_up()
    loop.tell(msgspec.structs.replace(alarm, onset_ns=again_ns, seen_ns=again_ns))
    loop.traces()
    assert [each.rule for each in loop.incidents()] == ["input-starvation", "slow-rank"]
    assert [each.rule for each, _ in loop.told] == ["input-starvation", "slow-rank"]
    first, second = loop.incidents()
    assert first.ended_ns is not None
    assert (second.alarms, second.ended_ns) == ((alarm.id,), None)


def test_another_rank_after_a_recovery_is_another_incident_of_the_same_cause(tmp_path: Path) -> None:
    loop, onset = faulty(tmp_path, "straggler#1:severe", ranks=4)
    first = loop.alarm("rank-slow", onset, 1)
    loop.traces()
    job = loop.watched.job.service
    job.switch("all off")
    loop.watched.until(40)
    loop.catch_up()
    loop.over(first)
    loop.watched.until(75)
    again_ns = loop.watched.now_ns
    job.switch("straggler#3:severe on")
    loop.watched.until(84)
    loop.catch_up()
    loop.alarm("rank-slow", again_ns, 3)
    loop.traces()
    incidents = loop.incidents()
    assert [(each.rule, each.about.ranks) for each in incidents] == [("slow-rank", (1,)), ("slow-rank", (3,))]
    assert (incidents[0].ended_ns is None, incidents[1].ended_ns) == (False, None)
    assert [each.about.ranks for each, _ in loop.told] == [(1,), (3,)]


def _alarm_of(loop: Loop, run: str, condition: str, onset_ns: int, *ranks: int, **more: Any) -> Alarm:
    """An alarm of a run of the job, not told."""
    job = loop.store.runs()[0].job
    given = {"level": "performance", "severity": "critical", "text": condition, **more}
    return Alarm(
        id=f"{condition}-{run}-{onset_ns}", condition=condition, about=About(job=job, run=run, ranks=ranks),
        onset_ns=onset_ns, seen_ns=onset_ns, **given,
    )  # fmt: skip


def test_a_new_runs_alarm_joins_nothing_of_a_run_that_died(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.tell(_alarm_of(loop, "dead", "process-gone", slow.onset_ns - 5 * NS, level="task"))
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.traces()
    dead, mine = loop.incidents()
    assert (dead.about.run, len(dead.alarms)) == ("dead", 1)
    assert (mine.rule, mine.about.run) == ("input-starvation", loop.store.runs()[0].run)
    assert "input-starvation" in [each.rule for each, _ in loop.told]


def test_that_a_run_is_gone_is_over_once_a_newer_one_of_the_job_makes_steps(
    slow: Played, tmp_path: Path
) -> None:
    loop = slow.loop(tmp_path)
    (new,) = loop.store.runs()
    dead = dataclasses.replace(
        new, run="dead", start_ns=new.start_ns - 99 * NS, last_ns=new.start_ns - 9 * NS, is_over=True
    )
    rows = [dead]
    loop.store.runs = lambda job=None: tuple(rows)  # type: ignore[method-assign]
    loop.tell(_alarm_of(loop, "dead", "process-gone", dead.last_ns, level="task"))
    loop.feed.tell("run", (new.job, "dead"))
    loop.judge.turn()
    assert loop.incidents()[0].ended_ns is None  # nobody started it again
    rows.insert(0, new)
    loop.feed.tell("run", (new.job, new.run))
    loop.judge.turn()
    (incident,) = loop.incidents()
    assert incident.ended_ns is not None
    assert incident.history[-1].what == "a newer run of the job goes on"
    assert not _open_alarms(loop)


@pytest.mark.parametrize("state", ["verified", "closed"])
def test_alarms_that_come_back_after_it_was_settled_are_a_new_incident(
    slow: Played, tmp_path: Path, state: IncidentState
) -> None:
    loop = slow.loop(tmp_path)
    first = loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.traces()
    (incident,) = loop.incidents()
    settled = msgspec.structs.replace(incident, state=state)
    loop.store.put("incident", settled.id, msgspec.json.encode(settled), at_ns=settled.opened_ns)
    loop.tell(first)  # as it was: nothing is new
    loop.over(first)
    assert len(loop.incidents()) == 1
    loop.alarm("data-wait-up", slow.onset_ns + 4 * NS, 1)
    loop.traces()
    old, again = loop.incidents()
    assert (old.state, old.alarms, old.ended_ns is None) == (state, incident.alarms, False)
    assert (again.state, again.rule) == ("open", "input-starvation")
    assert len(loop.told) == 2


def _open_alarms(loop: Loop) -> list[str]:
    alarms = [msgspec.json.decode(each.body, type=Alarm) for each in loop.store.documents("alarm")]
    return [each.id for each in alarms if each.end_ns is None]


def test_after_a_kill_an_alarm_is_open_once_and_what_nobody_tells_again_ends(
    slow: Played, tmp_path: Path
) -> None:
    loop = slow.loop(tmp_path)
    run = loop.store.runs()[0].run
    loop.alarm("rank-slow", slow.onset_ns, 1, inhibited_by="xid-1")
    loop.alarm("dram-high", slow.onset_ns, pages=False)
    loop.tell(_alarm_of(loop, "dead", "tensor-low", slow.onset_ns, pages=False))
    loop.judge.stop()
    loop.judge = loop.another()
    loop.judge.handling.resume()
    loop.judge.turn()
    again = loop.alarm("rank-slow", slow.onset_ns + NS, 1, inhibited_by="xid-1")
    open_ = _open_alarms(loop)
    assert len([each for each in open_ if each.startswith("rank-slow")]) == 1
    assert again.id in open_
    assert again.about.run == run
    loop.ahead_ns += UNCONFIRMED_NS
    loop.judge.turn()
    loop.judge.turn()
    assert _open_alarms(loop) == [again.id]


def test_what_is_told_with_an_alarm_of_a_device_is_not_of_another_trouble(
    slow: Played, tmp_path: Path
) -> None:
    loop = slow.loop(tmp_path)
    alarm = loop.alarm("memory-high", slow.onset_ns, 0, level="resource", text="memory 95 % full")
    ((incident, report),) = loop.told
    assert (incident.card, incident.title) == (None, "memory 95 % full")
    notice = notice_of(incident, (alarm,), report)
    assert notice.verdict == ""
    said = " ".join([notice.title, notice.verdict, *notice.notes, *notice.alarms])
    assert "batch" not in said
    assert (report.verdict.text, report.cards, report.findings) == (incident.title, (), ())
    assert "times as long" not in said


def test_a_job_without_devices_has_none_in_its_incident(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    handling = loop.judge.handling
    judged = handling._verdict
    handling._verdict = lambda *given: dataclasses.replace(  # type: ignore[method-assign]
        judged(*given), devices=("cpu", "marks")
    )
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    loop.traces()
    assert loop.told[0][0].about.devices == ()


def test_an_incident_begins_with_the_step_that_its_first_alarm_names(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1, steps=(41, 48))
    loop.traces()
    ((incident, report),) = loop.told
    assert incident.onset_step == 41
    assert next(each for each in report.cards if each.id == incident.card).onset_step in (41, None)


def test_what_was_dismissed_is_looked_at_again_once_it_is_worse(well: Played, tmp_path: Path) -> None:
    loop = well.loop(tmp_path)
    alarm = loop.alarm("step-slow", well.onset_ns)
    loop.traces()
    loop.tell(msgspec.structs.replace(alarm, text="as bad as it was"))
    assert len(loop.incidents()) == 1
    loop.tell(msgspec.structs.replace(alarm, severity="critical"))
    assert len(loop.incidents()) == 2


def test_hints_and_explained_alarms_open_nothing(well: Played, tmp_path: Path) -> None:
    loop = well.loop(tmp_path)
    loop.alarm("busy-power-falling", well.onset_ns, pages=False)
    loop.alarm("rank-slow", well.onset_ns, 1, inhibited_by="xid-1")
    assert not loop.incidents()
    assert len(loop.store.documents("alarm")) == 2


def test_every_step_of_the_loop_is_in_the_history_with_its_time(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    row = loop.store.runs()[0]
    loop.feed.tell("capture", Made(1, row.job, row.run, "recording", (40, 43)))
    loop.traces()
    (incident,) = loop.incidents()
    assert [each.what for each in incident.history] == [
        "alarm data-wait-up: data-wait-up",
        "looked at without a trace: input-starvation",
        "capture 1 asked: 4 steps",
        "capture 1 is armed, steps 40 to 43",
        "traces of capture 1 are here",
        "card: input-starvation (high)",
    ]
    assert [each.at_ns for each in incident.history] == sorted(each.at_ns for each in incident.history)


def test_a_server_that_was_killed_takes_up_its_incidents_and_tells_nothing_twice(
    slow: Played, tmp_path: Path
) -> None:
    loop = slow.loop(tmp_path)
    loop.alarm("data-wait-up", slow.onset_ns, 1)  # a capture is asked; the server dies here
    loop.judge = loop.another()
    loop.judge.handling.resume()
    loop.judge.turn()
    assert len(loop.asking.asked) == 2
    loop.traces()
    assert [each.rule for each, _ in loop.told] == ["input-starvation"]
    loop.judge.stop()

    # Nobody took the card before it died again: it is told once more, under the same id.
    loop.judge = loop.another()
    loop.judge.handling.resume()
    assert [each.id for each, _ in loop.told] == [loop.incidents()[0].id] * 2
    loop.judge.stop()

    # Now a channel took it.
    (incident,) = loop.incidents()
    told = msgspec.structs.replace(incident, told_ns=loop.judge.now_ns())
    loop.store.put("incident", told.id, msgspec.json.encode(told), job=told.about.job, at_ns=told.opened_ns)
    loop.judge = loop.another()
    loop.judge.handling.resume()
    loop.alarm("data-wait-up", slow.onset_ns + NS, 1)
    loop.alarm("step-slow", slow.onset_ns + NS)
    assert len(loop.told) == 2
    (incident,) = loop.incidents()
    assert len(incident.alarms) == 3

    # The watch tells the loader anew, under another id, and ends it; of steps it tells nothing any more.
    loop.judge.stop()
    loop.judge = loop.another()
    loop.judge.handling.resume()
    again = loop.alarm("data-wait-up", slow.onset_ns + 2 * NS, 1)
    loop.over(again)
    assert loop.incidents()[0].ended_ns is None
    loop.ahead_ns += UNCONFIRMED_NS
    loop.judge.turn()
    (incident,) = loop.incidents()
    assert incident.ended_ns is not None
    assert len(loop.told) == 2


def test_what_cannot_be_diagnosed_is_still_an_incident(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.feed.tell(
        "alarm",
        Alarm(
            id="x", condition="xid", level="resource", severity="critical", about=About(hosts=("n1",)),
            onset_ns=1, seen_ns=2, text="Xid 79 on n1",
        ),
    )  # fmt: skip
    loop.judge.turn()
    (incident,) = loop.incidents()
    assert incident.history[-1].what == "no job: nothing to diagnose"
    assert not loop.looks


def _warning(loop: Loop, condition: str, onset_ns: int) -> Alarm:
    row = loop.store.runs()[0]
    return Alarm(
        id=condition, condition=condition, level="performance", severity="warning", text="w", seen_ns=1,
        about=About(job=row.job, run=row.run, ranks=(1,)), onset_ns=onset_ns,
    )  # fmt: skip


def test_in_its_own_thread_and_with_its_own_process_it_tells_the_same(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    loop.judge.stop()
    with contextlib.closing(Worker()) as worker:
        loop.judge = Judge(loop.store, loop.feed, loop.asking, worker.diagnose, lambda: slow.watched.now_ns)
        loop.judge.start()
        loop.feed.tell("alarm", _warning(loop, "data-wait-up", slow.onset_ns))
        assert until(lambda: bool(loop.asking.asked))
        loop.feed.tell("capture", loop.asking.make())
        assert until(lambda: bool(loop.told))
        loop.judge.stop()
    ((incident, report),) = loop.told
    assert (incident.rule, incident.about.ranks) == ("input-starvation", (1,))
    assert incident.about.devices == report.findings[0].subject.devices
    assert worker.num_started == 1


def test_a_fault_in_one_case_ends_neither_the_loop_nor_its_incident(slow: Played, tmp_path: Path) -> None:
    loop = slow.loop(tmp_path)
    marks, loop.store.marks = loop.store.marks, _fails  # type: ignore[method-assign]
    loop.judge.start()
    loop.feed.tell("alarm", _warning(loop, "step-slow", slow.onset_ns))
    assert until(lambda: loop.judge.handling.num_failed == 1)
    (incident,) = loop.incidents()
    assert incident.history[-1].what == "no diagnosis: a fault of stepscope (RuntimeError: a fault of ours)"
    loop.store.marks = marks  # type: ignore[method-assign]
    loop.feed.tell("alarm", _warning(loop, "data-wait-up", slow.onset_ns))
    assert until(lambda: len(loop.asking.asked) == 1)
    loop.judge.stop()


def _fails(*given: object) -> tuple[RankMarks, ...]:
    raise RuntimeError("a fault of ours")


def test_the_same_cause_on_another_rank_widens_its_incident(tmp_path: Path) -> None:
    loop, onset = faulty(tmp_path, "loader-stall#1:severe")
    loop.alarm("data-wait-up", onset, 1)
    loop.traces()
    loop.watched.job.service.switch("loader-stall#0:severe on")
    later = loop.watched.now_ns
    loop.watched.until(loop.watched.job.seconds + 8)
    loop.store.keep(loop.watched.batches[len(loop.store.kept) :])
    loop.alarm("data-wait-up", later, 0)
    (incident,) = loop.incidents()
    assert (incident.about.ranks, len(incident.alarms), len(loop.told)) == ((0, 1), 2, 1)
    assert incident.history[-1].what == "now on ranks 0, 1"


def test_counters_of_the_traced_steps_are_waited_for_and_no_longer_than_so(
    slow: Played, tmp_path: Path
) -> None:
    loop = slow.loop(tmp_path, counters_ns=3 * NS)
    loop.alarm("data-wait-up", slow.onset_ns, 1)
    last_ns = loop.judge.now_ns()
    loop.store.late_ns = last_ns - 4 * NS  # counters are four seconds behind marks
    loop.traces()
    for _ in range(3):
        assert not loop.told
        loop.ahead_ns += NS
        loop.judge.turn()
    assert len(loop.told) == 1
