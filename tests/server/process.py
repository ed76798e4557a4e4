"""`stepscope serve` as a process of its own, ended by its own id."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[2] / "src"
_URL = re.compile(r"http://127\.0\.0\.1:\d+")


def environment(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SRC), "COLUMNS": "300"} | more


@dataclass
class Process:
    """A server. `out` and `err` are files that it writes to."""

    popen: subprocess.Popen[bytes]
    url: str
    out: Path
    err: Path

    def get(self, path: str, **headers: str) -> bytes:
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return bytes(answer.read())

    def json(self, path: str, **headers: str) -> Any:
        return json.loads(self.get(path, **headers))

    def post(self, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, body, sent, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def end(self, number: int = signal.SIGTERM) -> int:
        self.popen.send_signal(number)
        return self.popen.wait(60)


@contextlib.contextmanager
def server(folder: Path, *words: str, **more: str) -> Iterator[Process]:
    """Serve `folder/data` until the block ends."""
    folder.mkdir(exist_ok=True)
    out, err = folder / "out", folder / "err"
    line = [sys.executable, "-m", "stepscope", "serve", "--data", str(folder / "data"), "--port", "0", *words]
    with out.open("wb") as to, err.open("wb") as wrong:
        popen = subprocess.Popen(line, env=environment(**more), stdout=to, stderr=wrong)
    try:
        until = time.monotonic() + 60
        while "Next: " not in out.read_text():
            assert popen.poll() is None, err.read_text()
            assert time.monotonic() < until
            time.sleep(0.05)
        found = _URL.search(out.read_text())
        assert found is not None
        yield Process(popen, found[0], out, err)
    finally:
        if popen.poll() is None:
            popen.terminate()
            popen.wait(60)
