"""How a run by its marks ended: standing, killed, or in order."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
from stepscope.model.mark import Identity, Steps
from stepscope.run.answer import interrupted
from stepscope.sources.marks import marks_of_records
from stepscope.sources.ring import RECORD
from stepscope_sdk import ring_abi as abi
from tests.analyse.marked.made import CATALOG, MS, job

PLAIN = ["d1 f10 b20 o5"] * 60
SECOND = 1_000 * MS


def told(silent_ns: int, **ended: object) -> report.Report:
    """A run that was read so long after its last mark."""
    (marks,) = job([PLAIN])
    marks = replace(marks, exit_ns=None, **ended)
    given = [report.Input(kind="steps", format="step-ring", name="a.ring")]
    log = log_of_marks(marks, "a.ring", marks.last_ns + silent_ns)
    return diagnose((), given, Options(catalog=CATALOG), (), (), [log], analyse_marks([marks]))


def test_a_job_that_lives_and_makes_no_step_stands_still():
    of = told(120 * SECOND, is_alive=True, open_step=60, open_phase="backward", open_since_ns=0)
    (found,) = [each for each in of.findings if each.severity == "critical"]
    assert found.rule == "no-progress"
    assert of.verdict.class_ == "other-stall"
    assert any(each.text == "the process lives in backward of step 60" for each in of.events)


@pytest.mark.parametrize(
    ("silent_ns", "ended"),
    [
        (2 * SECOND, {"is_alive": True}),
        (120 * SECOND, {"is_alive": False}),
        (120 * SECOND, {"is_alive": None}),
        (120 * SECOND, {"is_alive": True, "open_phase": "checkpoint", "open_step": 60}),
    ],
)
def test_soon_after_a_step_after_the_end_and_in_a_checkpoint_no_job_stands_still(silent_ns, ended):
    (marks,) = job([PLAIN])
    of = told(silent_ns, open_since_ns=marks.last_ns, **ended)
    assert not [each for each in of.findings if each.rule == "no-progress"]


def test_an_end_in_order_by_an_error_and_by_a_kill_are_told_apart():
    (marks,) = job([PLAIN])

    def end(**how):
        (found,) = [e for e in log_of_marks(replace(marks, **how), "a").events if e.kind == "exit"]
        return found.what, found.severity, found.text

    assert end() == ("exit", "info", "the process ended")
    assert end(has_failed=True)[:2] == ("exit", "critical")
    stopped = ("exit", "info", "the process ended after step 59: it was interrupted")
    assert end(was_interrupted=True) == stopped
    gone = end(exit_ns=None, is_alive=False)
    assert gone[:2] == ("killed", "critical")
    assert "after step 59" in gone[2]


def test_progress_of_marks_has_their_steps_and_times():
    (marks,) = job([PLAIN], flags={30: "captured"})
    progress = log_of_marks(marks, "a").progress
    assert progress.step.tolist() == list(range(60))
    _, steps, seconds = progress.column("step_seconds")
    assert 30 not in steps
    assert seconds == pytest.approx(0.036)


def ended_by(exit_code):
    """Marks of a ring whose exit record says this."""
    rows = np.zeros(2, dtype=RECORD)
    rows["kind"] = [abi.kind_number("start"), abi.kind_number("exit")]
    rows["a"] = [0, exit_code]
    told = marks_of_records(rows, Identity())
    return told.has_failed, told.was_interrupted


def test_the_exit_record_tells_an_exception_from_ctrl_c():
    assert [ended_by(code) for code in (0, 1, 2)] == [(False, False), (True, False), (False, True)]


def test_ranks_that_a_launcher_killed_after_ctrl_c_are_interrupted_and_not_critical():
    of = told(2 * SECOND, is_alive=False, open_step=60, open_phase="backward", open_since_ns=0)
    (killed,) = [each for each in of.events if each.kind == "exit"]
    assert (killed.severity, killed.text[-15:]) == ("critical", ": it was killed")
    (stopped,) = [each for each in interrupted(of).events if each.kind == "exit"]
    assert (stopped.severity, stopped.text[-20:]) == ("info", ": it was interrupted")


def with_tail(**ended):
    """Three steps of 40 ms; 5 ms after the last an evaluation of 60 ms begins, then a checkpoint of 20 ms."""
    (marks,) = job([["d1 f10 b24 o5", "d1 f10 b24 o5", "d1 f10 b24 o5", "_5 e60 c20"]])
    steps = marks.steps
    kept = {each.name: getattr(steps, each.name)[:3] for each in fields(steps)}
    return replace(marks, steps=Steps(**kept), open_step=3, **ended)


def test_what_runs_after_the_last_step_is_in_the_account_of_a_run_that_ended():
    row = analyse_marks([with_tail()]).analyses[0].devices[0].accounting
    assert (row.num_steps, row.total_ns) == (3, 205 * MS)
    assert (row.idle.eval_ns, row.idle.checkpoint_ns) == (60 * MS, 20 * MS)


def test_a_run_that_was_killed_has_its_tail_and_one_that_goes_on_has_none_yet():
    killed = analyse_marks([with_tail(exit_ns=None, is_alive=False)]).analyses[0]
    assert killed.devices[0].accounting.total_ns == 205 * MS
    alive = analyse_marks([with_tail(exit_ns=None, is_alive=True)]).analyses[0]
    assert alive.devices[0].accounting.total_ns == 120 * MS


def test_host_time_after_the_last_step_is_no_part_of_it():
    (marks,) = job([["d1 f10 b24 o5"] * 3 + ["_500"]])
    steps = marks.steps
    kept = {each.name: getattr(steps, each.name)[:3] for each in fields(steps)}
    row = analyse_marks([replace(marks, steps=Steps(**kept))]).analyses[0].devices[0].accounting
    assert row.total_ns == 120 * MS
