"""Every hour of every job: where its signals left their median, with the traces of that time and a card that
nobody is paged by."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from stepscope.model.incident import Incident
from stepscope.offline.stored import Asked, Window, diagnose_window
from stepscope.server.hourly import HOUR_NS, LATE_NS, Hourly, HourlyReport, SegmentOf, worst
from tests.server.looping import NS, Loop, Played, played


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Rank 1 waits for its loader in the second half."""
    return played(tmp_path_factory.mktemp("slow"), "loader-stall#1:severe")


def _hourly(loop: Loop, now_ns: int) -> Hourly:
    return Hourly(loop.store, lambda window, asked: diagnose_window(window, asked).report, lambda: now_ns)


def test_an_abnormal_stretch_is_diagnosed_with_its_traces_and_pages_nobody(
    slow: Played, tmp_path: Path
) -> None:
    loop = slow.loop(tmp_path)
    row = loop.store.runs()[0]
    _keep_capture(loop)
    hour_end = row.start_ns // HOUR_NS * HOUR_NS + HOUR_NS
    early = _hourly(loop, hour_end + LATE_NS - 1)
    early.tick()
    hourly = _hourly(loop, hour_end + LATE_NS)
    hourly.tick()
    (document,) = loop.store.documents("hourly")
    made = msgspec.json.decode(document.body, type=HourlyReport)
    assert "step_seconds" in {each.signal for each in made.segments}
    assert made.worst_ns is not None
    assert made.captures == (1,)
    assert made.cards[0] == "input-starvation"
    assert len(made.top_operators) == 5
    (incident,) = loop.incidents()
    assert (incident.state, incident.severity, incident.rule) == ("closed", "info", "input-starvation")
    assert incident.title.startswith("Hourly diagnosis: ")
    assert loop.store.get("report", made.report or "") is not None
    assert not loop.told

    hourly.tick()
    _hourly(loop, hour_end + LATE_NS + NS).tick()  # behind a restart
    assert (hourly.num_made, len(loop.incidents())) == (1, 1)


def _keep_capture(loop: Loop) -> None:
    """The capture that was made, as `server.capture` writes it down."""
    from stepscope.act.capture.request import Request

    row = loop.store.runs()[0]
    loop.asking.ask(row.job, row.run, Request(num_steps=4), by="x", why="x")
    made = loop.asking.make()
    body = {
        "id": 1, "run": row.run, "state": "done", "asked_ns": loop.watched.now_ns - 6 * NS,
        "ended_ns": loop.watched.now_ns, "steps": made.steps,
    }  # fmt: skip
    loop.store.put("capture", "1", msgspec.json.encode(body), job=row.job, at_ns=loop.watched.now_ns)


def test_an_hour_in_which_nothing_left_its_median_has_a_document_and_no_card(tmp_path: Path) -> None:
    made = played(tmp_path / "well", None)
    loop = made.loop(tmp_path)
    row = loop.store.runs()[0]
    looks: list[Window] = []

    def diagnose(window: Window, asked: Asked) -> object:
        looks.append(window)
        return diagnose_window(window, asked).report

    end = row.start_ns // HOUR_NS * HOUR_NS + HOUR_NS
    Hourly(loop.store, diagnose, lambda: end + LATE_NS).tick()  # type: ignore[arg-type]
    (document,) = loop.store.documents("hourly")
    found = msgspec.json.decode(document.body, type=HourlyReport)
    told = {each.signal for each in found.segments}
    assert "step_seconds" not in told
    assert not [i for i in loop.incidents() if isinstance(i, Incident) and i.rule == "input-starvation"]


def test_the_worst_stretch_is_where_most_series_left_their_median() -> None:
    def segment(start_s: int, end_s: int) -> SegmentOf:
        return SegmentOf("x", "d", start_s * NS, end_s * NS, 1.0, 2.0, 1.0)

    assert worst([segment(0, 10), segment(100, 130), segment(110, 140)]) == (100 * NS, 140 * NS)
    assert worst([segment(0, 3000)]) == (0, 600 * NS)
