"""Traces by hand: microseconds in, Kineto events and the text of a file out.

    b = Build()
    b.step(1, 0, 100).op("aten::mm", 0, 5)
    b.kernel("gemm", 10, 50, launched=(1, 4))
    b.write()

Every method that adds rows returns the builder. Times are microseconds with up to three decimals. `at`
is added to every time, because a real trace does not begin at 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import pairwise
from typing import Any

Micros = int | float | str | Decimal
BASE_NS = 1_700_000_000_000_000_000
AT_US = 10_000
LAUNCH = "cudaLaunchKernel"


def text_of_micros(value: Micros) -> str:
    """Exactly three decimals, as the profiler writes them; text is taken as it is."""
    if isinstance(value, str):
        return value
    ns = round(Decimal(str(value)) * 1000)
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 1000}.{ns % 1000:03d}"


def write_trace(
    events: Iterable[Mapping[str, Any]],
    *,
    base_ns: int | None = BASE_NS,
    shift_us: int = 0,
    rank: int | None = 0,
    world_size: int = 1,
    properties: Mapping[str, Any] | None = None,
) -> str:
    """The file's JSON. `shift_us` is added to every time in exact decimals, for times since the epoch."""
    lines = []
    for event in events:
        rest = {k: v for k, v in event.items() if k not in ("ts", "dur")}
        head = [f"{json.dumps(k)}: {json.dumps(v)}" for k, v in rest.items()]
        if "ts" in event:
            ts = event["ts"]
            if not isinstance(ts, str):
                ts = text_of_micros(Decimal(str(ts)) + shift_us)
            head.append(f'"ts": {ts}')
        if "dur" in event:
            head.append(f'"dur": {text_of_micros(event["dur"])}')
        lines.append("  {" + ", ".join(head) + "}")
    top: dict[str, Any] = {"schemaVersion": 1}
    if rank is not None:
        top["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": world_size}
    if base_ns is not None:
        top["baseTimeNanoseconds"] = base_ns
    top["displayTimeUnit"] = "ms"
    top.update(properties or {})
    fields = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in top.items())
    return "{\n" + fields + ',\n"traceEvents": [\n' + ",\n".join(lines) + "\n]}\n"


class Build:
    """One trace, row by row."""

    def __init__(
        self,
        *,
        pid: int = 4242,
        at: Micros = AT_US,
        base_ns: int | None = BASE_NS,
        rank: int | None = 0,
        world_size: int = 1,
        **properties: Any,
    ) -> None:
        self.pid = pid
        self.at = Decimal(str(at))
        self.base_ns = base_ns
        self.rank = rank
        self.world_size = world_size
        self.properties = properties
        self.events: list[dict[str, Any]] = []
        self._correlation = 1000

    def row(
        self, cat: str, name: str, start: Micros, end: Micros, pid: int | str, tid: int | str, **args: Any
    ) -> Build:
        """Any complete event."""
        begin, finish = Decimal(str(start)), Decimal(str(end))
        event: dict[str, Any] = {
            "ph": "X",
            "cat": cat,
            "name": name,
            "pid": pid,
            "tid": tid,
            # Decimals: a float of microseconds since the epoch cannot hold three of them.
            "ts": begin + self.at,
            "dur": finish - begin,
        }
        if args:
            event["args"] = args
        self.events.append(event)
        return self

    def raw(self, **event: Any) -> Build:
        """Any event, as it is."""
        self.events.append(event)
        return self

    def _host(
        self, cat: str, name: str, start: Micros, end: Micros, tid: int | None, args: Mapping[str, Any]
    ) -> Build:
        return self.row(cat, name, start, end, self.pid, self.pid if tid is None else tid, **args)

    def step(self, number: int, start: Micros, end: Micros, tid: int | None = None) -> Build:
        return self._host("user_annotation", f"ProfilerStep#{number}", start, end, tid, {})

    def steps(self, first: int, bounds: Iterable[Micros]) -> Build:
        """Steps back to back, from `first`: one fewer than bounds."""
        edges = list(bounds)
        for i, (start, end) in enumerate(pairwise(edges)):
            self.step(first + i, start, end)
        return self

    def note(self, name: str, start: Micros, end: Micros, tid: int | None = None) -> Build:
        """A user annotation."""
        return self._host("user_annotation", name, start, end, tid, {})

    def op(self, name: str, start: Micros, end: Micros, tid: int | None = None, **args: Any) -> Build:
        return self._host("cpu_op", name, start, end, tid, args)

    def frame(self, name: str, start: Micros, end: Micros, tid: int | None = None) -> Build:
        """A Python frame."""
        return self._host("python_function", name, start, end, tid, {})

    def call(
        self,
        name: str,
        start: Micros,
        end: Micros,
        tid: int | None = None,
        correlation: int | None = None,
        cat: str = "cuda_runtime",
    ) -> Build:
        """A run-time call; without a correlation it gets one of its own."""
        number = self.new_correlation() if correlation is None else correlation
        return self._host(cat, name, start, end, tid, {"correlation": number})

    def new_correlation(self) -> int:
        self._correlation += 1
        return self._correlation

    def activity(
        self,
        cat: str,
        name: str,
        start: Micros,
        end: Micros,
        *,
        launched: tuple[Micros, Micros] | None = None,
        by: str = LAUNCH,
        by_cat: str = "cuda_runtime",
        correlation: int | None = None,
        tid: int | None = None,
        device: int = 0,
        stream: int = 7,
        pid: int | str | None = None,
        **args: Any,
    ) -> Build:
        """Device work, and the call that launched it where `launched` says when that was."""
        number = self.new_correlation() if correlation is None else correlation
        if launched is not None:
            self.call(by, *launched, tid=tid, correlation=number, cat=by_cat)
        return self.row(
            cat,
            name,
            start,
            end,
            device if pid is None else pid,
            stream,
            **{"device": device, "stream": stream, "correlation": number, **args},
        )

    def kernel(self, name: str, start: Micros, end: Micros, **kw: Any) -> Build:
        return self.activity("kernel", name, start, end, **kw)

    def copy(self, name: str, start: Micros, end: Micros, **kw: Any) -> Build:
        kw = {"by": "cudaMemcpyAsync", "bytes": 4096, **kw}
        return self.activity("gpu_memcpy", name, start, end, **kw)

    def set(self, start: Micros, end: Micros, **kw: Any) -> Build:
        kw = {"by": "cudaMemsetAsync", "bytes": 4096, **kw}
        return self.activity("gpu_memset", "Memset (Device)", start, end, **kw)

    def memory(
        self,
        at: Micros,
        size: int,
        *,
        address: int | None = None,
        allocated: int | None = None,
        reserved: int | None = None,
        tid: int | None = None,
        device: int = 0,
        device_type: int = 1,
    ) -> Build:
        """An allocator event: `size` below 0 frees; `allocated` and `reserved` are the totals behind it."""
        told = {"Addr": address, "Total Allocated": allocated, "Total Reserved": reserved}
        return self.raw(
            ph="i",
            s="t",
            cat="cpu_instant_event",
            name="[memory]",
            pid=self.pid,
            tid=self.pid if tid is None else tid,
            ts=Decimal(str(at)) + self.at,
            args={
                "Device Type": device_type,
                "Device Id": device,
                "Bytes": size,
                **{key: value for key, value in told.items() if value is not None},
            },
        )

    def write(self) -> str:
        return write_trace(
            self.events,
            base_ns=self.base_ns,
            rank=self.rank,
            world_size=self.world_size,
            properties=self.properties,
        )

    def bytes(self) -> bytes:
        return self.write().encode()
