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
from stepscope.offline.mark import interrupted as with_ctrl_c
from stepscope.offline.read import Read
from stepscope.sources.marks import marks_of_records, marks_of_ring
from stepscope.sources.ring import RECORD
from stepscope.views.detail_marks import marks_text
from stepscope_sdk import ring_abi as abi
from tests.analyse.marked.made import CATALOG, MS, job
from tests.simulate.live import Job

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


def test_ranks_that_a_launcher_killed_after_ctrl_c_are_interrupted_and_nothing_critical():
    gone = {"is_alive": False, "open_step": 60, "open_phase": "backward", "open_since_ns": 0}
    assert "killed-process" in {each.rule for each in told(2 * SECOND, **gone).findings}
    of = told(2 * SECOND, was_interrupted=True, **gone)
    (stopped,) = [each for each in of.events if each.kind == "exit"]
    assert (stopped.severity, stopped.text[-20:]) == ("info", ": it was interrupted")
    assert marks_text(stopped.text, "zh") == "进程已不在，且未表示结束，在第 60 步的反向：被中断"
    assert not {each.severity for each in of.findings} & {"critical"}


def test_whoever_started_the_job_says_that_it_was_interrupted():
    (marks,) = job([PLAIN])
    given = report.Input(kind="steps", format="step-ring", name="a.ring")
    ended, gone = (
        Read(given, "a.ring", marks=(marks,)),
        Read(given, "a.ring", marks=(replace(marks, exit_ns=None),)),
    )
    assert [each.marks[0].was_interrupted for each in with_ctrl_c([ended, gone])] == [False, True]


def with_tail(**ended):
    """Three steps of 40 ms; 5 ms after the last an evaluation of 60 ms begins, then a checkpoint of 20 ms."""
    (marks,) = job([["d1 f10 b24 o5", "d1 f10 b24 o5", "d1 f10 b24 o5", "_5 e60 c20"]])
    steps = marks.steps
    columns = {each.name: getattr(steps, each.name) for each in fields(steps)}
    kept = {name: column[:3] for name, column in columns.items() if column is not None}
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
    columns = {each.name: getattr(steps, each.name) for each in fields(steps)}
    kept = {name: column[:3] for name, column in columns.items() if column is not None}
    row = analyse_marks([replace(marks, steps=Steps(**kept))]).analyses[0].devices[0].accounting
    assert row.total_ns == 120 * MS


# ── a job that is served ──


def served(job_: Job, silent_ns: int) -> report.Report:
    """Its rings, read so long after its last mark."""
    rings = [marks_of_ring(str(path)) for path in sorted(job_.out.glob("run/*.ring"))]
    # Their writer is this process: its own lock is none to it.
    rings = [replace(marks, is_alive=marks.exit_ns is None) for marks in rings]
    logs = [log_of_marks(marks, f"{n}.ring", marks.last_ns + silent_ns) for n, marks in enumerate(rings)]
    given = [report.Input(kind="steps", format="step-ring", name=log.name) for log in logs]
    return diagnose((), given, Options(catalog=CATALOG), (), (), logs, analyse_marks(rings))


