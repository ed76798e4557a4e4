"""When a capture that gave nothing is worth a line: only where the marks leave something open."""

from __future__ import annotations

from stepscope.run.capture import wanted
from tests.analyse.marked.made import job, judged
from tests.analyse.marked.test_account import tiled


def test_a_wait_for_the_loader_is_decided_by_the_marks_and_wants_no_capture() -> None:
    assert wanted(judged(job([["d40 f2 b4 o1"] * 8]))) is None


def test_host_code_that_nothing_places_wants_a_capture_with_functions() -> None:
    ours = [tiled(each) for each in job([["_12 f2 b4 o1"] * 8])]
    asked = wanted(judged(ours))
    assert asked is not None
    assert asked.flags == frozenset({"stacks"})
