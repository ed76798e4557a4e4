"""Jobs as the watch sees them: what is an alarm, how soon, whose it is, and what a healthy job does."""

from __future__ import annotations

import math

import msgspec
import pytest

from stepscope.detect.alert.budget import Budget
from stepscope.detect.watch import Watch
from stepscope.model.alarm import About, Alarm
from stepscope.model.batch import BatchOwner, Happened, Lines
from tests.detect.alert.loop import FLAGS, Loop, of
from tests.detect.alert.series import NS, START_S, second

LEARNED = 125


@pytest.fixture
def loop() -> Loop:
    """A job whose normal is learned, without a word."""
    made = Loop()
    assert made.go(LEARNED) == []
    return made


def test_a_young_job_says_that_it_is_learning_and_makes_no_alarm_of_slower_steps():
    loop = Loop()
    loop.go(40)
    (learning,) = loop.watch.learning()
    assert (learning.job, learning.run, learning.num_steps) == ("llama", "r1", 39)
    assert loop.go(30, own_ms=600.0) == []
    assert Loop().watch.learning() == ()


def test_a_loader_that_adds_thirty_percent_is_named_within_ten_steps_and_explains_the_rest(loop: Loop):
    told = loop.go(10, data={2: 135.0})
    found, paged = of(told), of(told, paged=True)
    assert list(paged) == ["data-wait-up"]
    assert paged["data-wait-up"].about.ranks == (2,)
    assert paged["data-wait-up"].about.devices == ("GPU-0002",)
    assert paged["data-wait-up"].severity == "critical"
    assert paged["data-wait-up"].steps is not None
    assert abs(paged["data-wait-up"].steps[0] - LEARNED) <= 1
    root = paged["data-wait-up"].id
    assert {each.inhibited_by for name, each in found.items() if name != "data-wait-up"} == {root}
    assert "step-slow" in found
    assert "rank-slow" in found
    assert min(step for step, _ in told) <= LEARNED + 8


def test_a_rank_that_is_late_is_named_and_its_victims_are_not(loop: Loop):
    told = loop.go(10, late={1: 60.0})
    (paged,) = of(told, paged=True).values()
    assert (paged.condition, paged.about.ranks, paged.severity) == ("rank-slow", (1,), "warning")
    assert paged.measured is not None
    assert paged.measured.effect == pytest.approx(60 / 451, rel=0.15)
    assert "rank 1" in paged.text
    assert "rank 1" in paged.text_zh


def test_steps_that_are_slower_on_all_ranks_name_nobody_and_end_when_they_are_as_before(loop: Loop):
    told = loop.go(10, own_ms=500.0)
    assert of(told, paged=True)["step-slow"].about.ranks == ()
    assert "rank-slow" not in of(told)
    loop.go(90)
    assert {each.end_ns is None for each in of(loop.told).values()} == {False}


def test_what_would_have_alarmed_as_specified_is_said_beside_it(loop: Loop):
    assert of(loop.go(10, own_ms=500.0))["step-slow"].is_specified is True


@pytest.mark.parametrize("name", ["eval", "checkpoint", "compile"])
def test_marked_phases_are_no_slow_steps(loop: Loop, name: str):
    for _ in range(4):
        loop.go(1, phase=(name, 3000.0))
        loop.go(5)
    assert of(loop.told).keys() <= {"pauses-high"}  # that they take half of the time is another matter


def test_a_capture_and_what_it_holds_up_makes_no_alarm(loop: Loop):
    for flag in ("captured", "stalled"):
        assert loop.go(10, own_ms=900.0, flags=FLAGS[flag]) == []
    assert loop.go(20) == []


def test_one_rank_whose_clock_is_ten_seconds_ahead_is_not_late():
    loop = Loop(offset_ms={3: 10_000})
    assert loop.go(LEARNED + 20) == []


def test_a_jobs_normal_end_and_a_restart_with_another_shape_make_no_alarm(loop: Loop):
    assert loop.ends() == []
    loop.run, loop.step, loop._numbers = "r2", 0, {}
    assert loop.go(LEARNED + 30, own_ms=800.0) == []
    assert of(loop.go(12, own_ms=1000.0), paged=True).keys() == {"step-slow"}


