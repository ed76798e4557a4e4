"""Published cases of a device that waits for data: a growing loader, a stall every tenth step, one worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.job.published import Case, is_cleared, simulated


def first_of(case: Case, letter: str) -> tuple[bool | None, bool | None]:
    """Whether a specified pattern holds as it was written, and as it decides."""
    (found,) = (p for p in case.report.patterns if p.pattern == letter)
    return found.as_written.holds, found.effective.holds


def test_a_loader_that_needs_38_percent_of_the_step_and_ever_more(tmp_path: Path) -> None:
    """SM active 52 %, the loader 38 % of the step, major faults, PCIe that follows it, growing steps."""
    size = {"ranks": 1, "model": "resnet", "layers": 4, "step_ms": 1000.0, "steps": 40, "seed": 3}
    size |= {"trace_steps": (30, 38)}
    often = {"collect_ms": 200, "scrape_ms": 200}
    found = simulated(tmp_path / "before", "page-cache-thrash:0.385", recording=often, **size)
    assert found.number("sm_active_mean")[0] == pytest.approx(0.52, abs=0.02)
    assert found.number("idle_input_share")[0] == pytest.approx(0.38, abs=0.01)
    # Thousands a second, where the same job has next to none.
    assert found.number("host_major_faults_per_second")[0] > 10_000
    assert found.number("pcie_with_input")[0] > 0.5
    assert found.number("step_growth_ratio")[0] > 1.3
    assert found.report.verdict.class_ == "waiting-for-data"
    assert found.rules[0] == "slow-storage"
    assert found.first.severity == "critical"
    # Host and trace agree.
    assert found.first.confidence == "high"
    assert "slowing-steps" in found.rules
    assert first_of(found, "D") == (True, True)
    # The loader itself is a consequence of the disk.
    (loader,) = (f for f in found.report.findings if f.rule == "input-starvation")
    assert loader.explained_by == found.first.id
    fixed = simulated(tmp_path / "after", recording=often, **size)
    assert "slow-storage" not in fixed.rules
    assert "slowing-steps" not in fixed.rules
    assert fixed.number("host_major_faults_per_second")[0] < 100
    assert first_of(fixed, "D") == (False, False)
    assert is_cleared(found, fixed)


def test_a_stall_of_200_ms_every_tenth_step_of_eight_sharded_ranks(tmp_path: Path) -> None:
    """Eight A100 with sharded updates: use swings from 40 to 95 %, for misses of the page cache; gathering
    parameters takes 15 % and is not the cause."""
    size = {"ranks": 8, "gpu": "A100", "shard": True, "layers": 4, "step_ms": 50.0, "seed": 3}
    size |= {"exchange_scale": 4.0, "steps": 80, "trace_steps": (20, 69)}
    often = {"collect_ms": 330, "scrape_ms": 330}
    found = simulated(tmp_path / "before", "page-cache-miss:200", recording=often, **size)
    assert found.mean("compute_busy_ratio", "min") == pytest.approx(0.40, abs=0.06)
    assert found.mean("compute_busy_ratio", "max") == pytest.approx(0.95, abs=0.05)
    total = sum(row.total_ns for row in found.report.accounting if row.scope == "steps")
    gathered = sum(
        (row.transfer_ns or 0) + (row.wait_ns or 0)
        for row in found.report.collectives
        if row.kind == "all_gather"
    )
    assert gathered / total == pytest.approx(0.15, abs=0.02)
    # 200 ms every tenth step, and on no rank anything else.
    slow = [row.variation for row in found.report.accounting if row.scope == "steps"]
    assert {variation.period_steps for variation in slow if variation is not None} == {10}
    stall = [
        (step.dur_ns - variation.median_ns) / 1e6
        for row in found.report.accounting
        if row.scope == "steps" and (variation := row.variation) is not None
        for step in found.report.steps
        if step.rank == row.rank
        and step.step in variation.slow_steps
        and step.dur_ns > 2 * variation.median_ns
    ]
    assert len(stall) == 8 * 5
    assert sum(stall) / len(stall) == pytest.approx(200, rel=0.10)
    assert found.report.verdict.class_ == "waiting-for-data"
    assert found.rules[:2] == ["slow-storage", "communication-bound"]
    fixed = simulated(tmp_path / "after", recording=often, **size)
    assert fixed.mean("compute_busy_ratio", "min") > 0.9
    assert "slow-storage" not in fixed.rules
    assert is_cleared(found, fixed)


def test_one_worker_that_is_busy_for_two_fifths(tmp_path: Path) -> None:
    """It waits for its disk the rest of the time, and there is no other that reads ahead meanwhile."""
    size = {"ranks": 1, "layers": 3, "step_ms": 500.0, "steps": 40, "trace_steps": (20, 32), "seed": 3}
    found = simulated(
        tmp_path / "before", "page-cache-thrash:0.5", recording={"workers": 1, "worker_busy": 0.4}, **size
    )
    assert worker_cores(tmp_path / "before") == pytest.approx(0.4, abs=0.05)
    # No shortage of processors: a tenth of them works.
    assert found.number("host_cpu_busy")[0] < 0.2
    assert found.report.verdict.class_ == "waiting-for-data"
    assert found.rules[0] == "input-starvation"
    assert found.first.remedies[0].patch is not None
    assert "num_workers" in (found.first.remedies[0].patch.after or "")
    fixed = simulated(tmp_path / "after", recording={"workers": 8}, **size)
    assert fixed.report.verdict.class_ == "healthy"
    assert is_cleared(found, fixed)


def worker_cores(folder: Path) -> float:
    """Cores that the loader's worker took in the second half of the run, as the process exporter counts."""
    at, read = 0, []
    for line in (folder / "telemetry/node0.node.prom").read_text().splitlines():
        if line.startswith("# scraped_at_ns "):
            at = int(line.rpartition(" ")[2])
        elif line.startswith("namedprocess_namegroup_cpu_seconds_total"):
            read.append((at, float(line.rpartition(" ")[2])))
    steps = [each for each in read if 0 < each[1] < read[-1][1]]
    (first, begun), (last, ended) = steps[len(steps) // 2], steps[-1]
    return (ended - begun) / ((last - first) / 1e9)
