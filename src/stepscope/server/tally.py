"""What the server counts of itself, as Prometheus text."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = tuple[tuple[str, str], ...]
METRICS: Mapping[str, tuple[Literal["counter", "gauge"], str]] = {
    "stepscope_server_requests_total": ("counter", "Requests that were answered, by path, method and code."),
    "stepscope_server_refused_total": ("counter", "Requests that were turned away, by reason."),
    "stepscope_server_faults_total": ("counter", "Requests that failed through a fault of the server's own."),
    "stepscope_server_ingest_batches_total": ("counter", "Batches that are kept."),
    "stepscope_server_ingest_samples_total": ("counter", "Samples that are kept."),
    "stepscope_server_ingest_bytes_total": ("counter", "Bytes of bodies that agents sent."),
    "stepscope_server_ingest_duplicate_batches_total": ("counter", "Batches that were here already."),
    "stepscope_server_ingest_unknown_batches_total": ("counter", "Batches of a kind that is not known here."),
    "stepscope_server_ingest_waiting": ("gauge", "Bodies that wait for being kept."),
    "stepscope_server_streams": ("gauge", "Streams of events that are open."),
    "stepscope_server_streams_dropped_total": ("counter", "Streams that were ended: their reader is slow."),
    "stepscope_server_queue_depth": ("gauge", "What waits in a part of the server, by part."),
    "stepscope_server_store_bytes": ("gauge", "Bytes on the disk, by part of the store."),
    "stepscope_server_store_faults": ("gauge", "Damaged files and batches that were left out, by code."),
    "stepscope_server_alarms_total": ("counter", "Alarms that began, by level."),
    "stepscope_server_incidents_total": ("counter", "Incidents that were opened."),
    "stepscope_server_cards_total": ("counter", "Cards that were told."),
    "stepscope_server_captures_total": ("counter", "Captures, by state."),
    "stepscope_server_capture_seconds_total": ("counter", "Time of captured steps, by job."),
    "stepscope_server_capture_bytes_total": ("counter", "Bytes of captured traces, by job."),
    "stepscope_server_capture_stall_seconds_total": ("counter", "How long captures held ranks up, by job."),
    "stepscope_server_notices_total": ("counter", "Notices to channels, by channel and outcome."),
    "stepscope_server_audit_failures_total": ("counter", "Lines that the audit log could not take."),
}  # fmt: skip
Gauge = Callable[[], Iterable[tuple[Labels, float]]]


class Tally:
    """Counts up, and asks gauges when it is read. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, Labels], float] = {}
        self._gauges: dict[str, list[Gauge]] = {}

    def add(self, name: str, num: float = 1, **labels: str) -> None:
        """Count up. KeyError where the name is not in `METRICS`."""
        if METRICS[name][0] != "counter":
            raise KeyError(name)
        key = (name, tuple(sorted(labels.items())))
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + num

    def watch(self, name: str, gauge: Gauge) -> None:
        """Ask this when somebody reads: what is absent then is not shown."""
        if METRICS[name][0] != "gauge":
            raise KeyError(name)
        self._gauges.setdefault(name, []).append(gauge)

    def text(self) -> str:
        """Everything, families together and in order."""
        with self._lock:
            rows = [(name, labels, num) for (name, labels), num in self._counts.items()]
        rows += [
            (name, labels, num)
            for name, gauges in self._gauges.items()
            for each in gauges
            for labels, num in each()
        ]
        lines: list[str] = []
        before = ""
        for name, labels, num in sorted(rows):
            if name != before:
                kind, help_ = METRICS[name]
                lines += [f"# HELP {name} {help_}", f"# TYPE {name} {kind}"]
                before = name
            shown = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels)
            lines.append(f"{name}{{{shown}}} {num:.17g}" if shown else f"{name} {num:.17g}")
        return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
