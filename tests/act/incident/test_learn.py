"""What a site's incidents say of a remedy, and how later advice follows it."""

from __future__ import annotations

import msgspec
import pytest

from stepscope.act.incident import learn
from stepscope.model import report
from stepscope.model.alarm import About
from stepscope.model.incident import Change, Gain, Incident
from stepscope.views.phrase import gain_of
from tests.diagnose import build

FIRST, SECOND = "input-starvation#1", "input-starvation#2"


def tried(remedy: str, verdict: str, realised: float | None, state: str = "closed") -> Incident:
    return Incident(
        id=f"{remedy}{verdict}{realised}", about=About(), severity="info", title="t", onset_ns=1, opened_ns=1,
        state=state,  # type: ignore[arg-type]
        change=Change(at_ns=2, what="w", by="b", remedy=remedy),
        gain=Gain(verdict=verdict, predicted=(0.1, 0.3), realised=realised),  # type: ignore[arg-type]
    )  # fmt: skip


HISTORY = [
    tried(FIRST, "better", 0.10),
    tried(FIRST, "better", 0.14),
    tried(FIRST, "better", 0.12),
    tried(FIRST, "same", 0.0),
]


def test_a_lesson_has_its_numbers() -> None:
    lesson = learn.lessons(HISTORY)[FIRST]
    assert (lesson.num_tried, lesson.num_worked) == (4, 3)
    assert lesson.success_share == pytest.approx((1 + 3) / (2 + 4))
    assert lesson.realised_share == pytest.approx(0.12)
    # Realised over the middle of the promise (0.2): 0.5, 0.7, 0.6, 0; and two of 1.
    assert lesson.gain_ratio == pytest.approx((2 + 0.5 + 0.7 + 0.6 + 0) / 6)


def test_what_was_not_judged_teaches_nothing() -> None:
    assert learn.lessons([tried(FIRST, "unknown", None), tried(FIRST, "better", 0.1, state="changed")]) == {}
    assert learn.lessons([msgspec.structs.replace(HISTORY[0], change=None)]) == {}


def test_one_wild_incident_is_clipped() -> None:
    lesson = learn.lessons([tried(FIRST, "better", 0.9)])[FIRST]
    assert lesson.gain_ratio == pytest.approx((2 + 3) / 3)


def two_remedies() -> report.Report:
    whole = build.input_starved("en")
    finding = next(each for each in whole.findings if each.rule == "input-starvation")
    given = tuple(
        report.Remedy(id=id_, text=f"do {id_}", gain_share=(0.10, 0.30), verify="the wait is gone")
        for id_ in (FIRST, SECOND)
    )
    look = report.Remedy(id="input-starvation#9", text="look first")
    changed = msgspec.structs.replace(finding, remedies=(look, *given))
    return msgspec.structs.replace(
        whole, findings=tuple(changed if each is finding else each for each in whole.findings)
    )


def remedies(told: report.Report) -> tuple[report.Remedy, ...]:
    return next(each for each in told.findings if each.rule == "input-starvation").remedies


def test_what_worked_here_stands_first_and_says_so() -> None:
    known = learn.lessons([tried(SECOND, "better", 0.2), tried(SECOND, "better", 0.2)])
    told = remedies(learn.with_history(two_remedies(), known))
    assert [each.id for each in told] == ["input-starvation#9", SECOND, FIRST]
    assert "worked in 2 of 2 here, realised 20.0 %" in gain_of(told[1], None, "en")
    assert "在此处 2 次中有 2 次见效，实得 20.0 %" in gain_of(told[1], None, "zh")


def test_what_failed_here_stands_last_and_is_never_hidden() -> None:
    known = learn.lessons([tried(FIRST, "same", 0.0), tried(FIRST, "worse", -0.05)])
    told = remedies(learn.with_history(two_remedies(), known))
    assert [each.id for each in told] == ["input-starvation#9", SECOND, FIRST]
    failed = told[2]
    assert failed.gain_share is not None
    assert failed.gain_share[1] < 0.30
    assert failed.history is not None
    assert failed.history.gain_share_before == (0.10, 0.30)
    assert gain_of(failed, None, "en").endswith("worked in 0 of 2 here")


def test_more_than_there_is_to_win_is_never_promised() -> None:
    known = learn.lessons([tried(FIRST, "better", 0.6)] * 3)
    told = next(each for each in remedies(learn.with_history(two_remedies(), known)) if each.id == FIRST)
    assert told.gain_share == (0.22, 0.30)  # times (2 + 3 * 3) / 5, but no more than there is


def test_without_history_the_report_is_the_same_object() -> None:
    whole = two_remedies()
    assert learn.with_history(whole, {}) is whole
    assert learn.with_history(whole, learn.lessons([tried("other#1", "better", 0.1)])) == whole