def test_a_restart_with_the_same_shape_goes_on_with_the_normal_of_before(loop: Loop):
    loop.ends()
    loop.run, loop.step, loop._numbers = "r2", 0, {}
    assert loop.go(30) == []
    assert loop.watch.learning() == ()
    assert "step-slow" in of(loop.go(12, own_ms=520.0), paged=True)


def test_what_is_of_a_run_ends_with_it(loop: Loop):
    loop.go(10, own_ms=600.0)
    assert all(each.end_ns is not None for each in of(loop.ends()).values())


def test_much_waiting_for_data_from_the_start_is_told_without_any_normal():
    loop = Loop()
    told = loop.go(250, data=dict.fromkeys(range(4), 200.0))
    assert of(told, paged=True).keys() == {"data-wait-high"}
    assert loop.watch.learning() == ()


def test_a_loss_that_is_no_number_is_told_at_once_and_one_that_stays_after_two_minutes(loop: Loop):
    assert of(loop.go(5, loss=math.nan))["loss-not-finite"].severity == "critical"
    loop = Loop()
    loop.go(10, loss=2.0)
    told = loop.go(290, loss=1.5)
    assert of(told, paged=True).keys() == {"loss-not-updated"}
    loop = Loop()
    for n in range(150):
        loop.go(2, loss=2.0 - n / 1000)
    assert loop.told == []


def test_a_checkpoint_that_does_not_end_is_told_after_ten_minutes_and_no_sooner(loop: Loop):
    nan = math.nan
    loop.look([
        loop.records(rank, [
            (loop.now_ns, "step_begin", 0, loop.step, -1, nan, nan),
            (loop.now_ns, "phase_begin", 0, loop.step, 5, -1.0, nan),
        ])
        for rank in range(4)
    ])  # fmt: skip
    assert loop.wait(599) == []
    assert of(loop.wait(3)).keys() == {"checkpoint-stuck"}


def test_of_a_run_that_is_over_nothing_begins_any_more(loop: Loop):
    nan = math.nan
    rows = [
        (loop.now_ns, "step_begin", 0, loop.step, -1, nan, nan),
        (loop.now_ns, "phase_begin", 0, loop.step, 5, -1.0, nan),
    ]
    killed = [msgspec.structs.replace(loop.records(rank, rows), is_alive=False) for rank in range(4)]
    loop.look(killed)
    assert loop.wait(700, {"tensor_active_ratio": 0.02}) == []  # a checkpoint that never ended


def test_low_utilisation_pages_only_where_steps_are_known_to_stand_still(loop: Loop):
    idle = {"compute_busy_ratio": 0.02, "power_watts": 90.0}
    told = loop.wait(290, idle)  # no step for so long
    assert of(told)["idle"].pages
    advancing = Loop()
    told = []
    for _ in range(300):
        told += advancing.go(2)
        advancing.now_ns -= NS
        told += advancing.wait(1, idle)
    assert not of(told)["idle"].pages
    evaluating = Loop()
    evaluating.go(LEARNED)
    nan = math.nan
    evaluating.look([
        evaluating.records(rank, [(evaluating.now_ns, "phase_begin", 0, -1, 6, -1.0, nan)])
        for rank in range(4)
    ])  # fmt: skip
    assert "idle" not in of(evaluating.wait(290, idle))


def test_beyond_its_budget_a_job_has_no_page_of_performance_but_what_is_critical_pages_all_the_same():
    loop = Loop(watch=Watch(budget=Budget(num_pages=1)))
    loop.go(LEARNED)
    first = of(loop.go(10, own_ms=450.0), paged=True)
    assert first.keys() == {"step-slow"}
    loop.go(100)
    loop.wait(700)  # beyond the cool-down: another alarm
    loop.go(20)
    held = of(loop.go(10, own_ms=450.0))["step-slow"]
    assert held.id != first["step-slow"].id
    assert not held.pages
    assert loop.watch.num_held_back == {"llama": 1}
    assert of(loop.go(16, own_ms=600.0))["step-slow"].pages  # critical by now


def test_a_page_for_which_a_cause_was_found_does_not_count_against_the_budget():
    loop = Loop(watch=Watch(budget=Budget(num_pages=1)))
    loop.go(LEARNED)
    first = of(loop.go(10, own_ms=450.0), paged=True)["step-slow"]
    loop.go(100)
    for _ in range(6):
        loop.go(9)
        loop.go(1, phase=("eval", 2000.0))
    held = of(loop.told)["pauses-high"]
    assert (held.pages, loop.watch.num_held_back) == (False, {"llama": 1})
    loop.watch.confirm((first.id,))
    assert of(loop.go(1))["pauses-high"].pages


