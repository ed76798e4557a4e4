"""More than 92 % of memory in use, out of memory for pieces, and SM active that swings by 20 % either way."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.job.published import is_cleared, simulated

SIZE = {"ranks": 2, "layers": 3, "step_ms": 600.0, "steps": 60, "trace_steps": (40, 55), "seed": 3}
MEMORY = {"memory_gb": 74.0}


def test_out_of_memory_for_pieces_beside_an_allocator_that_flushes(tmp_path: Path) -> None:
    found = simulated(tmp_path / "before", "fragmentation:0.35", recording=MEMORY, **SIZE)
    for rank in (0, 1):
        assert found.number("memory_used_share")[rank] > 0.92
        assert found.number("sm_active_swing")[rank] == pytest.approx(0.20, abs=0.02)
    assert found.rules == ["fragmented-out-of-memory", "allocator-thrash"]
    assert found.first.severity == "critical"
    assert found.report.verdict.class_ == "other-stall"
    (thrash,) = (f for f in found.report.findings if f.rule == "allocator-thrash" and f.subject.ranks == (1,))
    assert "expandable_segments" in str(found.first.remedies[0].patch)
    # A nearly full memory is a consequence, not a cause beside them.
    full = [f for f in found.report.findings if f.rule == "memory-nearly-full"]
    assert full
    assert all(f.explained_by is not None for f in full)
    fixed = simulated(tmp_path / "after", recording=MEMORY, **SIZE)
    assert fixed.report.verdict.class_ == "healthy"
    assert fixed.number("log_out_of_memory")[0] == 0
    assert is_cleared(found, fixed)
    assert is_cleared(found, fixed, thrash)
