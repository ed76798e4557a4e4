"""Diagnoses in a process of their own, so that the server answers meanwhile: spawned once, of low priority,
bounded in memory and time, started again where it died."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

import msgspec

from stepscope.model.error import StepscopeError
from stepscope.model.report import Report
from stepscope.offline.stored import Asked, Window
from stepscope.server.judge.work import HEAD

KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHASHSEED", "TMPDIR", "VIRTUAL_ENV")
"""Of the environment: nothing that could be a secret of the server's."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one diagnosis may take."""

    seconds: float = 60.0
    bytes: int = 4 << 30


class NoAnswer(StepscopeError):
    """A window was not diagnosed: too large, too long, or not readable."""


class Worker:
    """One process. `diagnose` may be called from any thread; one window is looked at at a time."""

    def __init__(self, bounds: Bounds = Bounds()) -> None:
        self._bounds = bounds
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self.num_started = 0
        self.num_failed = 0
        self.seconds = 0.0
        """That all diagnoses took together."""

    def start(self) -> None:
        """Start it before anybody waits."""
        with self._lock:
            self._running()

    @property
    def pid(self) -> int | None:
        """Of the process that is there now."""
        return None if self._process is None else self._process.pid

    def diagnose(self, window: Window, asked: Asked) -> Report:
        """The report of this window. NoAnswer where there is none, with why."""
        with self._lock:
            begun = time.monotonic()
            try:
                return self._ask(pickle.dumps((window, asked), protocol=5), begun + self._bounds.seconds)
            except NoAnswer:
                self.num_failed += 1
                raise
            finally:
                self.seconds += time.monotonic() - begun

    def close(self) -> None:
        """End it."""
        with self._lock:
            self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            self.num_started += 1
            self._process = subprocess.Popen(
                [sys.executable, "-m", "stepscope.server.judge.work", str(self._bounds.bytes)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,  # what it has to say is in its answer
                env={name: os.environ[name] for name in KEPT if name in os.environ}
                | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
                start_new_session=True,  # Ctrl-C is the server's to hear
            )
        return self._process

    def _ask(self, body: bytes, until: float) -> Report:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(struct.pack("<Q", len(body)) + body)
            process.stdin.flush()
            kind, size = HEAD.unpack(self._read(process.stdout.fileno(), HEAD.size, until))
            answer = self._read(process.stdout.fileno(), size, until)
        except (EOFError, OSError) as error:
            code = self._end()
            raise NoAnswer(f"the diagnosis died ({code}); the next one starts anew") from error
        if kind != b"=":
            raise NoAnswer(answer.decode("utf-8", "replace"))
        return msgspec.json.decode(answer, type=Report)

    def _read(self, file: int, count: int, until: float) -> bytes:
        parts: list[bytes] = []
        while count:
            ready, _, _ = select.select([file], [], [], max(until - time.monotonic(), 0.0))
            if not ready:
                self._end()
                raise NoAnswer(f"the diagnosis took longer than {self._bounds.seconds:g} s and was ended")
            part = os.read(file, min(count, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

    def _end(self) -> int | None:
        """End what is there; its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return process.wait()
