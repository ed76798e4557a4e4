"""Eight devices whose all-reduce runs between backward and update: NVLink peaks at 90 %, and means 55 %."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.job.published import is_cleared, simulated

SIZE = {"ranks": 8, "layers": 2, "step_ms": 165.0, "steps": 30, "trace_steps": (2, 27), "seed": 12}
OFTEN = {"collect_ms": 100, "scrape_ms": 100}
FASTER = 0.90 / 0.795
"""The simulated link peaks at 79.5 % of NVLink's nominal rate; the published one at 90 %."""
CHANNELS = 0.30
"""Of the multiprocessors, those that the published collectives ran on; the simulated ones have 24 of 132."""
STATED: dict[str, Callable[[float], float]] = {
    f"DCGM_FI_PROF_NVLINK_{way}_BYTES": lambda bytes_per_second: bytes_per_second * FASTER
    for way in ("TX", "RX")
}
STATED["DCGM_FI_PROF_SM_ACTIVE"] = lambda ratio: max(ratio, CHANNELS) if ratio > 0.1 else ratio


def test_an_all_reduce_that_nothing_overlaps(tmp_path: Path) -> None:
    found = simulated(
        tmp_path / "before",
        recording=OFTEN,
        restated=STATED,
        **SIZE,
        overlap=False,
        exchange_scale=90.0,
    )
    for rank in range(8):
        assert found.number("nvlink_peak_link_share")[rank] == pytest.approx(0.90, abs=0.02)
        assert found.number("nvlink_link_share")[rank] == pytest.approx(0.55, abs=0.03)
        assert found.number("sm_active_in_collectives")[rank] == pytest.approx(0.30, abs=0.05)
        assert found.number("hidden_of_communication_share")[rank] < 0.01
    assert found.report.verdict.class_ == "waiting-for-communication"
    assert "that nothing overlaps" in found.report.verdict.text
    assert found.rules == ["communication-bound"]
    assert found.first.confidence == "high"
    assert "beside computing" in found.first.remedies[0].text
    # Peak and mean are told apart.
    shown = {e.feature: e.value for e in found.first.evidence}
    assert shown["nvlink_peak_link_share"] > 1.5 * shown["nvlink_link_share"]
    # Beside the backward pass, and a sixteenth of the bytes: eight micro-batches a step, in half precision.
    fixed = simulated(
        tmp_path / "after", recording=OFTEN, restated=STATED, **SIZE, overlap=True, exchange_scale=90.0 / 16
    )
    assert fixed.report.verdict.class_ == "healthy"
    assert is_cleared(found, fixed)


def test_where_it_overlaps_as_far_as_it_can_the_volume_is_the_limit(tmp_path: Path) -> None:
    size = SIZE | {"steps": 10, "trace_steps": (2, 8)}
    found = simulated(tmp_path / "run", recording=OFTEN, **size, overlap=True, exchange_scale=90.0)
    assert found.number("hidden_of_communication_share")[0] > 0.15
    assert found.rules == ["communication-bound"]
    assert "the volume is the limit" in found.report.verdict.text
