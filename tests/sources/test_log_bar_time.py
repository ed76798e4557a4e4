"""Wall times of progress bars, from lines that state one."""

from __future__ import annotations

from datetime import datetime, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model.log import ABSENT_NS, Log
from stepscope.sources.log import read_log
from tests.simulate.conftest import record

NOON = 1_714_564_800_000_000_000
"""2024-05-01 12:00:00 UTC."""
S = 1_000_000_000
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.53 GiB."


def log_of(text: str) -> Log:
    return read_log("made.log", data=text.encode())


def stamp(second: float, text: str = "hello") -> str:
    at = datetime.fromtimestamp(NOON / S + second, timezone.utc)
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d} INFO {text}\n"


def bar(n: int, elapsed: float, total: int = 1000, desc: str = "", end: str = "\n") -> str:
    minutes, seconds = divmod(int(elapsed), 60)
    return f"{desc}  1%|1         | {n}/{total} [{minutes:02d}:{seconds:02d}<07:55,  2.00it/s]{end}"


def seconds(log: Log) -> list[float | None]:
    """Seconds since noon of each row, `None` without a time."""
    assert log.progress is not None
    return [None if at == ABSENT_NS else (at - NOON) / S for at in log.progress.at_ns.tolist()]


def note(log: Log) -> tuple[int, str]:
    """Lines and text of the note; no lines without one."""
    return next((each[1:] for each in log.notes if each[0] == "times_from_bar"), (0, ""))


def test_a_bar_begins_at_the_line_before_its_first_drawing_and_runs_on_from_there() -> None:
    log = log_of(stamp(0, "start") + stamp(10, "training") + bar(0, 0) + bar(10, 5) + bar(40, 20))
    assert seconds(log) == [15.5, 30.5]  # a bar that states 5 s has run 5 to 6
    assert note(log) == (
        3,
        "elapsed times of bars were put on the wall clock by lines that state a time, to 1 s and what passed "
        "between such a line and a bar's beginning: no line on its other side",
    )
    assert log.is_zone_assumed


def test_without_a_line_before_the_bar_a_later_line_tells_when_it_began() -> None:
    assert seconds(log_of(bar(10, 5) + bar(40, 20) + stamp(60, "saved"))) == [45.5, 60.0]


def test_without_any_line_that_has_a_time_steps_have_none() -> None:
    log = log_of("hello\n" + bar(10, 5) + bar(40, 20))
    assert seconds(log) == [None, None]
    assert note(log) == (0, "")


def test_a_line_in_the_middle_tells_that_the_bar_began_long_after_the_line_before_it() -> None:
    """The model was loaded for a minute, of which the log says nothing."""
    log = log_of(stamp(0) + bar(0, 0) + bar(10, 5) + stamp(65.6, "saved") + bar(12, 6) + bar(40, 20))
    at = seconds(log)
    # The bar began between 58.6 (line - 7 s) and 60.6 (line - 5 s): the middle.
    assert at == [pytest.approx(59.6 + 5.5), pytest.approx(59.6 + 6.5), pytest.approx(59.6 + 20.5)]
    assert note(log)[1].endswith(" to 2.0 s")


def test_what_follows_a_bar_that_came_to_its_end_dates_it_and_what_follows_one_that_did_not_does_not() -> (
    None
):
    done = log_of(stamp(0) + bar(500, 250) + bar(1000, 500) + stamp(600, "Training completed"))
    assert seconds(done) == [350.5, 600.0]
    hung = log_of(stamp(0) + bar(500, 250) + bar(900, 500) + stamp(3000, "killed"))
    assert seconds(hung) == [250.5, 500.5]
    assert note(hung) == (
        2,
        "elapsed times of bars were put on the wall clock by lines that state a time, to 2501.0 s",
    )


def test_where_lines_contradict_the_elapsed_time_drawings_keep_the_order_of_lines() -> None:
    log = log_of(stamp(0) + bar(10, 5) + stamp(3) + bar(40, 20) + stamp(9) + bar(60, 30))
    assert seconds(log) == [3.0, 9.0, 30.5]
    assert "moved by up to 11.5 s into the order of lines" in note(log)[1]


