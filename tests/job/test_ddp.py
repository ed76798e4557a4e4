"""A real job: two processes of DistributedDataParallel over gloo, one of which sleeps in some steps.

Needs a Python with torch: `$STEPSCOPE_TORCH_PYTHON`, `.venv-torch` (made by `.ci/run`) or this one.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import offline
from tests.job import record_ddp

ROOT = Path(__file__).resolve().parents[2]


def python_with_torch() -> str | None:
    """The first Python that has torch."""
    given = os.environ.get("STEPSCOPE_TORCH_PYTHON")
    if given:
        return given
    made = ROOT / ".venv-torch" / "bin" / "python"
    if made.exists():
        return str(made)
    return sys.executable if importlib.util.find_spec("torch") is not None else None


RECORDINGS = 6
"""Other load on the machine puts a process off its processor for longer than a step: that rank is late then,
and rightly named, or waits for nobody. Of so many recordings one is not disturbed."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    return lambda: record(python, tmp_path_factory.mktemp("ddp"))


def record(python, folder):
    """Record both ranks once."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "MASTER_ADDR", "MASTER_PORT")
    }
    ranks = [
        subprocess.Popen(
            [python, record_ddp.__file__, str(folder), str(rank), "2", str(port)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    try:
        for each in ranks:
            _, errors = each.communicate(timeout=180)
            assert each.returncode == 0, errors.decode()[-2000:]
    finally:
        for each in ranks:
            each.kill()
    return folder


def test_the_rank_that_sleeps_is_the_straggler_in_exactly_those_steps(recorded):
    for _ in range(RECORDINGS):
        report = offline.diagnose(recorded())
        row = report.stragglers[0]
        # However busy the machine: the costliest rank, why and where. Not each step: in a step in which
        # the other rank is put off its processor as well, none of them waits for the sleeper.
        assert (row.rank, row.reason) == (1, "python")
        assert set(record_ddp.SLEEPS) & set(row.late_steps)
        assert "sleep_a_little" in row.culprit
        assert row.num_steps == record_ddp.STEPS
        if len(report.stragglers) == 1 and row.late_steps == record_ddp.SLEEPS:
            break
    assert [each.rank for each in report.stragglers] == [1]
    assert row.late_steps == record_ddp.SLEEPS
    assert row.lateness_ns == pytest.approx(50_000_000, rel=0.2)
    assert row.cost_ns == pytest.approx(4 * 50_000_000, rel=0.2)


def test_two_processes_of_one_host_have_one_clock(recorded):
    report = offline.diagnose(recorded())
    assert [abs(row.offset_ns) for row in report.clocks.ranks] == [0, 0]
    assert not [issue for issue in report.health.issues if issue.code == "clock_prior"]
