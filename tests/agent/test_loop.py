"""The loop: periods, failures, what hangs, and a day in seconds."""

from __future__ import annotations

import threading
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.agent.clock import HandClock, RealClock, ScaledClock
from stepscope.agent.profile import PROFILES, profile
from stepscope.agent.source import NotHere, kinds
from stepscope.agent.worker import MOST_PAUSE_NS, next_due_ns, pause_ns
from stepscope.model.batch import Happened, Samples
from stepscope.model.error import ServiceError, UsageError
from tests.agent.agents import Made, S, agent, in_thread, kind, until


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(1, 10**11))
def test_the_next_look_is_on_the_grid_and_in_the_future(due: int, late: int, period: int) -> None:
    now = due + late
    following, num_left_out = next_due_ns(due, now, period)
    assert now < following <= now + period
    assert (following - due) % period == 0
    assert num_left_out == (following - due) // period - 1


def test_a_pause_doubles_up_to_a_minute() -> None:
    assert [pause_ns(S, n) // S for n in (1, 2, 3, 4, 20)] == [1, 2, 4, 8, 60]
    assert pause_ns(100_000_000, 1) == S


def test_profiles_are_what_the_reference_says() -> None:
    assert {name: (each.idle_ns, each.busy_ns) for name, each in PROFILES.items()} == {
        "training": (10 * S, S),
        "inference": (S, S),
        "debug": (S // 10, S // 10),
    }
    with pytest.raises(UsageError, match="no profile 'fast'; choose one of training"):
        profile("fast")


def test_every_source_of_the_catalogue_is_one_and_has_a_name_of_its_own() -> None:
    names = [each.name for each in kinds()]
    assert len(set(names)) == len(names)
    assert {"rings", "nvml", "gpm", "scrape", "host", "kernel_log", "nccl_log"} <= set(names)


def resident() -> int:
    return int(psutil.Process().memory_info().rss)


def test_a_source_is_read_every_ten_seconds_and_every_second_while_a_job_runs() -> None:
    clock = HandClock()
    busy = lambda: 20 * S <= clock.mono_ns() < 25 * S  # noqa: E731
    other = Made(clock, "other")
    made = Made(clock)
    built = agent(made, (kind(fixed_ns=S), other), clock=clock, profile="training", is_busy=busy)
    built.loop.run_alone(threading.Event(), 46 * S)
    assert [at // S for at in made.reads_ns] == [0, 10, 20, 21, 22, 23, 24, 25, 35, 45]


def test_a_source_that_fails_is_asked_again_after_growing_pauses_and_told_once() -> None:
    clock = HandClock()

    def fail() -> None:
        if clock.mono_ns() < 40 * S:
            raise ServiceError("made", "it does not answer", "wait")

    made = Made(clock, act=fail)
    built = agent(made, clock=clock)
    built.loop.run_alone(threading.Event(), 70 * S)
    assert [at // S for at in made.reads_ns][:8] == [0, 1, 3, 7, 15, 31, 63, 64]
    assert built.events() == ["source_failed", "source_back"]
    assert built.loop.tally.num_failed == {"made": 6}


def test_what_is_not_here_is_asked_once_a_minute_and_is_no_failure() -> None:
    clock = HandClock()

    def absent() -> None:
        raise NotHere("no driver")

    made = Made(clock, act=absent)
    built = agent(made, clock=clock)
    built.loop.run_alone(threading.Event(), 150 * S)
    assert [at // MOST_PAUSE_NS for at in made.reads_ns] == [0, 1, 2]
    assert built.events() == ["source_absent"]
    assert built.loop.tally.num_failed == {"made": 0}


def test_a_fault_of_one_source_is_told_and_the_others_go_on() -> None:
    clock = HandClock()

    def fault() -> None:
        raise ZeroDivisionError("planted")

    broken, fine = Made(clock, "broken", act=fault), Made(clock, "fine")
    built = agent(broken, fine, clock=clock)
    built.loop.run_alone(threading.Event(), 30 * S)
    assert len(fine.reads_ns) == 30
    (event,) = [each for each in built.batches if isinstance(each, Happened)]
    assert event.text == "broken: ZeroDivisionError: planted"


def test_a_read_that_takes_longer_than_its_period_moves_nothing_and_is_counted() -> None:
    clock = HandClock()
    slow = Made(clock, "slow", act=lambda: clock.turn(2_500_000_000))
    built = agent(slow, clock=clock)
    built.loop.run_alone(threading.Event(), 12 * S)
    assert [at // S for at in slow.reads_ns] == [0, 3, 6, 9]
    assert built.loop.tally.num_late == 8


def test_a_day_of_looks_passes_in_seconds_and_takes_no_memory() -> None:
    clock = HandClock()
    kept = [0, 0]

    def sink(batch: object) -> None:
        if isinstance(batch, Samples):
            kept[0] += 1
            kept[1] += sum(len(each.value) for each in batch.series)

    made = Made(clock)
    built = agent(made, clock=clock, sink=sink)
    built.loop.run_alone(threading.Event(), 3600 * S)
    made.reads_ns.clear()
    before = resident()
    built.loop.run_alone(threading.Event(), 86_400 * S)
    made.reads_ns.clear()
    grown = resident() - before
    assert kept[1] == 86_400
    assert kept[0] < 86_400 / 4  # values wait for others of their series
    assert grown < 10_000_000


# ── with threads ──


def test_a_source_that_hangs_is_left_behind_and_told_and_a_fine_one_keeps_its_period() -> None:
    clock = RealClock()
    may_go = threading.Event()
    hung = Made(clock, "hung", act=lambda: may_go.wait(60))
    fine = Made(clock, "fine")
    built = agent((kind(patience_ns=500_000_000), hung), fine, clock=clock, profile="debug")
    is_told = in_thread(
        built, lambda: until(lambda: "source_hung" in built.events() and len(fine.reads_ns) >= 20)
    )
    assert is_told
    assert len(hung.reads_ns) == 1
    assert fine.is_closed
    assert not hung.is_closed  # its thread still has it
    may_go.set()


def test_a_source_that_comes_back_is_told() -> None:
    clock = RealClock()
    may_go = threading.Event()
    hung = Made(clock, "hung", act=lambda: may_go.wait(60))
    built = agent((kind(patience_ns=200_000_000), hung), clock=clock, profile="debug")

    def act() -> bool:
        is_told = until(lambda: "source_hung" in built.events())
        may_go.set()
        return is_told and until(lambda: "source_back" in built.events())

    assert in_thread(built, act)


def test_the_end_comes_at_once_and_everything_read_is_handed_on() -> None:
    clock = RealClock()
    made = Made(clock)
    built = agent(made, clock=clock, profile="training")
    assert in_thread(built, lambda: until(lambda: bool(made.reads_ns)))
    assert [len(each.series) for each in built.samples("made")] == [1]


def test_once_asks_twice_and_leaves_behind_what_hangs() -> None:
    clock = RealClock()
    may_go = threading.Event()
    fine, hung = Made(clock, "fine"), Made(clock, "hung", act=lambda: may_go.wait(60))
    built = agent(fine, hung, clock=clock)
    built.loop.once(apart_ns=10_000_000, over_ns=S)
    assert len(fine.reads_ns) == 2
    assert built.events() == ["source_hung"]
    assert len(built.samples("fine")) == 1
    may_go.set()


def test_a_scaled_clock_passes_so_much_faster_and_waits_so_much_less() -> None:
    clock = ScaledClock(100.0)
    before, real_before = clock.mono_ns(), time.monotonic_ns()
    clock.wait(threading.Event(), before + 5 * S)
    passed, really = clock.mono_ns() - before, time.monotonic_ns() - real_before
    assert passed >= 5 * S
    assert passed == pytest.approx(100 * really, rel=0.2)


def test_a_scaled_clock_says_what_one_says_that_began_to_run_so_earlier() -> None:
    began = time.time_ns() - 7 * S
    late = ScaledClock(5.0, began).real_ns()
    assert late - began == pytest.approx(5 * (time.time_ns() - began), abs=5 * S)
    assert late - began >= 35 * S


def test_a_source_that_somebody_waits_for_is_asked_more_often_for_a_while_and_then_as_before() -> None:
    clock = HandClock()
    made, other = Made(clock), Made(clock, "other")
    built = agent((kind(fixed_ns=S), made), (kind(fixed_ns=S), other), clock=clock)
    stop = threading.Event()
    built.loop.run_alone(stop, clock.mono_ns() + 3 * S)
    num, num_other = len(made.reads_ns), len(other.reads_ns)
    built.loop.hurry("made", S // 10, 2 * S)
    built.loop.run_alone(stop, clock.mono_ns() + 2 * S)
    assert 18 <= len(made.reads_ns) - num <= 22
    num = len(made.reads_ns)
    built.loop.run_alone(stop, clock.mono_ns() + 5 * S)
    assert 4 <= len(made.reads_ns) - num <= 6
    assert 6 <= len(other.reads_ns) - num_other <= 8


def test_an_event_that_is_told_carries_its_number_and_labels() -> None:
    built = agent()
    built.loop.tell("capture_refused", "no capture: token=hunter2secret7", 5, (("ring", "a.ring"),))
    (event,) = built.batches
    assert isinstance(event, Happened)
    assert (event.what, event.code, event.labels) == ("capture_refused", 5, {"ring": "a.ring"})
    assert "hunter2" not in event.text
