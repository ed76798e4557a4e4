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
def exporting(folder: Path) -> Iterator[int]:
    """A real node-exporter of this machine; its port."""
    port = free_port()
    line = [program("prometheus-node-exporter"), f"--web.listen-address=127.0.0.1:{port}"]
    with _started(line, folder / "exporter.log") as process:
        for _ in range(200):
            assert process.poll() is None, (folder / "exporter.log").read_text()[-2000:]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port


@contextlib.contextmanager
def _started(line: Sequence[str], log_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process until the block ends, then ended by its own id."""
    with log_path.open("ab") as log:
        process = subprocess.Popen(line, stdout=log, stderr=log, cwd=log_path.parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def running(
    kind: str,
    folder: Path,
    *,
    is_locked: bool = False,
    prefix: str = "",
    config: str = "global: {}\n",
    more: Sequence[str] = (),
) -> Iterator[Server]:
    """A server of `kind` `prometheus` or `victoria-metrics`, empty, until the block ends.

    `is_locked` demands USER and PASSWORD; `config` is what Prometheus scrapes; `more` are further flags.
    """
    path = program(kind)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(config)
    for last in (False, False, True):  # another program may take the free port first
        server = Server(kind, free_port(), prefix, is_locked)
        line = (_prometheus if kind == "prometheus" else _victoria)(path, folder, server)
        with _started([*line, *more], folder / "log") as process:
            if not _is_up(server, process):
                assert not last, (folder / "log").read_text()[-2000:]
                continue
            yield server
            return


def _prometheus(path: str, folder: Path, server: Server) -> list[str]:
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


# ── what a node of eight H100 leaves in a Prometheus ──

HOST = "gpu-node-1"
_MODEL = "NVIDIA H100 80GB HBM3"
_BUS = ("53", "64", "75", "86", "97", "A8", "B9", "CA")
DCGM = {  # field: what it reads at a time in seconds, on a device
    "DCGM_FI_DEV_SM_CLOCK": lambda t, g: 1980.0,
    "DCGM_FI_DEV_MEM_CLOCK": lambda t, g: 2619.0,
    "DCGM_FI_DEV_GPU_TEMP": lambda t, g: 50.0 + g + (t // 60) % 3,
    "DCGM_FI_DEV_POWER_USAGE": lambda t, g: 600.0 + 5 * g + (t * 7 % 11) / 8,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": lambda t, g: 1e9 + 640_000.0 * t,
    "DCGM_FI_DEV_GPU_UTIL": lambda t, g: 100.0 if t % 20 < 15 else 40.0,
    "DCGM_FI_DEV_MEM_COPY_UTIL": lambda t, g: 55.0,
    "DCGM_FI_DEV_FB_FREE": lambda t, g: 20_000.0,
    "DCGM_FI_DEV_FB_USED": lambda t, g: 61_008.0 - g,
    "DCGM_FI_DEV_XID_ERRORS": lambda t, g: 0.0,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": lambda t, g: 0.97 if t % 20 < 15 else 0.38,
    "DCGM_FI_PROF_SM_ACTIVE": lambda t, g: round((0.82 if t % 20 < 15 else 0.25) - 0.01 * g, 2),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": lambda t, g: 0.46,
    "DCGM_FI_PROF_DRAM_ACTIVE": lambda t, g: 0.41,
    "DCGM_FI_PROF_NVLINK_TX_BYTES": lambda t, g: 4.0e10 + t * 1e6,
}
NODE = {
    ("node_load1", ""): lambda t: 12.0,
    ("node_memory_MemAvailable_bytes", ""): lambda t: 1.5e12,
    ("node_vmstat_pgmajfault", ""): lambda t: 1000.0 + 3 * t,
    ("node_disk_read_bytes_total", "device=nvme0n1"): lambda t: 1e12 + 2e8 * t,
    ("node_cpu_seconds_total", "cpu=0,mode=user"): lambda t: 5e5 + 0.6 * t,
    ("node_cpu_seconds_total", "cpu=0,mode=idle"): lambda t: 9e5 + 0.4 * t,
}


def gpu_labels(device: int, host: str = HOST, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """What dcgm-exporter and the scrape put on each series of a device."""
    number = sum(map(ord, host)) + device
    return {
        "gpu": str(device),
        "UUID": f"GPU-{number:08x}-0000-4000-8000-{device:012x}",
        "pci_bus_id": f"00000000:{_BUS[device]}:00.0",
        "device": f"nvidia{device}",
        "modelName": _MODEL,
        "Hostname": host,
        "DCGM_FI_DRIVER_VERSION": "580.105.08",
        "instance": f"{host}:9400",
        "job": "dcgm-exporter",
        **(more or {}),
    }


def gpu_node(
    start_ms: int,
    seconds: int,
    *,
    host: str = HOST,
    interval: int = 1,
    devices: int = 8,
    without: range = range(0),
    more: Mapping[str, str] | None = None,
) -> list[Written]:
    """dcgm-exporter, node-exporter and `up` of one node, scraped each `interval` seconds.

    In the seconds `without` the exporter of devices was down: its series end there as Prometheus ends them,
    and its `up` is 0.
    """
    tick = range(0, seconds, interval)
    kept: list[int] = []
    ends = set()
    for t in tick:
        if t not in without:
            kept.append(t)
        elif t - interval not in without:
            kept.append(t)
            ends.add(t)
    at = [start_ms + 1000 * t for t in kept]
    out = []
    for name, reading in DCGM.items():
        for device in range(devices):
            value = [STALE if t in ends else reading(t, device) for t in kept]
            out.append(Written({"__name__": name, **gpu_labels(device, host, more)}, at, value))
    whole = [start_ms + 1000 * t for t in tick]
    where = {"instance": f"{host}:9100", "job": "node-exporter", **(more or {})}
    for (name, pairs), reading_of in NODE.items():
        labels = dict(pair.split("=") for pair in pairs.split(",") if pair)
        out.append(Written({"__name__": name, **labels, **where}, whole, [reading_of(t) for t in tick]))
    named = {"__name__": "node_uname_info", "nodename": host, "sysname": "Linux", **where}
    out.append(Written(named, whole, [1.0 for _ in tick]))
    ups = (("dcgm-exporter", 9400, lambda t: t not in without), ("node-exporter", 9100, lambda t: True))
    for job, port, is_up in ups:
        labels = {"__name__": "up", "instance": f"{host}:{port}", "job": job, **(more or {})}
        out.append(Written(labels, whole, [float(is_up(t)) for t in tick]))
    return out
