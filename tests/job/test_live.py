"""A real training on the CPU with the agent beside it, and what the agent's spool says of it.

Needs a Python with torch, as `test_ddp.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import offline
from stepscope.sources.formats.spool import batches_of, open_spool
from tests.job.agent import running_agent
from tests.job.test_ddp import python_with_torch

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ROOT / "tests/job/live/train.py"
NUM_STEPS, FIRST_SLOW, LAST_SLOW = 120, 50, 79


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The spool of an agent that ran beside the whole training."""
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    folder = tmp_path_factory.mktemp("live")
    content = folder / "samples.bin"
    content.write_bytes(os.urandom(1 << 20))
    with running_agent(folder):
        done = subprocess.run(
            [python, str(TRAIN), *map(str, (NUM_STEPS, FIRST_SLOW, LAST_SLOW)), str(content)],
            env=os.environ | {
                "PYTHONPATH": str(ROOT / "src"),
                "STEPSCOPE_RUN_DIR": str(folder / "run"),
                "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "SLURM_JOB_ID": "4711",
            },
            capture_output=True,
            timeout=180,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()[-2000:]
    return folder / "spool"


def test_steps_phases_and_waits_land_in_the_spool_with_who_they_are_of(recorded):
    report = offline.diagnose(telemetry=[recorded])
    steps = [each for each in report.steps if each.rank == 0]
    assert {each.step for each in steps} >= set(range(1, NUM_STEPS - 1))
    (row,) = report.accounting
    assert row.compute_ns > 0
    assert row.idle.input_ns > 0
    assert row.compute_ns + row.idle_ns + row.communication_exposed_ns + row.copy_exposed_ns == row.total_ns


def test_host_metrics_carry_the_job_and_the_steps_that_ran_meanwhile(recorded):
    samples = [each for each in batches_of(open_spool(str(recorded))) if type(each).__name__ == "Samples"]
    own = [
        s for batch in samples for s in batch.series if s.signal.startswith("cpu_") and s.steps is not None
    ]
    assert own, "no host metric was labelled with steps"
    assert {s.labels["job"] for s in own} == {"4711"}
    assert max(s.steps[1] for s in own) > FIRST_SLOW > min(s.steps[0] for s in own)
    assert all(0 <= s.steps[0] <= s.steps[1] < NUM_STEPS for s in own)


def test_a_loader_that_is_slow_in_a_window_is_found_with_its_steps(recorded):
    report = offline.diagnose(telemetry=[recorded])
    first = report.findings[0]
    assert first.rule == "input-starvation"
    assert first.subject.steps == pytest.approx((FIRST_SLOW, LAST_SLOW), abs=2)
    assert first.onset_step == pytest.approx(FIRST_SLOW, abs=2)
    assert report.verdict.class_ == "waiting-for-data"


def test_an_agent_that_is_killed_leaves_a_spool_that_reads_and_training_that_goes_on(tmp_path):
    script = (
        "import stepscope_sdk, time\n"
        "mon = stepscope_sdk.monitor()\n"
        "for n in range(150):\n"
        "    with mon.step(), mon.phase('forward'): time.sleep(0.02)\n"
        "print('done')\n"
    )
    with running_agent(tmp_path) as agent:
        job = subprocess.Popen(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "STEPSCOPE_RUN_DIR": str(tmp_path / "run"),
                              "RANK": "0", "WORLD_SIZE": "1"},
            stdout=subprocess.PIPE,
        )  # fmt: skip
        agent.wait_for("start")
        agent.process.send_signal(signal.SIGKILL)
        assert agent.process.wait(10) == -signal.SIGKILL
        out, _ = job.communicate(timeout=60)
    assert (job.returncode, out) == (0, b"done\n")
    assert list(batches_of(open_spool(str(tmp_path / "spool"))))
    with running_agent(tmp_path) as again:  # the same spool, and the rest of the marks
        again.wait_for("exit")
    report = offline.diagnose(telemetry=[tmp_path / "spool"])
    numbers = [each.step for each in report.steps]
    assert sorted(numbers) == sorted(set(numbers))
    assert {*range(1, 149)} <= set(numbers)
