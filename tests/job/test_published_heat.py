"""One card at 88 °C: hot and as fast as the others, and hot and slower for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.job.published import is_cleared, simulated

SIZE = {"ranks": 2, "layers": 3, "step_ms": 500.0, "steps": 60, "trace_steps": (40, 55), "seed": 4}


def test_a_hot_card_that_is_not_slower_is_a_hint(tmp_path: Path) -> None:
    found = simulated(tmp_path / "run", "hot#1:88", **SIZE)
    assert found.number("temperature_celsius_max")[1] == 88
    assert found.number("thermal_throttled_share")[1] == 0
    assert found.number("sm_clock_share")[1] == pytest.approx(1.0)
    assert found.report.verdict.class_ == "healthy"
    assert {(h.hint, h.rank) for h in found.report.hints if "hot" in h.hint} == {("hot-not-throttled", 1)}
    (hot,) = (f for f in found.report.findings if f.rule == "hot-device")
    assert (hot.severity, hot.subject.ranks, hot.cost) == ("info", (1,), None)
    assert "thermal-throttle" not in found.rules
    cooled = simulated(tmp_path / "after", **SIZE)
    assert "hot-device" not in cooled.rules
    assert is_cleared(found, cooled, hot)


def test_a_hot_card_that_throttles_is_the_cause_of_the_others_waiting(tmp_path: Path) -> None:
    found = simulated(tmp_path / "run", "thermal-throttle#1:0.75", **SIZE)
    assert found.number("temperature_celsius_max")[1] == 88
    assert found.number("thermal_throttled_share")[1] == pytest.approx(1.0)
    assert found.number("clock_drop_share")[1] == pytest.approx(0.25, abs=0.01)
    assert found.report.verdict.class_ == "computing-slowly"
    assert found.rules == ["thermal-throttle"]
    assert (found.first.subject.ranks, found.first.severity, found.first.confidence) == (
        (1,),
        "critical",
        "high",
    )
    # Slower kernels on it and waiting on the other are its consequences.
    explained = {f.rule: f.explained_by for f in found.report.findings if f.explained_by is not None}
    assert explained == {"slow-rank": found.first.id, "waiting-for-peers": found.first.id}
    # A quarter of the clock is a quarter of the products' time, and no more.
    assert found.first.cost is not None
    assert 0.20 < found.first.cost.share < 0.26
    cooled = simulated(tmp_path / "after", **SIZE)
    assert cooled.report.verdict.class_ == "healthy"
    assert is_cleared(found, cooled)
