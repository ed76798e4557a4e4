"""The job in one pod, the agent in another: mounts, pids and /dev/shm of their own, one folder of the host.

Two mount and pid namespaces stand for the pods. Where the system lets nobody make them the test skips, and
under `.ci/run` ($STEPSCOPE_NAMESPACES=required) it fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from stepscope import offline
from stepscope.sources.formats.spool import batches_of, open_spool
from stepscope.sources.marks import marks_of_batches
from tests.job.agent import running_agent
from tests.job.test_ddp import python_with_torch

ROOT = Path(__file__).resolve().parents[2]
POD = "6f0f9c1e-2d56-4b8a-9a7e-3d1f5a0b7c11"
OWN_SHM = 'mount -t tmpfs none /dev/shm && readlink /proc/self/ns/pid /proc/self/ns/mnt > "$0" && exec "$@"'


def within(links: Path) -> list[str]:
    """The command that starts another in namespaces of its own, and writes their links down."""
    return ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
            "sh", "-c", OWN_SHM, str(links)]  # fmt: skip


@pytest.fixture(autouse=True)
def can_unshare(tmp_path):
    why = "no unshare" if shutil.which("unshare") is None else None
    if why is None:
        tried = subprocess.run([*within(tmp_path / "tried"), "true"], capture_output=True, text=True)
        why = tried.stderr.strip() or None if tried.returncode else None
    if why is None:
        return
    if os.environ.get("STEPSCOPE_NAMESPACES") == "required":
        pytest.fail(f"namespaces cannot be made here: {why}")
    pytest.skip(f"namespaces cannot be made here: {why}")


@contextlib.contextmanager
def job_in_a_pod(folder, host_path):
    """The training in a pod: it sees the host's folder, and neither the node's pids nor its /dev/shm."""
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    process = subprocess.Popen(
        [*within(folder / "job.links"), python, str(ROOT / 'tests/job/live/loop.py'), str(folder / "stop")],
        env=os.environ | {
            "PYTHONPATH": str(ROOT / "src"), "STEPSCOPE_RUN_DIR": str(host_path / POD),
            "POD_UID": POD, "POD_NAME": "train-0", "POD_NAMESPACE": "team-a",
            "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "llm-7",
        },
        stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def inner(process: subprocess.Popen) -> psutil.Process:
    """The process that runs inside, as the node sees it."""
    ends = time.monotonic() + 30
    while time.monotonic() < ends:
        children = psutil.Process(process.pid).children()
        if children and "python" in children[0].name():
            return children[0]
        time.sleep(0.05)
    raise AssertionError("nothing started inside")


def test_an_agent_in_one_pod_finds_labels_and_captures_the_job_in_another(tmp_path, record_property):
    host_path = tmp_path / "run"
    (host_path / POD).mkdir(parents=True)
    with (
        running_agent(tmp_path, "--capture", "3", within=within(tmp_path / "agent.links"),
                      run_dir=str(host_path / "*")) as agent,
        job_in_a_pod(tmp_path, host_path) as job,
    ):  # fmt: skip
        said = agent.wait_for("start")
        links = [(tmp_path / f"{who}.links").read_text().split() for who in ("agent", "job")]
        record_property("shown", f"namespaces of the agent {links[0]}, of the job {links[1]}")
        assert not set(links[0]) & set(links[1])
        assert "job=llm-7" in said
        assert "pod=train-0" in said
        # It asks for a capture, and the job in the other pod records the agreed steps.
        inner(agent.process).send_signal(signal.SIGUSR1)
        agent.wait_for("capture")
        ends = time.monotonic() + 60
        while not (traces := list(host_path.rglob("*.json.gz"))) and time.monotonic() < ends:
            time.sleep(0.1)
        assert traces, f"no trace came: {agent.lines}"
        # The job is killed: nobody in the agent's pod knows its pid, its ring tells.
        inner(job).kill()
        agent.wait_for("it was killed")
        inner(agent.process).send_signal(signal.SIGTERM)
        agent.process.wait(20)
    report = offline.diagnose(traces)
    assert [each.rank for each in report.inputs] == [0]
    batches = list(batches_of(open_spool(str(tmp_path / "spool"))))
    (marks,) = marks_of_batches([each for each in batches if type(each).__name__ == "Marks"])
    assert (marks.identity.job, marks.identity.pod_uid, marks.identity.namespace) == ("llm-7", POD, "team-a")
    assert marks.is_alive is False
    assert marks.exit_ns is None
    (capture,) = marks.captures
    traced = {each.step for each in report.steps}
    assert traced <= set(range(capture.first_step, capture.last_step + 1))
    assert len(traced) == 3
    labels = [s.labels for b in batches if type(b).__name__ == "Samples" for s in b.series if s.steps]
    assert labels
    assert {(each["job"], each["namespace"]) for each in labels} == {("llm-7", "team-a")}
