"""The check itself: with real torch on the CPU, and its GPU side with a driver and a trainer that are not
there (nothing here has a GPU: what CUDA does is not tested)."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from stepscope import offline
from stepscope.model.error import RefusedError, UnusableError
from tests.job.test_ddp import python_with_torch
from tests.tools.nvml import Fake
from tools.gpu_check.budget import Budget
from tools.gpu_check.case import cases_for
from tools.gpu_check.run import Check, _case, run

ROOT = Path(__file__).resolve().parents[2]
STUB = f'#!/bin/sh\nexec {sys.executable} {Path(__file__).with_name("trainer.py")} "$FAKE_ANSWERS"\n'


def gpu_check(*words):
    """The script, as it is started by hand."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools/gpu-check"), *map(str, words)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def on_cpu(tmp_path_factory):
    """Two cases on the CPU, with what they recorded."""
    python = python_with_torch()
    if python is None:
        pytest.skip("no Python with torch: make .venv-torch with torch in it, or set STEPSCOPE_TORCH_PYTHON")
    out = tmp_path_factory.mktemp("check")
    code, told, err = gpu_check(
        "--device", "cpu", "--python", python, "--out", out, "--fixture", out / "kept.tar.gz",
        "--minutes", 2, "--cases", "no-workers", "item-each-step",
    )  # fmt: skip
    return code, told, err, out


def test_on_a_cpu_the_loader_is_found_and_what_costs_nothing_is_not(on_cpu):
    code, told, err, out = on_cpu
    assert not err
    cases = {each["case"]: each for each in json.loads((out / "check.json").read_text())["cases"]}
    assert list(cases) == ["no-workers", "item-each-step"]
    starved = cases["no-workers"]
    assert starved["outcome"] == "right", told
    assert starved["cost"] > 0.2
    assert set(starved["told"]) & {"input-starvation", "host-preprocessing"}
    # What other work on the machine takes may be found here; that the loop waits for a device may not.
    assert "hidden-sync" not in cases["item-each-step"]["told"]
    assert (code == 0) == all(each["passed"] for each in cases.values())


def test_each_step_of_a_case_is_marked_and_recorded(on_cpu):
    _, _, _, out = on_cpu
    measured = json.loads((out / "no-workers" / "measured.json").read_text())
    loops = 2 * 5 + measured["num_traced"] + 1  # two warm-ups, and the profiler's own
    assert measured["num_marked"] >= loops + measured["num_steps"] + 8
    assert measured["num_traced"] >= 8


def test_the_recording_that_is_kept_gives_the_same_verdict(on_cpu, tmp_path):
    _, _, _, out = on_cpu
    with tarfile.open(out / "kept.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    assert (out / "kept.tar.gz").stat().st_size < 4_000_000
    about = json.loads((tmp_path / "about.json").read_text())
    assert (about["case"], about["outcome"]) == ("no-workers", "right")
    assert {"date", "torch", "python", "cores"} <= set(about)
    report = offline.diagnose([tmp_path / "rank0.pt.trace.json.gz"])
    assert report.findings[0].rule == about["findings"][0]
    trace = gzip.decompress((tmp_path / "rank0.pt.trace.json.gz").read_bytes()).decode()
    for said in (str(out), str(ROOT), f'"{os.uname().nodename}"'):
        assert said not in trace


def test_a_python_without_torch_is_one_line_and_no_traceback(tmp_path):
    bare = tmp_path / "python"
    bare.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c \'print("{{\\"error\\": \\"no torch: none\\"}}")\'\n'
    )
    bare.chmod(0o755)
    code, _, err = gpu_check("--python", bare)
    assert code == 3
    assert err == f"gpu-check: {bare}: no torch: none; install torch there, or name another with --python\n"


def test_a_python_without_stepscope_is_one_line_and_no_traceback():
    # -S: no site-packages, as with the system's Python where stepscope lies in a virtual environment.
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(ROOT / "tools/gpu-check"), "--device", "cpu"],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr.startswith(f"gpu-check: {sys.executable}: no module ")
    assert done.stderr.count("\n") == 1


def test_a_case_that_does_not_fit_the_time_is_left_out_and_decides_nothing(tmp_path, monkeypatch):
    from tools.gpu_check.talk import Worker

    late = {"error": "took longer than the 7 s that it had", "is_late": True}
    check = Check(
        device="cpu", python="", cases=cases_for("cpu", ("tiny-kernels",)), out=tmp_path,
        budget=Budget(7.0, lambda: 0.0), say=print, load_nvml=lambda: None, date="2026-01-02",
    )  # fmt: skip
    monkeypatch.setattr(Worker, "do", lambda self, order, seconds: late)
    _case(check, Worker.__new__(Worker), None, check.cases[0], 1)
    assert check.rows == []
    assert check.budget.skipped == ["tiny-kernels: took longer than the 7 s that it had"]


def test_a_case_that_hangs_is_a_failure(tmp_path, monkeypatch):
    from tools.gpu_check.talk import Worker

    late = {"error": "took longer than the 600 s that it had", "is_late": True}
    check = Check(
        device="cpu", python="", cases=cases_for("cpu", ("tiny-kernels",)), out=tmp_path,
        budget=Budget(600.0, lambda: 0.0), say=print, load_nvml=lambda: None, date="2026-01-02",
    )  # fmt: skip
    monkeypatch.setattr(Worker, "do", lambda self, order, seconds: late)
    _case(check, Worker.__new__(Worker), None, check.cases[0], 1)
    assert [(each.outcome, each.passed) for each in check.rows] == [("failed", False)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cases", "nothing"), "no case nothing; there are: healthy-transformer"),
        (("--minutes", "0"), "--minutes 0.0: give a number above 0"),
        (("--device", "cpu", "--cases", "tf32-off"), "none of them can be shown on cpu"),
    ],
)
def test_words_that_make_no_sense_are_refused(words, said):
    code, _, err = gpu_check(*words)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1


