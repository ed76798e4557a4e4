"""A capture that a person asks for ends in a report, or in a line of why not."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest

from stepscope.act.capture.request import Request
from stepscope.model.capture import CaptureDocument
from stepscope.model.error import StepscopeError
from stepscope.model.report import Report
from stepscope.offline.stored import Asked, Window, diagnose_window
from stepscope.server.by_hand import WHY, ByHand
from stepscope.server.parts import Parts
from tests.server.looping import Loop, Played, played
from tests.server.served import serving


@pytest.fixture(scope="module")
def well(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return played(tmp_path_factory.mktemp("well"), None)


def _done(loop: Loop, why: str = WHY) -> CaptureDocument:
    row = loop.store.runs()[0]
    loop.asking.ask(row.job, row.run, Request(num_steps=4), by="ann", why=why)
    made, now = loop.asking.make(), loop.watched.now_ns
    doc = CaptureDocument(
        id=made.id, job=row.job, run=row.run, state="done", by="ann", why=why, asked_ns=now, num_steps=4,
        steps=made.steps, ended_ns=now,
    )  # fmt: skip
    loop.store.put("capture", str(doc.id), msgspec.json.encode(doc), job=row.job, run=row.run, at_ns=now)
    return doc


def _kept(loop: Loop, id: int) -> CaptureDocument:
    body = loop.store.get("capture", str(id))
    assert body is not None
    return msgspec.json.decode(body, type=CaptureDocument)


def _by_hand(loop: Loop) -> ByHand:
    return ByHand(
        loop.store, loop.feed, lambda window, asked: diagnose_window(window, asked).report,
        lambda: loop.watched.now_ns + loop.ahead_ns,
    )  # fmt: skip


def test_its_report_is_of_its_own_traces_and_named_in_its_document(well: Played, tmp_path: Path) -> None:
    loop = well.loop(tmp_path)
    by_hand = _by_hand(loop)
    doc = _done(loop)
    loop.feed.tell("capture", doc)
    loop.ahead_ns = 10 * 10**9
    by_hand.tick()
    kept = _kept(loop, doc.id)
    assert kept.report == f"capture-{doc.id}"
    body = loop.store.get("report", kept.report)
    assert body is not None
    report = msgspec.json.decode(body, type=Report)
    assert {each.rank for each in report.inputs if each.kind == "trace"} == {0, 1}
    by_hand.tick()
    assert [each.id for each in loop.store.documents("report")] == [kept.report]
    assert not loop.incidents()
    assert not loop.told


def test_one_that_an_earlier_server_left_without_a_report_is_given_one(well: Played, tmp_path: Path) -> None:
    loop = well.loop(tmp_path)
    doc, other = _done(loop), _done(loop, why="incident i-1")
    loop.ahead_ns = 10 * 10**9
    by_hand = _by_hand(loop)
    by_hand.tick()
    by_hand.tick()
    assert (_kept(loop, doc.id).report, _kept(loop, other.id).report) == (f"capture-{doc.id}", None)


def test_why_there_is_no_report_is_said(well: Played, tmp_path: Path) -> None:
    loop = well.loop(tmp_path)

    def fails(window: Window, asked: Asked) -> Report:
        raise StepscopeError("too large")

    by_hand = ByHand(loop.store, loop.feed, fails, lambda: loop.watched.now_ns + 10 * 10**9)
    doc = _done(loop)
    loop.feed.tell("capture", doc)
    by_hand.tick()
    assert _kept(loop, doc.id).no_report == "too large"


def test_a_capture_that_is_refused_answers_409_with_why() -> None:
    def more(parts: Parts) -> Parts:
        refused = {"id": 7, "state": "refused", "refusal": "no rank of it marks its steps now"}
        return dataclasses.replace(parts, ask_capture=lambda job, run, ranks, num_steps, by: refused)

    with serving(more=more) as server:
        said = server.post("/api/v1/captures", {"job": "llama"})
        assert said.status == 409
        assert said.json == {"error": "no rank of it marks its steps now", "mend": "see capture 7"}