def test_a_second_fault_after_healthy_steps_has_alarms_of_its_own(loop: Loop):
    firsts = of(loop.go(60, late={1: 400.0}))
    loop.go(150)
    begin_ns, begin = loop.now_ns, loop.step
    again = of(loop.go(14, late={3: 90.0}))
    ended = {each.id: each for _, each in loop.told}
    for name in ("rank-slow", "step-slow"):
        assert again[name].id != firsts[name].id
        assert ended[firsts[name].id].end_ns is not None
        assert (again[name].onset_ns, again[name].steps) == (begin_ns, (begin, again[name].steps[1]))
        assert again[name].end_ns is None
    assert (firsts["rank-slow"].about.ranks, again["rank-slow"].about.ranks) == ((1,), (3,))
    assert again["step-slow"].measured.effect == pytest.approx(90 / 451, rel=0.1)


def test_steps_that_are_a_little_longer_than_usual_are_told_from_five_percent_on(loop: Loop):
    assert loop.go(80, own_ms=416.0) == []  # 3.5 %
    assert "step-slow" in of(loop.go(40, own_ms=425.0))  # 5.5 %


def test_an_alarm_is_over_though_a_little_of_the_fault_stays(loop: Loop):
    loop.go(40, own_ms=800.0)
    loop.go(180, own_ms=416.0)
    assert {each.end_ns is None for each in of(loop.told).values()} == {False}


def test_an_onset_is_when_the_first_slow_step_began(loop: Loop):
    begin_ns = loop.now_ns
    told = of(loop.go(12, data={2: 135.0}))
    for name in ("data-wait-up", "step-slow", "rank-slow"):
        assert (told[name].onset_ns, told[name].steps[0]) == (begin_ns, LEARNED), name


