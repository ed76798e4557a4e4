"""Pages of real traces: their size, and that the pictures hold what the rows hold."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.model.report import encode
from stepscope.views.html import render
from stepscope.views.json import render as as_json
from tests.real.test_answers import TRACES, diagnosed
from tests.views.test_html import Page

MOST_PIECES = 1_500
MOST_PICTURE_BYTES = 150_000
MOST_PAGE_BYTES = 1_000_000


@pytest.mark.parametrize("name", sorted(TRACES))
def test_a_page_of_a_real_trace_is_small_and_well_formed(shared_data: Path, name: str) -> None:
    answer = diagnosed(shared_data / "traces" / TRACES[name])
    text = render(answer)
    assert len(text.encode()) < MOST_PAGE_BYTES
    page = Page(text)
    assert (page.faults, page.open) == ([], [])
    bare = msgspec.structs.replace(
        answer,
        timelines=(),
        accounting=tuple(msgspec.structs.replace(row, by_step=()) for row in answer.accounting),
    )
    assert len(encode(answer)) - len(encode(bare)) < MOST_PICTURE_BYTES
    assert len(as_json(answer)) - len(as_json(bare)) < MOST_PICTURE_BYTES
    assert sum(len(lane.start_ns) for each in answer.timelines for lane in each.lanes) <= MOST_PIECES


@pytest.mark.parametrize("name", sorted(TRACES))
def test_the_idle_lanes_hold_the_idle_time_of_their_step(shared_data: Path, name: str) -> None:
    answer = diagnosed(shared_data / "traces" / TRACES[name])
    for timeline in answer.timelines:
        assert timeline.row is not None
        row = answer.accounting[timeline.row]
        of = next((step for step in row.by_step if step.step == timeline.step), row)
        drawn = {lane.what: sum(lane.busy_ns) for lane in timeline.lanes if lane.kind == "idle"}
        held = {name: ns for name, ns in msgspec.structs.asdict(of.idle).items() if ns}
        assert {f"{cause}_ns": ns for cause, ns in drawn.items()} == held
        assert timeline.dur_ns == of.total_ns
