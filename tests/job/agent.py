"""A real agent beside a test: its own process, on a run folder and a spool of the test's."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 60.0


class Agent:
    """The process, and what it said so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def close(self) -> None:
        """After its end: the rest of what it said."""
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()

    def wait_for(self, word: str) -> str:
        """The first line that says `: WORD:` or holds the word; fails after a minute."""
        ends = time.monotonic() + DEADLINE_S
        while time.monotonic() < ends:
            for line in list(self.lines):
                if f" {word}: " in line or (" " in word and word in line):
                    return line
            time.sleep(0.05)
        raise AssertionError(f"the agent never said {word}: {self.lines}")


@contextlib.contextmanager
def running_agent(
    folder: Path, *more: str, within: Sequence[str] = (), run_dir: str | None = None
) -> Iterator[Agent]:
    """An agent on `folder/run` and `folder/spool`, started by the command `within`, ended in order."""
    runs = run_dir or str(folder / "run")
    if run_dir is None:
        os.makedirs(runs, exist_ok=True)
    process = subprocess.Popen(
        [*within, sys.executable, "-m", "stepscope", "agent", "--spool", str(folder / "spool"),
         "--run-dir", runs, "--host", "node-a", *more],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    agent = Agent(process)
    try:
        agent.wait_for("stepscope agent")
        yield agent
    finally:
        if process.poll() is None:
            time.sleep(1.5)  # one more look at what came last
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        agent.close()
