"""Talks to the process that has torch: an order a line, and how a case that takes too long is ended."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

from tools.gpu_check.case import Order

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 120.0


class Worker:
    """One child. Use it in `with`. What it prints beside its answers goes to `log`."""

    def __init__(self, python: str, device: str, log: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])}
        environment.setdefault("KINETO_LOG_LEVEL", "5")
        self._log = log.open("w", encoding="utf-8")
        try:
            self._child = subprocess.Popen(
                [python, "-m", "tools.gpu_check.child", device],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment,
            )  # fmt: skip
        except OSError:
            self._log.close()
            raise
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *why: object) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with contextlib.suppress(OSError):
            self._child.stdin.close()
        try:
            self._child.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
        self._log.close()

    def _listen(self) -> None:
        assert self._child.stdout is not None
        with contextlib.suppress(ValueError):  # closed under us, at the end
            for line in self._child.stdout:
                self._lines.put(line)
        self._lines.put(None)

    def _answer(self, seconds: float) -> dict[str, Any]:
        """The next line that is an answer; others are what libraries print."""
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                return {"late": True}
            if line is None:
                return {"error": f"the process that has torch ended ({self._child.poll()})"}
            if line.startswith("{"):
                with contextlib.suppress(ValueError):
                    found = json.loads(line)
                    if isinstance(found, dict):
                        return found

    def greeting(self) -> dict[str, Any]:
        """What it says first: ready, or why not."""
        found = self._answer(START_SECONDS)
        return {"error": f"no answer within {START_SECONDS:.0f} s"} if "late" in found else found

    def do(self, order: Order, seconds: float) -> dict[str, Any]:
        """The answer to an order; after `seconds` its process and all that it started are ended."""
        assert self._child.stdin is not None
        try:
            self._child.stdin.write(json.dumps(order.as_dict()) + "\n")
            self._child.stdin.flush()
        except OSError as error:
            return {"error": f"the process that has torch is gone: {error}"}
        begun = self._answer(seconds)
        if "pid" not in begun:
            return begun if "error" in begun else {"error": "the case did not begin"}
        found = self._answer(seconds)
        if "late" not in found:
            return found
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(begun["pid"]), signal.SIGKILL)
        self._answer(START_SECONDS)
        return {"error": f"took longer than the {seconds:.0f} s that it had", "is_late": True}