def test_rings_of_a_job_that_hangs_name_the_rank_that_never_came(tmp_path):
    of = Job(tmp_path / "run", layers=1)
    of.until(6.0)
    assert not [f for f in served(of, SECOND // 3).findings if f.severity == "critical"]
    of.service.switch("hang#1 on")
    of.until(8.0)
    told = served(of, 40 * SECOND)
    step = told.steps[-1].step + 1
    where = f"rank 1 is in forward of step {step}, the others in"
    assert told.verdict.text.startswith(f"Other stall: the job makes no steps any more; {where}")
    assert {each.subject.ranks for each in told.findings if each.rule == "no-progress"} == {(1,)}
    of.service.end(True)
    assert not [f for f in served(of, 40 * SECOND).findings if f.severity == "critical"]


# ── two ranks ──


def of_two(silent_ns: int, first: dict[str, object], second: dict[str, object], lang="en") -> report.Report:
    """Two ranks that were read so long after their last marks."""
    marks = [
        replace(m, exit_ns=None, **how) for m, how in zip(job([PLAIN] * 2), (first, second), strict=True)
    ]
    given = [report.Input(kind="steps", format="step-ring", name=f"{n}.ring") for n in range(2)]
    logs = [log_of_marks(m, f"{n}.ring", m.last_ns + silent_ns) for n, m in enumerate(marks)]
    return diagnose((), given, Options(catalog=CATALOG, lang=lang), (), (), logs, analyse_marks(marks))


IN_BACKWARD = {"open_step": 60, "open_phase": "backward", "open_since_ns": 9}
IN_FORWARD = {"open_step": 60, "open_phase": "forward", "open_since_ns": 5}


def test_a_standstill_names_the_phase_and_the_rank_that_is_elsewhere():
    lives = {"is_alive": True}
    of = of_two(120 * SECOND, IN_BACKWARD | lives, IN_FORWARD | lives)
    where = "rank 1 is in forward of step 60, the others in backward"
    assert of.verdict.text == f"Other stall: the job makes no steps any more; {where}."
    assert {each.subject.ranks for each in of.findings if each.rule == "no-progress"} == {(1,)}
    zh = of_two(120 * SECOND, IN_BACKWARD | lives, IN_FORWARD | lives, lang="zh")
    assert "rank 1 停在第 60 步的前向，其余在反向" in zh.verdict.text


def test_ranks_that_all_wait_in_one_phase_are_told_together():
    lives = {"is_alive": True}
    of = of_two(120 * SECOND, IN_BACKWARD | lives, IN_BACKWARD | lives)
    assert of.verdict.text.endswith("; ranks 0, 1 are in backward of step 60.")


def test_a_job_that_was_killed_says_so_and_where_it_was():
    gone = {"is_alive": False}
    of = of_two(120 * SECOND, IN_BACKWARD | gone, IN_FORWARD | gone)
    assert {each.rule for each in of.findings} == {"killed-process"}
    assert of.verdict.class_ == "other-stall"
    assert of.verdict.text.endswith(
        "or it crashed; rank 1 was in forward of step 60, the others in backward."
    )


def test_a_job_that_hung_until_it_was_killed_has_the_kill_as_a_consequence():
    (marks,) = job([PLAIN])
    of = told(0, is_alive=False, gone_ns=marks.last_ns + 60 * SECOND, **IN_BACKWARD)
    why = {each.rule: each.explained_by for each in of.findings}
    assert why["no-progress"] is None
    assert why["killed-process"].startswith("no-progress")
    # Seen to be gone a second after its last mark it stood nowhere.
    of = told(0, is_alive=False, gone_ns=marks.last_ns + SECOND, **IN_BACKWARD)
    assert {each.rule for each in of.findings} == {"killed-process"}


def test_a_rank_that_was_killed_is_the_one_that_the_living_wait_for():
    of = of_two(120 * SECOND, IN_BACKWARD | {"is_alive": True}, IN_FORWARD | {"is_alive": False})
    assert "rank 1 was killed in forward of step 60, the others in backward" in of.verdict.text
    assert "no-progress" in {each.rule for each in of.findings}


def test_a_job_that_ends_in_order_long_after_its_last_step_stands_nowhere_and_was_not_killed():
    (marks,) = job([PLAIN])
    marks = replace(marks, exit_ns=marks.last_ns + 300 * SECOND)
    given = [report.Input(kind="steps", format="step-ring", name="a.ring")]
    of = diagnose(
        (), given, Options(catalog=CATALOG), (), (), [log_of_marks(marks, "a")], analyse_marks([marks])
    )
    assert not {each.rule for each in of.findings} & {"no-progress", "killed-process"}


def test_a_slow_loader_is_still_the_answer_for_a_job_that_was_killed():
    (marks,) = job([["d20 f10 b20 o5"] * 60])
    marks = replace(marks, exit_ns=None, is_alive=False)
    given = [report.Input(kind="steps", format="step-ring", name="a.ring")]
    of = diagnose(
        (), given, Options(catalog=CATALOG), (), (), [log_of_marks(marks, "a")], analyse_marks([marks])
    )
    assert of.verdict.class_ == "waiting-for-data"
    assert "killed-process" in {each.rule for each in of.findings}