# ── the GPU side, with what is not there ──


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Traces that stand for what cases record: by name of the case."""
    folder = tmp_path_factory.mktemp("simulated")
    made = {"item-each-step": ("host-sync:severe", "60"), "healthy-transformer": ("", "40")}
    for name, (fault, step_ms) in made.items():
        words = ["simulate", "--out", str(folder / name), "--ranks", "1", "--layers", "4", "--steps", "6"]
        words += ["--step-ms", step_ms, "--seed", "7", *(["--fault", fault] if fault else [])]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        done = subprocess.run(
            [sys.executable, "-m", "stepscope", *words], env=environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr
    return {name: str(folder / name / "rank0.json.gz") for name in made}


def checked(tmp_path, monkeypatch, answers, *, nvml=None, cases=("healthy-transformer", "item-each-step"),
            seconds=480.0, is_busy_ok=False):  # fmt: skip
    """(code, what was said, the check) of a run whose trainer gives set answers."""
    stub, told = tmp_path / "python", []
    stub.write_text(STUB)
    stub.chmod(0o755)
    monkeypatch.setenv("FAKE_ANSWERS", json.dumps(answers))
    check = Check(
        device="cuda", python=str(stub), cases=cases_for("cuda", cases), out=tmp_path / "out",
        budget=Budget(seconds, time.monotonic), say=told.append, load_nvml=lambda: nvml or Fake(),
        date="2026-01-02", is_busy_ok=is_busy_ok,
    )  # fmt: skip
    return run(check), "\n".join(told), check


PROBED = {"torch": "2.13.0+cu130", "device": "NVIDIA H200", "num_kernels": 1, "uuid": None}
PASSABLE = {"healthy_seconds": 0.04, "faulty_seconds": 0.06}


def test_thresholds_lag_and_verdicts_come_out_of_one_run(tmp_path, monkeypatch, simulated):
    answers = {"probe": PROBED, "traces": simulated, "seconds": PASSABLE}
    code, told, check = checked(tmp_path, monkeypatch, answers)
    assert "counters: GPM every 100 ms" in told
    assert [(row.case, row.outcome) for row in check.rows] == [
        ("healthy-transformer", "right"),
        ("item-each-step", "right"),
    ]
    assert all(each.passed for each in check.thresholds)
    assert {each.kernel for each in check.thresholds if each.wanted is not None} == {"matmul-bf16"}
    assert "2 of 2 as they should be, on NVIDIA H200, 2026-01-02" in told
    assert check.lag is not None
    assert check.lag.startswith("counters.prom: ")
    assert code == 0
    counters = (tmp_path / "out" / "item-each-step" / "counters.prom").read_text()
    assert "DCGM_FI_PROF_SM_ACTIVE" in counters


def test_a_wrong_verdict_ends_with_1(tmp_path, monkeypatch, simulated):
    swapped = {"healthy-transformer": simulated["item-each-step"]}
    answers = {"probe": PROBED, "traces": swapped, "seconds": PASSABLE}
    code, told, check = checked(tmp_path, monkeypatch, answers, cases=("healthy-transformer",))
    assert (code, check.rows[0].outcome) == (1, "wrong")
    assert "✗ hidden-sync is not the cause" in told


def test_what_does_not_fit_is_left_out_and_said(tmp_path, monkeypatch, simulated):
    answers = {"probe": PROBED, "traces": simulated, "seconds": PASSABLE}
    code, told, check = checked(tmp_path, monkeypatch, answers, seconds=20.0)
    assert "left out: known kernels: needs 25 s" in told
    assert "left out: lag of the counters: needs 35 s" in told
    assert check.thresholds == []
    assert code == (0 if check.rows else 1)


def test_a_case_that_breaks_ends_no_other(tmp_path, monkeypatch, simulated):
    broken = {**simulated, "healthy-transformer": ""}
    answers = {"probe": PROBED, "traces": broken, "seconds": PASSABLE}
    code, told, check = checked(tmp_path, monkeypatch, answers)
    assert [row.outcome for row in check.rows] == ["failed", "right"]
    assert "✗ OutOfMemoryError: no room" in told
    assert code == 1


def test_a_busy_device_and_a_torch_that_cannot_use_it_stop_before_anything_is_trained(tmp_path, monkeypatch):
    answers = {"probe": PROBED, "traces": {}, "seconds": PASSABLE}
    with pytest.raises(RefusedError, match="in use: 40% busy, 2 processes"):
        checked(tmp_path, monkeypatch, answers, nvml=Fake(busy=40, pids=(8, 9)))
    answers["probe"] = {"fault": "no-cuda", "why": "torch 2.13.0+cpu is built without CUDA"}
    nvml = Fake()
    with pytest.raises(UnusableError, match="no CUDA device for torch"):
        checked(tmp_path, monkeypatch, answers, nvml=nvml)
    assert not nvml.is_open
