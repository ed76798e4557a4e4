"""A receiver of the ingest protocol: a real HTTP server in a process of its own. It keeps every batch once.

It can be told to fail, to be slow, to lie, or to hang up after it has read. What it keeps lies in a file, one
line a batch, and is there again when it is started anew.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SRC = Path(__file__).parents[2] / "src"
TOKEN = "only-a-test-token"


# ── the side of the test ──


@dataclass
class Receiver:
    """A receiver that runs. `kept` lines are (agent, seq, what a batch says)."""

    port: int
    store: Path
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def tell(self, **mode: Any) -> None:
        """How it behaves from now on: see `_Told`. No argument: as it should."""
        context = ssl._create_unverified_context() if self.scheme == "https" else None
        request = urllib.request.Request(f"{self.url}/mode", json.dumps(mode).encode(), method="PUT")
        urllib.request.urlopen(request, timeout=30, context=context).read()

    def asked(self) -> dict[str, Any]:
        """What it was asked so far: number of requests, the last one's headers, paths."""
        context = ssl._create_unverified_context() if self.scheme == "https" else None
        with urllib.request.urlopen(f"{self.url}/asked", timeout=30, context=context) as answer:
            return dict(json.loads(answer.read()))

    def kept(self) -> list[tuple[str, int, str]]:
        if not self.store.exists():
            return []
        return [tuple(json.loads(line)) for line in self.store.read_text().splitlines()]


@contextlib.contextmanager
def receiving(
    folder: Path, *, token: str | None = None, certificate: Path | None = None
) -> Iterator[Receiver]:
    """A receiver until the block ends; it is ended by its own id."""
    folder.mkdir(parents=True, exist_ok=True)
    line = [sys.executable, __file__, str(folder), token or "", str(certificate or "")]
    port_file = folder / "port"
    port_file.unlink(missing_ok=True)
    process = subprocess.Popen(line, env={"PYTHONPATH": str(SRC), "PATH": "/usr/bin:/bin"})
    try:
        until = time.monotonic() + 60
        while not port_file.exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        yield Receiver(int(port_file.read_text()), folder / "kept", "https" if certificate else "http")
    finally:
        process.terminate()
        process.wait(20)


# ── the side of the server ──


@dataclass
class _Told:
    """`status` in place of 200 with `headers` and `body`, for `times` requests; `hang_up` after reading:
    `kept` (what was read is kept) or `lost`; `slow_s` before the answer; `lie`: an acknowledgement `high`,
    `low`, of an`other` agent, or no JSON at all (`text`); `half`: keeps only half of the frames;
    `most_bytes` above which it says 413; `poison`: a number of a batch that it calls wrong; `wait_s`."""

    status: int = 200
    headers: dict[str, str] | None = None
    times: int = 1 << 30
    hang_up: str = ""
    slow_s: float = 0.0
    lie: str = ""
    half: bool = False
    most_bytes: int = 1 << 30
    poison: int = 0
    wait_s: float = 0.0


class _State:
    def __init__(self, folder: Path, token: str) -> None:
        self.lock = threading.Lock()
        self.token = token
        self.told = _Told()
        self.file = (folder / "kept").open("a")
        lines = (folder / "kept").read_text().splitlines()
        self.seen = {(agent, seq) for agent, seq, _ in map(json.loads, lines)}
        self.requests = 0
        self.num_again = 0
        self.last: dict[str, str] = {}
        self.paths: list[str] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: _State

    def log_message(self, *_: object) -> None:
        pass

    def do_PUT(self) -> None:
        self.state.told = _Told(**json.loads(self._read()))
        self._say(200, b"{}")

    def do_GET(self) -> None:
        state = self.state
        told = {
            "requests": state.requests,
            "headers": state.last,
            "paths": state.paths,
            "again": state.num_again,
        }
        self._say(200, json.dumps(told).encode())

    def do_POST(self) -> None:
        from stepscope.sources.formats.frame import CONTENT_TYPE, batch_of, frames_of, header_of

        body = self._read()
        state = self.state
        with state.lock:
            told = state.told
            state.requests += 1
            state.last = dict(self.headers.items())
            state.paths.append(self.path)
            told.times -= 1
            if told.times < 0:
                told = state.told = _Told()
        if told.slow_s:
            time.sleep(told.slow_s)
        if told.status != 200:
            return self._say(told.status, b"{}", told.headers)
        if state.token and self.headers.get("Authorization") != f"Bearer {state.token}":
            return self._say(401, b"{}")
        if self.path != "/api/v1/ingest" or self.headers.get("Content-Type") != CONTENT_TYPE:
            return self._say(404, b"{}")
        if len(body) > told.most_bytes:
            return self._say(413, b"{}")
        if told.hang_up == "lost":
            return self._hang_up()
        header = header_of(body, "body")
        faults: list[Any] = []
        frames = list(frames_of(body, header, faults))
        if faults or any(frame.seq == told.poison for frame in frames):
            return self._say(400, b"{}")
        if told.half:
            frames = frames[: max(len(frames) // 2, 1)]
        with state.lock:
            for frame in frames:
                if (header.agent, frame.seq) in state.seen:
                    state.num_again += 1
                    continue
                state.seen.add((header.agent, frame.seq))
                batch = batch_of(frame, header, "body")
                says = getattr(batch, "text", None) or getattr(batch, "source", "")
                state.file.write(json.dumps([header.agent, frame.seq, says]) + "\n")
            state.file.flush()
        if told.hang_up == "kept":
            return self._hang_up()
        seq, agent = frames[-1].seq, header.agent
        if told.lie == "high":
            seq += 1_000
        elif told.lie == "low":
            seq = 0
        elif told.lie == "other":
            agent = "somebody-else"
        answer = json.dumps({"agent": agent, "seq": seq, "wait_s": told.wait_s}).encode()
        return self._say(200, b"<html>proxy</html>" if told.lie == "text" else answer)

    def _read(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _say(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _hang_up(self) -> None:
        self.close_connection = True


def main() -> None:
    folder, token, certificate = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    _Handler.state = _State(folder, token)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    half = folder / "port.half"
    half.write_text(str(server.server_address[1]))
    half.rename(folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    main()
