"""Steps and phases of attach mode, told event by event."""

from __future__ import annotations

from threading import Thread

import pytest

from stepscope_sdk.attach_mark import MOST_LOGGING, MOST_OTHERS, Marks
from tests.sdk.recorder import Recorder


class Optimizer:
    """Only its identity counts."""


@pytest.fixture
def told():
    monitor = Recorder()
    marks = Marks(lambda: monitor)
    return marks, monitor.said


def train(marks, *optimizers):
    """One iteration of a loop."""
    marks.trains()
    assert marks.begin("forward")
    marks.end("forward")
    for each in optimizers:
        marks.begin_optimizer(each)
        marks.end_optimizer(each)


def steps(said):
    """How many steps have ended."""
    return sum(line.startswith("end_step") for line in said)


def test_a_step_ends_with_the_optimizer_and_the_next_begins_there(told):
    marks, said = told
    train(marks, Optimizer())
    assert said == [
        "begin_step", "begin_phase forward", "end_phase forward", "begin_phase optimizer",
        "end_phase optimizer", "end_step", "begin_step",
    ]  # fmt: skip


def test_of_two_optimizers_the_first_alone_ends_steps(told):
    marks, said = told
    first, second = Optimizer(), Optimizer()
    for _ in range(5):
        train(marks, first, second)
    assert steps(said) == 5


def test_another_optimizer_leads_when_the_first_steps_no_more(told):
    marks, said = told
    warm_up, other = Optimizer(), Optimizer()
    train(marks, warm_up)
    for _ in range(MOST_OTHERS + 10):
        train(marks, other)
    assert steps(said) == 1 + 10


def test_another_optimizer_leads_at_once_when_the_first_is_gone(told):
    marks, said = told
    train(marks, Optimizer())
    train(marks, Optimizer())
    assert steps(said) == 2


def test_a_scaler_that_leaves_the_step_out_ends_it_all_the_same_and_once(told):
    marks, said = told
    optimizer = Optimizer()
    for is_skipped in (False, True, False):
        marks.begin_optimizer(optimizer, is_scaler=True)
        if not is_skipped:
            marks.begin_optimizer(optimizer)
            marks.end_optimizer(optimizer)
        marks.end_optimizer(optimizer, is_scaler=True)
    assert said.count("end_phase optimizer") == 3
    assert said.count("begin_step") == 3


def test_an_optimizer_that_raised_does_not_hold_up_the_next_step(told):
    marks, said = told
    optimizer = Optimizer()
    train(marks, optimizer)
    marks.begin_optimizer(optimizer)  # and no end
    train(marks, optimizer)
    assert steps(said) == 2
    assert marks.stack == []


def test_what_a_dataset_or_an_evaluation_calls_is_no_pass_of_its_own(told):
    marks, said = told
    train(marks, Optimizer())
    assert marks.begin("data")
    assert not marks.begin("forward")
    marks.end("data")
    marks.begin_eval()
    assert not marks.begin("data")
    assert not marks.begin("forward")
    marks.end_eval()
    assert said[-2:] == ["begin_phase eval", "end_phase eval"]


def test_an_evaluation_ends_where_training_goes_on_and_where_a_checkpoint_is_written(told):
    marks, said = told
    train(marks, Optimizer())
    for goes_on in (marks.trains, lambda: marks.begin("checkpoint")):
        marks.begin_eval()
        goes_on()
        assert "end_phase eval" in said[-2:]
        marks.end("checkpoint")


def test_nothing_is_an_evaluation_before_the_first_step(told):
    marks, said = told
    marks.begin_eval()
    assert said == []


def test_a_process_that_does_not_train_gets_no_monitor(told):
    marks, _ = told
    assert not marks.begin("checkpoint")
    assert not marks.begin("communication", sync=True)
    assert marks.monitor is None


def test_only_one_thread_marks_and_it_is_the_one_that_steps(told):
    marks, said = told
    optimizer = Optimizer()
    loop = Thread(target=lambda: [train_aside(marks, optimizer) for _ in range(2)])
    loop.start()
    loop.join()
    assert steps(said) == 1  # the first optimizer step tells which thread it is
    assert not marks.begin("data")


def train_aside(marks, optimizer):
    """An iteration of which the first pass is seen from a thread that is not known yet."""
    marks.trains()
    if marks.begin("forward"):
        marks.end("forward")
    marks.begin_optimizer(optimizer)
    marks.end_optimizer(optimizer)


def test_counts_of_several_passes_add_up_and_the_rate_is_logged_when_it_changes(told):
    marks, said = told
    optimizer = Optimizer()
    marks.trains()
    marks.count(8, 80, 10)
    marks.count(8, 80, 10)
    for rate in (0.1, 0.1, 0.05):
        marks.begin_optimizer(optimizer)
        marks.end_optimizer(optimizer, rate=rate)
    assert [line for line in said if line.startswith(("log", "end_step"))] == [
        "log learning_rate=0.1", "end_step tokens=160 samples=16 seq_len=10", "end_step",
        "log learning_rate=0.05", "end_step",
    ]  # fmt: skip


def test_a_loop_that_logs_a_thousand_lines_a_step_fills_no_ring(told):
    marks, said = told
    train(marks, Optimizer())
    for _ in range(1000):
        if marks.begin("logging"):
            marks.end("logging")
    assert said.count("begin_phase logging") == MOST_LOGGING


def test_a_script_that_marks_itself_is_left_alone(told):
    marks, said = told
    train(marks, Optimizer())
    marks.begin("data")
    marks.stay_out()
    assert said[-2:] == ["end_phase data", "end_step"]
    before = list(said)
    train_aside(marks, Optimizer())
    assert said == before
