"""The latest samples as Prometheus text, and the page that serves it.

A series that was not heard of for `stale_s` is gone from the text: a value that nobody measures any more is
no value. The step is a gauge, never a label (docs/decisions/0022-metrics-of-the-agent.md).
"""

from __future__ import annotations

import contextlib
import gzip
import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stepscope.agent.name import OWN, Key, MetricType, Named, Namer
from stepscope.agent.ship import Shipper
from stepscope.agent.spool import Spool
from stepscope.model.batch import Batch, BatchOwner, BatchSeries, Marks, Samples
from stepscope.model.error import UsageError
from stepscope_sdk.ring_abi import kind_number

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
STALE_S = 60.0
"""Twice the 30 s in which dcgm-exporter itself looks at a device by default."""
MOST_SERIES = 100_000
_STEPS = frozenset((kind_number("step_begin"), kind_number("step_end")))
_IDENTITY = ("job", "run", "rank", "pod", "namespace", "container", "scheduler_job", "task")


@dataclass(slots=True)
class _Last:
    named: Named
    value: float
    heard_s: float


class Exposition:
    """Takes batches in, gives text out; both from any thread. `monotonic_s` says how old a value is."""

    def __init__(
        self, *, stale_s: float = STALE_S, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._stale_s, self._monotonic_s = stale_s, monotonic_s
        self._lock = threading.Lock()
        self._series: dict[Key, _Last] = {}
        self._named = Namer(MOST_SERIES)
        self._own: list[Callable[[], Mapping[str, float]]] = [cost_of_process]
        self._num_samples = 0
        self.num_batches = 0

    def watch(self, spool: Spool, shipper: Shipper | None = None) -> None:
        """Tell of a spool, and of who ships it."""
        self._own.append(lambda: _of_spool(spool))
        if shipper is not None:
            self._own.append(lambda: _of_shipper(shipper))

    def update(self, batch: Batch) -> None:
        """The newest value of each series of a batch counts."""
        now_s = self._monotonic_s()
        with self._lock:
            self.num_batches += 1
            if isinstance(batch, Samples):
                for each in batch.series:
                    self._num_samples += len(each.value)
                    if each.value and len(self._series) < MOST_SERIES:
                        self._put(self._named(each, batch.host), each.value[-1], now_s)
            elif isinstance(batch, Marks):
                self._put_step(batch, now_s)

    def _put(self, name: Named, value: float, now_s: float) -> None:
        if math.isfinite(value):
            self._series[name.key] = _Last(name, value * name.factor, now_s)

    def _put_step(self, marks: Marks, now_s: float) -> None:
        steps = [
            step
            for kind, step in zip(marks.record_kind, marks.step, strict=False)
            if kind in _STEPS and step >= 0
        ]
        if steps:
            known = marks.identity
            labels = {name: str(known[name]) for name in _IDENTITY if name in known}
            series = BatchSeries("stepscope_step", BatchOwner(kind="host"), [], [], labels)
            self._put(self._named(series, marks.host), float(steps[-1]), now_s)

    def text(self) -> str:
        """All that is not stale, families together and in order."""
        own = self._of_self()
        with self._lock:
            now_s = self._monotonic_s()
            gone = [key for key, last in self._series.items() if now_s - last.heard_s > self._stale_s]
            for key in gone:
                del self._series[key]
            rows = [(key, last.named, last.value) for key, last in self._series.items()]
        told = {key[0] for key, _, _ in rows}
        lines: list[str] = []
        before = ""
        for (name, labels), each, value in sorted(rows, key=lambda row: row[0]):
            if name != before:
                lines += _head(name, each.type, each.help)
                before = name
            lines.append(f"{name}{shown_labels(labels)} {shown_value(value, each.is_whole)}")
        for name, value in sorted(own.items()):
            if name not in told:
                lines += [*_head(name, *OWN[name]), f"{name} {shown_value(value, False)}"]
        return "\n".join(lines) + "\n"

    def _of_self(self) -> dict[str, float]:
        found: dict[str, float] = {"stepscope_agent_samples_total": self._num_samples}
        for each in self._own:
            found |= each()
        return found


def _head(name: str, type_: MetricType, help_: str) -> list[str]:
    text = help_.replace("\\", r"\\").replace("\n", r"\n")
    return [f"# HELP {name} {text}", f"# TYPE {name} {type_}"]


def shown_labels(labels: tuple[tuple[str, str], ...]) -> str:
    """`{a="b",c="d"}`, empty without labels."""
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def shown_value(value: float, is_whole: bool) -> str:
    """Whole numbers without a point."""
    value = float(value)
    if is_whole or (value.is_integer() and abs(value) < 2**53):
        return str(round(value))
    return repr(value)


def cost_of_process() -> dict[str, float]:
    """What this process has cost so far."""
    found = {"stepscope_agent_cpu_seconds_total": time.process_time()}
    with contextlib.suppress(OSError, ValueError), open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
        found["stepscope_agent_resident_bytes"] = float(pages * os.sysconf("SC_PAGE_SIZE"))
    return found


def _of_spool(spool: Spool) -> dict[str, float]:
    state = spool.state()
    return {
        "stepscope_agent_spool_bytes": state.num_bytes,
        "stepscope_agent_spool_held_batches": state.num_held,
        "stepscope_agent_spool_failing": float(state.why is not None),
        "stepscope_agent_dropped_total": state.num_dropped,
        "stepscope_agent_last_seq": state.last_seq,
        "stepscope_agent_acknowledged_seq": state.acknowledged_seq,
    }


def _of_shipper(shipper: Shipper) -> dict[str, float]:
    state = shipper.state
    found = {
        "stepscope_agent_shipped_bytes_total": float(state.num_bytes),
        "stepscope_agent_ship_failures_total": float(state.num_failures),
        "stepscope_agent_ship_failing": float(state.why is not None),
    }
    if state.status is not None:
        found["stepscope_agent_ship_status"] = float(state.status)
    return found


# ── the page ──


class MetricsServer:
    """Serves `/metrics`, `/-/ready` (once there was a batch) and `/-/healthy` until `stop`."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
        self.port: int = server.server_address[1]
        self._thread = threading.Thread(target=server.serve_forever, name="stepscope-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 16

    def handle_error(self, request: object, client_address: object) -> None:
        """A scraper that hangs up is none of our errors."""


def serve(host: str, port: int, exposition: Exposition) -> MetricsServer:
    """Serve at an address, of loopback (`127.0.0.1`) unless others shall read it; port 0 takes a free one.
    UsageError where the address cannot be had."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 30
        server_version, sys_version = "stepscope", ""

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is written for each scrape."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._say(200, exposition.text().encode(), CONTENT_TYPE)
            elif path == "/-/healthy":
                self._say(200, b"healthy\n")
            elif path == "/-/ready":
                is_ready = exposition.num_batches > 0
                self._say(200 if is_ready else 503, b"ready\n" if is_ready else b"no batch yet\n")
            else:
                self._say(404, b"not here: /metrics, /-/ready, /-/healthy\n")

        do_HEAD = do_GET

        def _say(self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if "gzip" in self.headers.get("Accept-Encoding", "") and len(body) > 1024:
                body = gzip.compress(body, 1)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

    try:
        return MetricsServer(_Server((host, port), Handler))
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{host}:{port}: cannot listen there ({why}); choose another address") from error
