"""Real Prometheus and VictoriaMetrics on loopback, and an encoder of remote write to seed them.

Each server has a free port and a folder of its own and is ended by its own process. Where the program is
not installed the test skips and says which package brings it.
"""

from __future__ import annotations

import base64
import contextlib
import shutil
import socket
import struct
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

NS = 1_000_000_000
STALE = struct.unpack("<d", (0x7FF0000000000002).to_bytes(8, "little"))[0]
"""The NaN by which Prometheus marks that a series ended."""
USER, PASSWORD = "reader", "only-a-test"
_BCRYPT = "$2b$04$kXgR35PaiOO3Z0E5H2yaBehDr4zM/IQaGG4j1p4e8cdkJ4HBGbClK"
"""Of PASSWORD, at the lowest cost, so that a test need not wait for it."""


@dataclass(frozen=True)
class Written:
    """One series to write: labels with `__name__`, and samples in ascending time."""

    labels: Mapping[str, str]
    at_ms: Sequence[int]
    value: Sequence[float]


# ── remote write 1.0: protobuf in snappy's block format, both by hand ──


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def write_request(series: Iterable[Written]) -> bytes:
    """A `prometheus.WriteRequest`."""
    out = bytearray()
    for each in series:
        body = bytearray()
        for name in sorted(each.labels):  # receivers demand labels in order
            pair = _field(1, name.encode()) + _field(2, each.labels[name].encode())
            body += _field(1, pair)
        for at, value in zip(each.at_ms, each.value, strict=True):
            body += _field(2, b"\x09" + struct.pack("<d", value) + b"\x10" + _varint(int(at)))
        out += _field(1, bytes(body))
    return bytes(out)


def snappy(data: bytes) -> bytes:
    """Snappy's block format, of literals alone: valid, and no smaller."""
    out = bytearray(_varint(len(data)))
    for start in range(0, len(data), 1 << 16):
        piece = data[start : start + (1 << 16)]
        out += bytes([61 << 2]) + struct.pack("<H", len(piece) - 1) + piece
    return bytes(out)


@dataclass(frozen=True)
class Server:
    """A server that runs. `url` as our client takes it, without credentials."""

    kind: str
    port: int
    prefix: str = ""
    is_locked: bool = False

    @property
    def url(self) -> str:
        return f"prometheus+http://127.0.0.1:{self.port}{self.prefix}"

    def url_as(self, user: str, password: str) -> str:
        return f"prometheus+http://{user}:{password}@127.0.0.1:{self.port}{self.prefix}"

    def ask(self, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        """The body of an answer, asked with the credentials that the server wants."""
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.prefix}{path}", data=data)
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        if self.is_locked:
            pair = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            request.add_header("Authorization", f"Basic {pair}")
        with urllib.request.urlopen(request, timeout=30) as answer:
            body: bytes = answer.read()
            return body

    def write(self, series: Iterable[Written], most: int = 200) -> None:
        """Seed it. Samples of one series ascend; later calls go on after earlier ones."""
        series = list(series)
        for start in range(0, len(series), most):
            self.ask(
                "/api/v1/write",
                snappy(write_request(series[start : start + most])),
                {
                    "Content-Type": "application/x-protobuf",
                    "Content-Encoding": "snappy",
                    "X-Prometheus-Remote-Write-Version": "0.1.0",
                },
            )
        if self.kind == "victoria-metrics":  # what was written shows a second later otherwise
            self.ask("/internal/force_flush")


def free_port() -> int:
    """A port of loopback on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def program(name: str) -> str:
    """The path of a server's program, or the test skips."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name}: the Debian package of that name brings it")
    return found


@contextlib.contextmanager
def running(kind: str, folder: Path, *, is_locked: bool = False, prefix: str = "", more: Sequence[str] = ()
            ) -> Iterator[Server]:  # fmt: skip
    """A server of `kind` `prometheus` or `victoria-metrics`, empty, until the block ends.

    `is_locked` demands USER and PASSWORD; `more` are further flags.
    """
    path = program(kind)
    folder.mkdir(parents=True, exist_ok=True)
    for last in (False, False, True):  # another program may take the free port first
        port = free_port()
        server = Server(kind, port, prefix, is_locked)
        line = (_prometheus if kind == "prometheus" else _victoria)(path, folder, server)
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen([*line, *more], stdout=log, stderr=log, cwd=folder)
        try:
            if not _is_up(server, process):
                assert not last, (folder / "log").read_text()[-2000:]
                continue
            yield server
            return
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _prometheus(path: str, folder: Path, server: Server) -> list[str]:
    (folder / "prometheus.yml").write_text("global: {}\n")
    line = [
        path,
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{server.port}",
        f"--storage.tsdb.path={folder / 'data'}",
        "--web.enable-remote-write-receiver",
        "--log.level=warn",
    ]
    if server.prefix:
        line += [f"--web.route-prefix={server.prefix}"]
    if server.is_locked:
        (folder / "web.yml").write_text(f"basic_auth_users:\n  {USER}: {_BCRYPT}\n")
        line += ["--web.config.file=web.yml"]
    return line


def _victoria(path: str, folder: Path, server: Server) -> list[str]:
    line = [
        path,
        f"-httpListenAddr=127.0.0.1:{server.port}",
        f"-storageDataPath={folder / 'data'}",
        "-search.latencyOffset=0s",
        "-loggerLevel=WARN",
        "-memory.allowedBytes=200MB",
    ]
    if server.prefix:
        line += [f"-http.pathPrefix={server.prefix}"]
    if server.is_locked:
        line += [f"-httpAuth.username={USER}", f"-httpAuth.password={PASSWORD}"]
    return line


def _is_up(server: Server, process: subprocess.Popen[bytes]) -> bool:
    for _ in range(600):
        if process.poll() is not None:
            return False
        try:
            server.ask("/-/ready" if server.kind == "prometheus" else "/health")
            return True
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    return False