def test_a_line_that_quotes_an_old_time_does_not_count() -> None:
    text = stamp(0) + bar(10, 5) + stamp(-3600, "is when this job was queued") + bar(40, 20) + stamp(21)
    assert seconds(log_of(text)) == [6.0, 21.0]  # it began at 0 to 1


def test_drawings_of_one_second_are_spread_over_it() -> None:
    text = stamp(0) + bar(0, 0) + "".join(bar(n, n / 4) for n in range(1, 10))
    at = np.array(seconds(log_of(text)), float)
    assert at == pytest.approx(np.arange(1, 10) / 4, abs=0.13)
    assert np.diff(at) == pytest.approx(0.25)


def test_each_epoch_begins_after_the_last_one_ended() -> None:
    text = stamp(0)
    for epoch in (0, 1):
        text += "".join(bar(n, n // 2, total=100, desc=f"Epoch {epoch}: ") for n in (0, 50, 100))
    text += stamp(110)
    log = log_of(text)
    assert log.progress is not None
    assert log.progress.step.tolist() == [50, 100, 150, 200]
    assert seconds(log) == [25.5, 50.5, 85.5, 110.0]  # the pause of 9 s was between them


def test_epochs_without_a_line_between_or_behind_them_follow_each_other() -> None:
    text = "".join(
        bar(n, n // 2, total=100, desc=f"Epoch {epoch}: ") for epoch in (0, 1) for n in (0, 50, 100)
    )
    assert seconds(log_of(stamp(0) + text)) == [25.5, 50.5, 76.0, 101.0]


def test_a_bar_of_another_process_a_little_behind_is_no_new_run() -> None:
    pairs = [(bar(n, n), bar(n - 3, n - 3)) for n in range(10, 60)]
    log = log_of(stamp(0) + "".join(a + b for a, b in pairs))
    assert log.progress is not None
    assert seconds(log)[-1] == pytest.approx(59.5)


@pytest.mark.parametrize("is_drawn_again", [True, False])
def test_a_dictionary_of_hugging_face_has_the_time_of_the_bar_whose_step_it_takes(
    is_drawn_again: bool,
) -> None:
    text = stamp(0)
    for step in (10, 20, 30):
        line = f"{{'loss': {3 - step / 100}, 'grad_norm': 1.5, 'epoch': 0.1}}\n"
        drawn = bar(step, step / 2)
        text += bar(step - 1, step / 2 - 1) + line + drawn if is_drawn_again else drawn + line
    log = log_of(text)
    assert log.progress is not None
    at_ns, steps, _ = log.progress.column("loss")
    assert steps.tolist() == [10, 20, 30]
    assert ((at_ns - NOON) / S).tolist() == [5.5, 10.5, 15.5]


def test_a_bar_that_names_the_step_of_the_job_has_a_time_too() -> None:
    drawn = "Epoch 0:   5%|5         | 5{}/1000 [00:2{}<07:55,  2.00it/s, global_step=1{}.0, loss=2.1]\n"
    log = log_of(stamp(0) + "".join(drawn.format(i, i, i) for i in range(4)))
    assert log.progress is not None
    assert log.progress.step.tolist() == [10, 11, 12, 13]
    assert seconds(log) == [20.5, 21.5, 22.5, 23.5]


def test_keras_has_run_its_steps_times_what_a_step_takes_where_that_has_two_digits() -> None:
    drawn = (
        "Epoch 1/2\n 50/100 ━━━━━━━━━━ 6s {0}/step - loss: 2.5\n100/100 ━━━━━━━━━━ 12s {0}/step - loss: 2.0\n"
    )
    assert seconds(log_of(stamp(0) + drawn.format("120ms"))) == [pytest.approx(6.0), pytest.approx(12.0)]
    assert seconds(log_of(stamp(0) + drawn.format("1s"))) == [None, None]


def test_a_bar_with_times_of_its_own_keeps_them() -> None:
    log = log_of(stamp(7, bar(10, 5, end="")) + bar(40, 20))
    assert seconds(log) == [7.0, pytest.approx(22.0, abs=0.51)]
    assert note(log)[0] == 1


def test_a_collective_that_a_watchdog_ended_began_after_the_last_step() -> None:
    text = stamp(0) + bar(0, 0) + bar(10, 5) + bar(40, 20)
    text += (
        "[rank1]:[E501 12:10:23.000000000 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=801, OpType=ALLREDUCE, NumelIn=2, NumelOut=2, "
        "Timeout(ms)=600000) ran for 600000 milliseconds before timing out.\n"
    ).replace("E501", "E0501")
    log = log_of(text)
    assert seconds(log) == [7.0, 22.0]  # it began at 23: the bar at 0 to 3
    assert note(log)[1].endswith(" to 2.5 s")


def test_an_error_without_a_time_comes_after_the_last_drawing_before_it() -> None:
    log = log_of(stamp(0) + bar(10, 5) + bar(400, 200) + f"{OOM}\n")
    assert [(event.what, event.at_ns) for event in log.events] == [
        ("cuda_out_of_memory", NOON + 200 * S + S // 2)
    ]


def test_a_line_of_the_trainer_states_its_time_behind_level_and_place() -> None:
    line = "[INFO|trainer.py:2409] 2024-05-01 12:00:10,500 >> ***** Running training *****\n"
    assert seconds(log_of(line + bar(10, 5))) == [16.0]


def test_lines_drawn_over_are_put_in_their_order() -> None:
    text = stamp(0) + bar(10, 5, end="\r") + bar(40, 20, end="\r") + "\n" + stamp(20.25, "saved")
    assert seconds(log_of(text)) == [pytest.approx(5.625, abs=0.2), pytest.approx(20.25, abs=0.2)]


@pytest.mark.parametrize(("fault", "off_s"), [("hang:severe", 2.0), ("memory-leak:severe", 3.0)])
def test_steps_of_a_simulated_trainer_are_dated_as_they_were(fault: str, off_s: float) -> None:
    """The last line before the bar is 2.5 s before it, which a watchdog behind the drawings halves."""
    run = record(fault, recording=(("log_style", "hugging-face"),))
    log = log_of(run.files["logs/train.log"])
    truth = np.array(run.cluster.step_end_ns[0])
    assert log.progress is not None
    assert log.progress.step.tolist() == list(range(1, len(truth) + 1))
    assert np.abs(log.progress.at_ns - truth).max() < off_s * S
    assert note(log)[0] == len(truth)


_GAPS = st.lists(st.tuples(st.floats(0.01, 90), st.booleans()), min_size=1, max_size=40)


@settings(max_examples=200, deadline=None)
@given(_GAPS, st.floats(0, 300), st.floats(0.05, 60))
def test_times_keep_the_order_of_lines_and_are_as_near_as_is_said(
    gaps: list[tuple[float, bool]], loading: float, ending: float
) -> None:
    """Of a run that is known: a line, a pause, then steps, after some of which a line states its time."""
    text, now, truth, limits = stamp(0) + bar(0, 0), loading, [], []
    last = 0.0
    for n, (gap, has_line) in enumerate(gaps, 1):
        now += gap
        text += bar(n, now - loading)
        truth.append(now)
        limits.append(last)
        if has_line:
            last = int(now * 1000 + 2) / 1000
            text += stamp(last)
            now = last + 0.002
    text += stamp(now + ending)
    log = log_of(text)
    at = np.array(seconds(log), float)
    assert not np.isnan(at).any()
    assert (np.diff(at) >= 0).all()
    assert (at >= np.array(limits) - 1e-3).all()
    assert (at <= now + ending + 1e-3).all()
    said = note(log)
    assert np.abs(at - truth).max() <= float(said[1].split(" to ")[-1].split(" s")[0]) + 0.06


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.integers(-10, 200).map(stamp),
            st.tuples(st.integers(0, 100), st.integers(0, 100)).map(lambda pair: bar(*pair)),
        ),
        max_size=30,
    )
)
def test_times_never_fall_whatever_the_lines_say(lines: list[str]) -> None:
    log = log_of(bar(1, 0) + "".join(lines))
    at = [each for each in seconds(log) if each is not None]
    assert at == sorted(at)
