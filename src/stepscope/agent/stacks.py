"""Stacks of processes on request, by py-spy where it is installed. Secrets are taken out of every line.

py-spy looks into a process from outside, by its number on this node, also where the process is in another
namespace: it needs the rights of its user and to trace it (in Kubernetes SYS_PTRACE). It does not stop it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence

from stepscope.agent.job import LiveRank
from stepscope.agent.source import Line
from stepscope.model.error import InputError, ServiceError
from stepscope.model.redact import without_secrets

TIMEOUT_SECONDS = 20.0
MOST_LINES = 20_000
MOST_BYTES = 4 << 20
MOST_CHARACTERS = 1000
"""Of one line."""
Labels = tuple[tuple[str, str], ...]


def stacks_of_ranks(
    ranks: Sequence[LiveRank],
    at_ns: int,
    *,
    py_spy: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> tuple[list[Line], list[str]]:
    """(lines of all of these ranks, each with its rank's labels; why others have none). One rank that cannot
    be looked into leaves the rest alone. `timeout_seconds` is for each."""
    lines: list[Line] = []
    why: list[str] = []
    for rank in ranks:
        labels = tuple(sorted(rank.labels().items()))
        if rank.pid is None:
            name = "a process" if rank.identity.rank is None else f"rank {rank.identity.rank}"
            why.append(f"{name}: its process is not to be seen on this node")
            continue
        try:
            lines += stacks_of(rank.pid, at_ns, labels=labels, py_spy=py_spy, timeout_seconds=timeout_seconds)
        except (InputError, ServiceError) as error:
            why.append(str(error))
    return lines, why


def found_py_spy() -> str | None:
    """On the path, or beside the Python that runs us: a virtual environment need not be active."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=os.path.dirname(sys.executable))


def stacks_of(
    pid: int,
    at_ns: int,
    *,
    labels: Labels = (),
    py_spy: str | None = None,
    timeout_seconds: float = TIMEOUT_SECONDS,
) -> list[Line]:
    """Every thread of a Python process, without stopping it; `pid` is its number on this node. At most
    20,000 lines and 4 MB. ServiceError where py-spy is not installed or does not end, InputError where it
    cannot look into the process."""
    program = py_spy or found_py_spy()
    if program is None:
        raise ServiceError("py-spy", "it is not installed", "pip install py-spy")
    if pid <= 0:
        raise InputError(f"process {pid}", "is no process", "give its number on this node")
    code, out, said = _run([program, "dump", "--nonblocking", "--pid", str(pid)], timeout_seconds)
    if code != 0:
        told = without_secrets(" ".join(said.split())[:300])[0] or f"exit code {code}"
        raise InputError(
            f"process {pid}", f"py-spy cannot look into it: {told}", "run the agent as its user or root"
        )
    lines = out.splitlines()[:MOST_LINES]
    return [
        Line("stacks", f"pid {pid}", at_ns, without_secrets(line[:MOST_CHARACTERS])[0], labels)
        for line in lines
        if line.strip()
    ]


def _run(command: list[str], timeout_seconds: float) -> tuple[int, str, str]:
    """(exit code, output, errors) of a program, of which at most 4 MB each are taken: what prints
    without an end is ended. ServiceError where it does not end by itself in time."""
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise ServiceError("py-spy", f"it does not start: {error.strerror}", "install it again") from error
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(timeout_seconds, end)
    errors: list[bytes] = []
    assert process.stdout is not None
    assert process.stderr is not None
    stderr = process.stderr
    listener = threading.Thread(target=lambda: errors.append(stderr.read(MOST_BYTES)), daemon=True)
    with process:
        timer.start()
        listener.start()
        try:
            out = process.stdout.read(MOST_BYTES)
            if len(out) == MOST_BYTES:
                process.kill()
                process.wait()
                return 0, out.decode("utf-8", "replace"), ""
            process.wait()
        finally:
            timer.cancel()
            process.kill()
            listener.join(timeout_seconds)
    if late.is_set():
        raise ServiceError("py-spy", f"it did not answer in {timeout_seconds:g} s", "ask again")
    return process.returncode, out.decode("utf-8", "replace"), b"".join(errors).decode("utf-8", "replace")
