"""How a run by its marks ended: standing, killed, or in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
from stepscope.sources.marks import marks_of_ring
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
