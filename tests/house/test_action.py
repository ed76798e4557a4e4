"""The example workflow, run step by step as GitHub's runner does, with what it calls faked but stepscope."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs/examples/github-action.yml"
DEMO = ROOT / "src/stepscope/demo/demo.pt.trace.json.gz"
SHELL = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail"]
"""How GitHub runs a step whose shell is bash; without `shell:` it is `bash -e`, which lets more pass."""


def steps() -> list[dict[str, Any]]:
    (job,) = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))["jobs"].values()
    found: list[dict[str, Any]] = job["steps"]
    return found


def program(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{script}\n")
    path.chmod(0o755)


def healthy(path: Path) -> None:
    """Ten steps in which the device always works."""
    events: list[dict[str, Any]] = []
    for step in range(10):
        at = step * 1000
        events.append(
            {
                "ph": "X",
                "cat": "user_annotation",
                "name": f"ProfilerStep#{step}",
                "pid": 9,
                "tid": 9,
                "ts": at,
                "dur": 1000,
            }
        )
        for i in range(10):
            number = step * 10 + i + 1
            launch = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9}
            events.append({**launch, "ts": at + i * 10, "dur": 5, "args": {"correlation": number}})
            args = {"correlation": number, "device": 0, "stream": 7}
            kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "args": args}
            events.append({**kernel, "ts": at + i * 100 + 50, "dur": 100})
    whole = {"schemaVersion": 1, "baseTimeNanoseconds": 1_780_000_000_000_000_000, "traceEvents": events}
    path.write_text(json.dumps(whole))


def run(folder: Path) -> tuple[dict[str, int], str]:
    """Run every `run:` step; its exit codes by name, and the job's summary. `Record` is a no-op here."""
    tools = folder / "tools"
    tools.mkdir()
    program(tools, "python", "exit 0")
    program(tools, "gh", f'echo "$@" > {folder}/gh.txt')
    program(tools, "stepscope", f'exec {sys.executable} -m stepscope "$@"')
    summary = folder / "summary.md"
    summary.touch()
    environment = {
        **os.environ,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "PULL_REQUEST": "12",
    }
    codes = {}
    for step in steps():
        if "run" not in step:
            continue
        script = folder / "step.sh"
        script.write_text(step["run"])
        done = subprocess.run([*SHELL, script], cwd=folder, env=environment, capture_output=True, check=False)
        codes[step["name"]] = done.returncode
    return codes, summary.read_text(encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    return tmp_path


def test_a_critical_finding_fails_the_job_and_is_on_its_page(folder: Path) -> None:
    shutil.copy(DEMO, folder / "traces")
    codes, summary = run(folder)
    assert codes == {"Record": 0, "Install": 0, "Diagnose": 1, "Comment": 0}
    assert summary == (folder / "stepscope.md").read_text(encoding="utf-8")
    assert summary.startswith("**Waiting for data")
    assert (folder / "gh.txt").read_text().split()[:3] == ["pr", "comment", "12"]
    assert (folder / "stepscope.pftrace").stat().st_size > 100_000


def test_a_run_without_findings_passes_and_is_on_its_page_too(folder: Path) -> None:
    healthy(folder / "traces/a.json")
    codes, summary = run(folder)
    assert codes["Diagnose"] == 0
    assert "critical" not in summary
    assert "| computing |" in summary


def test_what_cannot_be_read_keeps_its_own_code(folder: Path) -> None:
    (folder / "traces/a.json").write_text("no trace")
    codes, summary = run(folder)
    assert codes["Diagnose"] == 3
    assert summary == "stepscope ended with 3; its error is in the log.\n"


def test_every_step_has_a_name_or_an_action_and_commands_take_no_text_of_strangers() -> None:
    for step in steps():
        assert "uses" in step or "name" in step
        assert "${{" not in step.get("run", "")  # a title of a pull request would be run
