"""A simulated job on two nodes with a real agent on each, and a server that has captures and no more."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from stepscope.act.capture import Budget
from stepscope.model.batch import Batch
from stepscope.model.error import InputError, RefusedError
from stepscope.server.capture import Captures
from stepscope.server.capture_trace import TooLarge
from stepscope.server.feed import Feed
from stepscope.sources.formats.frame import batch_of, frames_of, header_of
from stepscope.store.contract import Store
from stepscope_sdk import ring_abi as abi
from tests.server.document_store import DocumentStore

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "only-a-test-token"
DEADLINE_S = 60.0


def until(said: Callable[[], Any], what: str) -> Any:
    """The first thing that is true; fails after a minute."""
    ends = time.monotonic() + DEADLINE_S
    while not (found := said()):
        assert time.monotonic() < ends, what
        time.sleep(0.02)
    return found


class Served:
    """Captures behind HTTP, in this process."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.store = DocumentStore(folder)
        self.feed = Feed()
        self.batches: list[Batch] = []
        self.told: list[Any] = []
        self.bodies: list[bytes] = []
        """Of traces, unpacked, as they came."""
        self.before: Callable[[Any], None] = lambda order: None
        """Called with each order before it goes out."""
        self.seen: dict[str, int] = {}
        self.options = {"cooldown_s": 0.0, "budget": Budget(), "folder": str(folder)} | options
        self.feed.listen("batches", self.batches.extend)
        self.feed.listen("capture", self.told.append)
        self.captures = self.made()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"served": self}))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def made(self) -> Captures:
        made = Captures(_store(self.store), self.feed, **self.options)
        made.start()
        return made

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}"

    def ended(self, id: int) -> Any:
        def said() -> Any:
            doc = self.captures.get(id)
            return doc if doc is not None and doc.ended_ns is not None else None

        return until(said, f"capture {id} never ended: {self.captures.get(id)}")

    def close(self) -> None:
        self.captures.stop()
        self.http.shutdown()
        self.http.server_close()


def _store(store: DocumentStore) -> Store:
    return store  # type: ignore[return-value]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: Served

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        header = header_of(body, "body")
        frames = list(frames_of(body, header, []))
        last = self.served.seen.get(header.agent, 0)
        fresh = tuple(batch_of(each, header, "body") for each in frames if each.seq > last)
        self.served.seen[header.agent] = max(last, frames[-1].seq)
        self.served.feed.tell("batches", fresh)
        self._say(200, json.dumps({"agent": header.agent, "seq": frames[-1].seq}).encode())

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        words, asked = parts.path.split("/"), parse_qs(parts.query)
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._say(401, b"{}")
        orders = self.served.captures.orders(words[4], int(asked["after"][0]), float(asked["wait_s"][0]))
        for each in orders.orders:
            self.served.before(each)
        return self._say(200, msgspec.json.encode(orders))

    def do_PUT(self) -> None:
        parts = urlsplit(self.path)
        words, asked = parts.path.split("/"), parse_qs(parts.query)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        capture, ring = int(words[4]), unquote(words[6])
        self.served.bodies.append(gzip.decompress(body))
        try:
            self.served.captures.take_trace(capture, ring, asked["agent"][0], [body])
        except TooLarge:
            return self._say(413, b"{}")
        except RefusedError:
            return self._say(409, b"{}")
        except InputError:
            return self._say(422, b"{}")
        return self._say(204, b"")

    def _say(self, status: int, body: bytes) -> None:
        with contextlib.suppress(OSError):  # an agent that was killed takes no answer
            self._answer(status, body)

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Job:
    """`simulate --serve`: two ranks, whose rings lie in a folder for each of two nodes."""

    def __init__(self, folder: Path, step_ms: float = 250.0) -> None:
        self.out = folder / "job"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stepscope", "simulate", "--out", str(self.out), "--serve", "--port", "0",
             "--ranks", "2", "--layers", "1", "--step-ms", str(step_ms)],
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.dirs = [folder / "node0", folder / "node1"]
        self.rings: list[Path] = []
        for rank, at in enumerate(self.dirs):
            at.mkdir()
            (ring,) = until(lambda rank=rank: list(self.out.glob(f"run/rank{rank}-*.ring")), "no ring")  # type: ignore[misc]
            control = Path(abi.control_path(str(ring)))
            until(control.exists, "no control file")
            os.link(control, at / control.name)
            os.link(ring, at / ring.name)
            self.rings.append(at / ring.name)

    def traces(self, capture: int) -> list[Path]:
        """What the ranks hold of it."""
        return list(self.out.glob(f"run/traces/capture-{capture}/*"))

    def end(self) -> None:
        _end(self.process)


class TorchJob:
    """Two real processes with PyTorch and the SDK, each on a node of its own."""

    def __init__(self, folder: Path, python: str) -> None:
        self.stop = folder / "stop"
        self.dirs = [folder / "node0", folder / "node1"]
        self.processes = []
        for rank, at in enumerate(self.dirs):
            at.mkdir()
            told = {"STEPSCOPE_RUN_DIR": str(at), "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2",
                    "SLURM_JOB_ID": "4711", "PYTHONPATH": str(ROOT / "src")}  # fmt: skip
            words = [python, str(ROOT / "tests/job/live/loop.py"), str(self.stop)]
            self.processes.append(
                subprocess.Popen(
                    words, env=os.environ | told, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            )

    def end(self) -> None:
        self.stop.touch()
        for each in self.processes:
            _end(each)


@contextlib.contextmanager
def agent(
    served: Served, run_dir: Path, spool: Path, host: str, *more: str
) -> Iterator[subprocess.Popen[str]]:
    """A real agent until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "stepscope", "agent", "--server", served.url, "--spool", str(spool),
         "--run-dir", str(run_dir), "--host", host, "--source", "rings", *more],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "STEPSCOPE_TOKEN": TOKEN},
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)
