"""What one server gives at most: bytes, depth, points, streams, time, and requests of one asker."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass

from stepscope.model.error import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Defaults suit a cluster of some thousand agents, each of which ships about once a second."""

    body_bytes: int = 1 << 20
    """Of a JSON body."""
    json_depth: int = 32
    ingest_bytes: int = 16 << 20
    """Of an ingest body as it comes; a frame of it may be 8 MB."""
    unpacked_bytes: int = 64 << 20
    """Of all batches of one ingest body, unpacked."""
    trace_bytes: int = 512 << 20
    """Of one trace that an agent uploads, as it comes."""
    head_s: float = 10.0
    """For a request's line and headers to be there."""
    body_s: float = 30.0
    """For a whole body to be there; of a trace ten times as long."""
    slow_read_s: float = 30.0
    """How long an answer may wait for a reader that takes nothing."""
    keep_alive_s: float = 75.0
    num_connections: int = 4096
    num_streams: int = 64
    num_waiting_agents: int = 256
    """Agents whose long poll has a thread of its own; those beyond are asked again after a second."""
    poll_s: float = 60.0
    """The longest wait of a long poll."""
    num_ingesting: int = 8
    """Bodies that are unpacked and kept at the same time: those that wait for the disk go there together."""
    num_ingest_waiting: int = 64
    """Bodies that wait for that; from half of it on agents are asked to wait, beyond it they are turned
    away."""
    num_querying: int = 8
    """Queries that run at the same time."""
    items: int = 1000
    """Of one page of a list."""
    points: int = 2_000_000
    """Of one answer of series or steps."""
    range_ns: int = 731 * 86_400_000_000_000
    """Of one query's window: what is kept longest."""
    window_ns: int = 86_400_000_000_000
    """Of one raw window."""
    window_bytes: int = 128 << 20
    requests_per_s: float = 100.0
    """Of one token, or of one address without one, on average; `burst` of them at once."""
    burst: int = 400
    refused_per_s: float = 0.5
    """Wrong tokens of one address; `refused_burst` of them at once."""
    refused_burst: int = 20

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise UsageError(f"limit {name}: {getattr(self, name)} is none; give a number above 0")


class Bucket:
    """Turns of many askers: each has `burst`, and gains `per_s` of them each second. From any thread."""

    MOST_ASKERS = 20_000

    def __init__(self, per_s: float, burst: int) -> None:
        self._per_s, self._burst = per_s, burst
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def take(self, asker: str, now_s: float) -> float:
        """Take one turn. Seconds until there is one, 0 where there was one."""
        with self._lock:
            left = self._now(asker, now_s)
            wait_s = 0.0 if left >= 1 else (1 - left) / self._per_s
            self._left[asker] = (left - 1 if left >= 1 else left, now_s)
            self._left.move_to_end(asker)
            if len(self._left) > self.MOST_ASKERS:
                self._left.popitem(last=False)
        return wait_s

    def wait_s(self, asker: str, now_s: float) -> float:
        """Seconds until there is a turn, without taking one."""
        with self._lock:
            left = self._now(asker, now_s)
        return 0.0 if left >= 1 else (1 - left) / self._per_s

    def _now(self, asker: str, now_s: float) -> float:
        left, since_s = self._left.get(asker, (float(self._burst), now_s))
        return min(float(self._burst), left + max(now_s - since_s, 0.0) * self._per_s)


_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")


def depth_of(body: bytes) -> int:
    """How deep brackets nest in a JSON text; those within strings do not count. Without recursion."""
    depth = most = 0
    for each in _BRACKET.findall(_STRING.sub(b"", body)):
        depth += 1 if each in (b"[", b"{") else -1
        most = max(most, depth)
    return most
