"""How a run by its marks ended: standing, killed, or in order."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.analyse.marked.log import log_of_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
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
