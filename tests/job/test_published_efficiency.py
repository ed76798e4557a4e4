"""Busy 96 %, 320 of 700 W, 62 of 80 GB: a published picture that is no efficiency, and has no one cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model.report import Report
from tests.job import stated
from tests.job.published import Case, diagnosed, is_cleared, simulated

MIB_PER_GB = 1024
SIZE = {"ranks": 2, "layers": 6, "step_ms": 300.0, "seed": 4}
MEMORY = {"memory_gb": 66.35}
"""62 GiB beside what the driver keeps: 77.5 % of what there is."""
POWER, MEMORY_SHARE = 320 / 700, 62 / 80


@pytest.fixture(name="alone", scope="module")
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The figures as counters alone, for a minute."""
    folder = tmp_path_factory.mktemp("alone")
    stated.dcgm(
        folder,
        [
            {
                stated.BUSY: 96.0,
                stated.POWER: 320.0,
                stated.LIMIT: 700.0,
                stated.USED: 62.0 * MIB_PER_GB,
                stated.FREE: 18.0 * MIB_PER_GB,
            }
        ],
        seconds=60,
    )
    return diagnosed(folder)


def test_the_figures_alone_are_computed_and_called_no_efficiency(alone: Case) -> None:
    text = alone.report.verdict.text
    assert "compute busy 96.0 %" in text
    assert "it is not efficiency" in text
    assert "power 45.7 % of its limit" in text
    assert "memory in use 77.5 %" in text
    assert alone.mean("compute_busy_ratio") == pytest.approx(0.96)
    assert alone.mean("power_watts") == pytest.approx(320)
    assert alone.number("power_limit_share")[None] == pytest.approx(0.457, abs=0.0005)
    assert alone.number("memory_used_share")[None] == pytest.approx(0.775, abs=0.0005)


def test_the_figures_alone_commit_to_no_cause_and_name_what_is_needed(alone: Case) -> None:
    report = alone.report
    assert report.verdict.class_ == "undecided"
    assert report.findings == ()
    assert "a trace of a few steps would" in report.verdict.text
    assert [hint.hint for hint in report.hints] == ["busy-at-low-power"]
    assert "does not name the cause" in report.hints[0].text
    (walk,) = report.walks
    assert walk.walk == "busy-low-power"
    # What the counters do not hold is asked for station by station.
    asked = {step.text: step.said for step in walk.steps if step.status == "unknown"}
    assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in "; ".join(asked.values())
    assert "DCGM_FI_PROF_DRAM_ACTIVE" in "; ".join(asked.values())
    assert "trace" in "; ".join(asked.values())
    assert not any(step.status == "suspect" for step in walk.steps)


def first_of_pattern(report: Report, letter: str) -> bool | None:
    return next(p.effective.holds for p in report.patterns if p.pattern == letter)


def test_behind_it_communication(tmp_path: Path) -> None:
    """Exchanges over the host's memory: kernels that wait are resident, and draw little."""
    size = SIZE | {"exchange_scale": 4.0, "steps": 40, "trace_steps": (20, 29)}
    found = simulated(tmp_path / "before", "wrong-transport:5.5", recording=MEMORY, **size)
    assert found.number("compute_busy_mean")[0] == pytest.approx(0.96, abs=0.04)
    assert found.number("power_limit_share")[0] == pytest.approx(POWER, abs=0.02)
    assert found.number("memory_used_share")[0] == pytest.approx(MEMORY_SHARE, abs=0.005)
    assert found.report.verdict.class_ == "waiting-for-communication"
    assert found.rules[0] == "wrong-transport"
    assert "busy-at-low-power" in {hint.hint for hint in found.report.hints}
    fixed = simulated(tmp_path / "after", recording=MEMORY, **size)
    assert fixed.report.verdict.class_ == "healthy"
    assert is_cleared(found, fixed)


def test_behind_it_tiny_kernels(tmp_path: Path) -> None:
    """The utilisation that a driver samples would be higher: of three microseconds two are a kernel's, and
    the simulation counts their time."""
    size = SIZE | {"ranks": 1}
    found = simulated(
        tmp_path / "before",
        "launch-bound:0.03",
        recording=MEMORY | {"collect_ms": 100, "scrape_ms": 100},
        **(size | {"steps": 1200, "trace_steps": (200, 1000)}),
    )
    assert 0.75 < found.number("compute_busy_mean")[0] < 0.96
    assert 0.3 < found.number("power_limit_share")[0] < POWER
    assert found.number("memory_used_share")[0] == pytest.approx(MEMORY_SHARE, abs=0.005)
    assert found.report.verdict.class_ == "computing-slowly"
    assert found.rules == ["small-kernels"]
    assert found.number("short_kernel_share")[0] > 0.9
    fixed = simulated(tmp_path / "after", recording=MEMORY, **(size | {"steps": 40, "trace_steps": (10, 29)}))
    assert fixed.report.verdict.class_ == "healthy"
    assert is_cleared(found, fixed)


def test_behind_it_memory_that_is_read_and_written_again(tmp_path: Path) -> None:
    """Passes that a fused kernel would not need, under the rack's power brake."""
    size = SIZE | {"steps": 14, "trace_steps": (5, 10)}
    found = simulated(tmp_path / "before", "unfused:60", "power-brake:0.8", recording=MEMORY, **size)
    assert found.number("compute_busy_mean")[0] == pytest.approx(0.96, abs=0.04)
    assert found.number("power_limit_share")[0] == pytest.approx(POWER, abs=0.02)
    assert found.number("memory_used_share")[0] == pytest.approx(MEMORY_SHARE, abs=0.005)
    assert found.report.verdict.class_ == "computing-slowly"
    assert found.rules[:2] == ["unfused-elementwise", "power-brake"]
    assert first_of_pattern(found.report, "B") is True
    fixed = simulated(tmp_path / "after", recording=MEMORY, **(size | {"steps": 40, "trace_steps": (10, 29)}))
    assert fixed.report.verdict.class_ == "healthy"
    assert first_of_pattern(fixed.report, "B") is False
    assert is_cleared(found, fixed)
    brake = next(f for f in found.report.findings if f.rule == "power-brake")
    assert is_cleared(found, fixed, brake)
