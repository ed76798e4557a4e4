"""Stacks of a process on request, by py-spy where it is installed. Secrets are taken out of every line."""

from __future__ import annotations

import shutil
import subprocess

from stepscope.agent.source import Line
from stepscope.model.error import InputError, ServiceError
from stepscope.model.redact import without_secrets

TIMEOUT_SECONDS = 20.0
MOST_LINES = 20_000


def stacks_of(
    pid: int, at_ns: int, *, py_spy: str | None = None, timeout_seconds: float = TIMEOUT_SECONDS
) -> list[Line]:
    """Every thread of a Python process, without stopping it. ServiceError where py-spy is not installed or
    does not end, InputError where it cannot look into the process."""
    program = py_spy or shutil.which("py-spy")
    if program is None:
        raise ServiceError("py-spy", "it is not installed", "pip install py-spy")
    try:
        done = subprocess.run(
            [program, "dump", "--nonblocking", "--pid", str(pid)],
            capture_output=True, text=True, errors="replace", timeout=timeout_seconds, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError("py-spy", f"it did not answer: {error}", "ask again") from error
    if done.returncode != 0:
        said = " ".join(done.stderr.split())[:300] or f"exit code {done.returncode}"
        raise InputError(
            f"process {pid}", f"py-spy cannot look into it: {said}", "run the agent as its user or root"
        )
    lines = done.stdout.splitlines()[:MOST_LINES]
    return [Line("stacks", f"pid {pid}", at_ns, without_secrets(line)[0]) for line in lines if line.strip()]
