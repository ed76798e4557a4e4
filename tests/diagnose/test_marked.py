"""Marks beside traces of the same run: who decides what."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from stepscope.analyse.marked import analyse_marks
from stepscope.diagnose import Options
from stepscope.diagnose.diagnose import diagnose
from stepscope.model import report
from tests.analyse.marked.made import BEGIN_NS, CATALOG, job
from tests.diagnose import build
from tests.views.contract import broken

MS = build.MS


def traced(number, *rows, at_ns=BEGIN_NS, step_ms=40):
    """A trace of four steps from `at_ns` on."""
    rank = build.rank(*rows, world_size=None)
    steps = tuple(
        msgspec.structs.replace(
            step,
            rank=number,
            start_ns=at_ns + n * step_ms * MS,
            end_ns=at_ns + (n + 1) * step_ms * MS,
            dur_ns=step_ms * MS,
        )
        for n, step in enumerate(rank.steps)
    )
    return dataclasses.replace(rank, rank=number, steps=steps)


def told(trace, lines):
    inputs = [
        report.Input(kind="trace", format="kineto", name="rank.json"),
        report.Input(kind="steps", format="step-ring", name="rank.ring"),
    ]
    return diagnose([trace], inputs, Options(catalog=CATALOG), marked=analyse_marks(job([lines])))


def steps(num, slow, first, last, plain="d2 f10 b20 o5"):
    return [slow if first <= n <= last else plain for n in range(num)]


def names(of):
    return [(each.rule, each.subject.steps) for each in of.findings if each.severity != "info"]


CLEAR = build.row(rank=None)
"""A device that is always busy."""


def test_what_marks_saw_in_other_steps_is_told_beside_a_clear_trace():
    of = told(traced(None, CLEAR), steps(200, "d25 f10 b20 o5", 120, 160))
    assert names(of) == [("input-starvation", (120, 160))]
    assert of.verdict.class_ == "waiting-for-data"
    assert len(of.accounting) == 1  # the trace's row alone
    assert broken(msgspec.json.decode(msgspec.json.encode(of))) == []


def test_of_the_steps_that_it_shows_the_trace_decides():
    at = BEGIN_NS + (120 * 37 + 5 * 60) * MS
    of = told(traced(None, CLEAR, at_ns=at), steps(200, "d25 f10 b20 o5", 120, 160))
    assert names(of) == []


def test_a_loader_that_hides_behind_the_device_is_no_finding_of_marks():
    assert names(told(traced(None, CLEAR), steps(60, "d25 f10 b20 o5", 0, 59))) == []


@pytest.mark.parametrize(("step_ms", "status"), [(37, "yes"), (90, "no")])
def test_traced_steps_are_held_against_those_of_the_run(step_ms, status):
    of = told(traced(None, CLEAR, step_ms=step_ms), steps(60, "", 99, 99))
    assert of.window.representative.status == status


def test_marks_of_another_day_are_not_joined():
    of = told(traced(None, CLEAR, at_ns=BEGIN_NS + 86_400_000 * MS), steps(200, "d25 f10 b20 o5", 120, 160))
    assert names(of) == []
    assert of.window.representative is None


def on_host(**parts):
    """The row of a trace that no accelerator is in."""
    return build.row(rank=None, device=report.Device(kind="cpu"), **parts)


def test_beside_a_trace_of_a_host_the_account_of_the_whole_run_stays():
    trace = dataclasses.replace(traced(None, on_host(python=1 * MS)), accelerator="cpu")
    of = told(trace, steps(60, "", 99, 99, plain="d1 f20 b20 o9"))
    assert [(each.device.kind, each.num_steps) for each in of.accounting] == [("cpu", 4), ("marks", 60)]
    assert of.accounting[1].compute_ns == 60 * 49 * MS
    assert of.verdict.class_ == "undecided"  # marks clear nothing that they cannot see
    assert "no wait of the loop was found; by the marks 98.0 % of the run's 60 steps" in of.verdict.text
    assert broken(msgspec.json.decode(msgspec.json.encode(of))) == []


def test_a_loop_that_waits_a_little_is_not_said_to_wait_for_nothing():
    trace = dataclasses.replace(traced(None, on_host(python=1 * MS)), accelerator="cpu")
    of = told(trace, steps(60, "", 99, 99, plain="d3 f20 b18 o9"))
    assert "no wait of the loop" not in of.verdict.text


def test_what_the_trace_found_is_not_told_again_of_parts_of_the_run():
    trace = dataclasses.replace(traced(None, on_host(input=50 * MS)), accelerator="cpu")
    of = told(trace, steps(200, "d25 f10 b20 o5", 120, 160))
    assert [each.rule for each in of.findings] == ["input-starvation"]
