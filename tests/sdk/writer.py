"""A training process that marks, for tests that read it from outside."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60


def environment(folder: Path, **more: str) -> dict[str, str]:
    """As in a job that knows nothing but its run directory."""
    kept = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH")
    return {
        **{name: os.environ[name] for name in kept if name in os.environ},
        "PYTHONPATH": str(ROOT / "src"),
        "STEPSCOPE_RUN_DIR": str(folder),
        "PYTHONWARNINGS": "ignore::DeprecationWarning",  # of a fork beside threads, from Python 3.12 on
        **more,
    }


def start(script: str, folder: Path, *words: str, python: str = sys.executable, wrap: tuple[str, ...] = (),
          **more: str) -> subprocess.Popen[str]:  # fmt: skip
    """Begin a script, as text; its answer is on stdout."""
    return subprocess.Popen(
        [*wrap, python, "-c", script, *words],
        env=environment(folder, **more), text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def run(script: str, folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    return subprocess.run(
        [sys.executable, "-c", script, *words],
        env=environment(folder, **more), timeout=PATIENCE_SECONDS,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def rings(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.ring"))


def wait_for(what: object, seconds: float = PATIENCE_SECONDS) -> object:
    """The first true answer of `what()`."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found = what()  # type: ignore[operator]
        if found:
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds:g} s")