def _go(loop: Loop, steps: int, dram: float, own_ms: float = 400.0) -> list[tuple[int, Alarm]]:
    """Steps beside which memory of rank 0's device is so active."""
    first, labels = len(loop.told), {"job": loop.job, "run": loop.run, "rank": "0"}
    for _ in range(steps):
        before = loop.now_ns // NS
        loop.go(1, own_ms)
        for at in range(before, loop.now_ns // NS):
            loop.watch.take([second(at - START_S, {"dram_active_ratio": dram}, labels)])
    return loop.told[first:]


@pytest.mark.parametrize(("learned", "slow"), [(300, 320), (5, 150)])
def test_counters_of_slow_steps_are_no_normal_that_a_recovery_leaves(loop: Loop, learned: int, slow: int):
    _go(loop, learned, 0.313)
    _go(loop, slow, 0.158, 800.0)
    _go(loop, 340, 0.313)
    assert "dram-high" not in of(loop.told)
    assert "dram-high" in of(_go(loop, 60, 0.60))


def test_an_alarm_of_a_run_that_is_gone_explains_nothing_of_the_next(loop: Loop):
    hang = Alarm(
        id="h", condition="process-gone", level="task", severity="critical", about=About("llama", "r0"),
        onset_ns=loop.now_ns, seen_ns=loop.now_ns,
    )  # fmt: skip
    loop.watch.heed([hang])
    assert of(loop.go(10, data={2: 135.0}), paged=True).keys() == {"data-wait-up"}


@pytest.mark.parametrize("at_ns", [2**62 - 1, 0, 10**9])
def test_an_event_with_a_clock_that_cannot_be_is_of_now(at_ns: int):
    watch, now_ns = Watch(), START_S * NS
    watch.take([Happened("a", 0, "n1", at_ns, "xid", "NVRM: Xid 79", 79)])
    (told,) = watch.tick(now_ns)
    assert told.onset_ns == now_ns


def test_every_tenth_step_that_takes_twice_as_long_is_told_without_a_hundred_means(loop: Loop):
    for _ in range(6):
        loop.go(9)
        loop.go(1, own_ms=1100.0)
    (alarm,) = of(loop.told, paged=True).values()
    assert (alarm.condition, alarm.severity) == ("step-mean-up", "warning")


def test_one_step_of_fifty_that_takes_twice_as_long_is_nothing(loop: Loop):
    for _ in range(8):
        loop.go(49)
        loop.go(1, own_ms=900.0)
    assert loop.told == []


def test_pauses_of_a_fifth_of_the_time_are_told_and_those_of_a_tenth_are_not(loop: Loop):
    for _ in range(8):
        loop.go(9)
        loop.go(1, phase=("checkpoint", 500.0))  # of five seconds
    assert loop.told == []
    for _ in range(6):
        loop.go(9)
        loop.go(1, phase=("eval", 2000.0))  # of six and a half
    (alarm,) = of(loop.told, paged=True).values()
    assert (alarm.condition, alarm.severity) == ("pauses-high", "warning")
    assert alarm.steps is not None
    assert abs(alarm.steps[0] - LEARNED - 80) <= 1  # where the first of the long ones began


def test_an_xid_explains_the_slow_rank_and_what_ends_the_job_is_told_from_elsewhere(loop: Loop):
    loop.watch.take([
        Happened("a", 0, "n1", loop.now_ns, "xid", "NVRM: Xid 48", 48,
                 labels={"job": "llama", "run": "r1", "rank": "1"})
    ])  # fmt: skip
    told = loop.go(10, late={1: 200.0})
    found = of(told)
    assert of(told, paged=True).keys() == {"xid"}
    assert found["rank-slow"].inhibited_by == found["xid"].id


def test_a_hang_from_another_watch_silences_low_utilisation(loop: Loop):
    hang = Alarm(
        id="h", condition="hang", level="task", severity="critical", about=About("llama", "r1", (1,)),
        onset_ns=loop.now_ns, seen_ns=loop.now_ns,
    )  # fmt: skip
    loop.watch.heed([hang])
    told = loop.wait(290, {"compute_busy_ratio": 0.02})
    assert of(told)["idle"].inhibited_by == "h"


def test_a_watchdogs_line_is_a_collective_that_timed_out(loop: Loop):
    text = "[rank2]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)"
    loop.watch.take([Lines("a", 0, "n1", "nccl", "nccl.log", [loop.now_ns], [text], {"job": "llama"})])
    (told,) = loop.watch.tick(loop.now_ns)
    assert (told.condition, told.severity, told.pages) == ("collective-timeout", "critical", True)
    assert told.about.ranks == (2,)


def test_a_device_that_vanished_is_told_and_over_when_it_is_back():
    watch = Watch()
    owner = {"agent": "a", "seq": 0, "host": "n1", "text": "every series of device GPU-1 is gone"}
    gone = BatchOwner(uuid="GPU-1", host="n1")
    watch.take([Happened(at_ns=START_S * NS, what="device_vanished", owner=gone, **owner)])
    (told,) = watch.tick(START_S * NS)
    assert (told.condition, told.severity, told.about.devices) == ("device-lost", "critical", ("GPU-1",))
    watch.take([Happened(at_ns=(START_S + 9) * NS, what="device_found", owner=gone, **owner)])
    (over,) = watch.tick((START_S + 9) * NS)
    assert (over.id, over.end_ns) == (told.id, (START_S + 9) * NS)


def test_records_that_come_twice_count_once_and_over_a_gap_no_step_goes_on(loop: Loop):
    ring = next(iter(loop.watch._runs.values())).rings["r1-rank0"]
    batch = loop.records(0, [(loop.now_ns, "step_begin", 0, loop.step, -1, math.nan, math.nan)])
    loop.watch.take([batch, batch])
    loop.watch.tick(loop.now_ns)
    assert ring.last_step == loop.step
    loop._numbers[0] += 100  # records that never came
    loop.now_ns += 60 * NS
    loop.watch.take(
        [loop.records(0, [(loop.now_ns, "step_begin", 0, loop.step + 9, -1, math.nan, math.nan)])]
    )
    assert loop.watch.tick(loop.now_ns) == []
    assert ring.num_lost == 100


def test_a_job_of_which_nothing_was_heard_for_an_hour_is_forgotten(loop: Loop):
    loop.now_ns += 3700 * NS
    loop.look()
    assert loop.watch._newest == {}
    assert loop.watch._runs == {}
    assert loop.watch._jobs.gated._rows == {}
