"""Rows as the PyTorch profiler writes them: one JSON text a rank."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from stepscope.simulate.clock import Clock, clock_of
from stepscope.simulate.config import Config
from stepscope.simulate.group import groups_in
from stepscope.simulate.model import Op
from stepscope.simulate.row import (
    ROW_CALL,
    ROW_COPY,
    ROW_EXCHANGE,
    ROW_GC,
    ROW_KERNEL,
    ROW_NODE,
    ROW_OP,
    ROW_RECORD,
    Row,
)

RANKS_PER_NODE = 8
THREADS = ("python", "pt_autograd_0")
CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaStreamSynchronize": 131,
    "cudaEventSynchronize": 137,
    "cudaDeviceSynchronize": 165,
    "cudaEventRecord": 135,
    "cudaStreamWaitEvent": 147,
    "cudaMalloc": 20,
    "cudaFree": 22,
}
LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync")
EXCHANGE_LAUNCH = (
    '"registers per thread": 96, "shared memory": 84240, "blocks per SM": 0.181818, '
    '"warps per SM": 3.636364, "grid": [24, 1, 1], "block": [640, 1, 1], "est. achieved occupancy %": 0'
)


def trace(
    config: Config,
    rank: int,
    rows: list[Row],
    clock: Clock | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> bytes:
    """The trace file of one rank; by its own clock unless another is given, with more metadata if any."""
    return _Writer(config, rank, clock_of(config, rank) if clock is None else clock, metadata or {}).write(
        rows
    )


def pid_of(rank: int) -> int:
    """The process of a rank, on its host: the same number seldom comes up on two hosts."""
    node, local = divmod(rank, RANKS_PER_NODE)
    return 4_100 + 97 * local + 1_013 * node


def _us(ns: int) -> str:
    """Microseconds with three decimals."""
    return f"{ns // 1000}.{ns % 1000:03d}"


def _span(cat: str, name: str, where: str, ts: str, dur: str, arguments: str) -> str:
    """A complete event; `name` is JSON text, `where` its pid and tid up to the time."""
    return (
        f'  {{\n    "ph": "X", "cat": "{cat}", "name": {name}, {where}{ts}, "dur": {dur},\n'
        f'    "args": {{\n      {arguments}\n    }}\n  }}'
    )


def _flow(phase: str, number: int, where: str) -> str:
    """The launch's or the kernel's end of the arrow between them."""
    binding = ', "bp": "e"' if phase == "f" else ""
    return f'  {{\n    "ph": "{phase}", "id": {number}, {where}, "cat": "ac2g", "name": "ac2g"{binding}\n  }}'


class _Writer:
    def __init__(self, config: Config, rank: int, clock: Clock, metadata: Mapping[str, Any]) -> None:
        self.config, self.rank, self.clock = config, rank, clock
        self.added = metadata
        local = rank % RANKS_PER_NODE
        self.device = local
        self.pid = pid_of(rank)
        self.tids = (self.pid, self.pid + 61)
        self.where = tuple(f'"pid": {self.pid}, "tid": {tid}, "ts": ' for tid in self.tids)
        self.names: dict[str, str] = {}

    def write(self, rows: list[Row]) -> bytes:
        starts = self._local([row.start_ns for row in rows])
        ends = self._local([row.end_ns for row in rows])
        lines: list[str] = []
        for row, start, end in zip(rows, starts, ends, strict=True):
            self._row(lines, row, _us(start), _us(end - start))
        first, last = (min(starts), max(ends)) if rows else (0, 0)
        lines[:0] = self._head(rows, first)
        lines += self._foot(first, last)
        head = json.dumps(self._metadata())
        name = f"rank{self.rank}.json"
        text = f'{head[:-1]},\n  "traceEvents": [\n' + ",\n".join(lines)
        return f'{text}\n  ],\n  "traceName": "{name}"\n}}\n'.encode()

    def _local(self, true_ns: list[int]) -> list[int]:
        shown = self.clock.local_ns(np.array(true_ns, dtype=np.int64)) - self.clock.base_ns
        listed: list[int] = shown.tolist()
        return listed

    def _name(self, name: str) -> str:
        """A name as JSON text."""
        found = self.names.get(name)
        if found is None:
            found = self.names[name] = json.dumps(name)
        return found

    def _row(self, lines: list[str], row: Row, ts: str, dur: str) -> None:
        kind = row.kind
        if kind == ROW_CALL:
            self._call(lines, row, ts, dur)
        elif kind in (ROW_KERNEL, ROW_COPY, ROW_EXCHANGE):
            self._device_row(lines, row, ts, dur)
        else:
            cat, name, arguments = self._host_row(row)
            lines.append(_span(cat, name, self.where[row.track], ts, dur, arguments))

    def _host_row(self, row: Row) -> tuple[str, str, str]:
        """Category, name and arguments."""
        external = f'"External id": {row.external}, "Record function id": 0, '
        index = f'"Ev Idx": {row.external - 1}'
        if row.kind == ROW_OP:
            op: Op | str = row.what
            if isinstance(op, str):
                return "cpu_op", self._name(op), external + index
            sequence = f'"Sequence number": {row.place}, "Fwd thread id": 0, ' if row.place >= 0 else ""
            return "cpu_op", self._name(op.name), f"{external}{sequence}{op.arguments}, {index}"
        if row.kind == ROW_NODE:
            name = self._name(f"autograd::engine::evaluate_function: {row.what}")
            return "cpu_op", name, f'{external}"Sequence number": {row.place}, "Fwd thread id": 1, {index}'
        if row.kind == ROW_RECORD:
            exchange, number = row.what
            return "cpu_op", '"record_param_comms"', f'{external}{exchange.written}, "Seq": {number}, {index}'
        if row.kind == ROW_GC:
            return "Python GC", self._name(row.what), '"Ev Idx": 0'
        return "user_annotation", self._name(row.what), external + index

    def _call(self, lines: list[str], row: Row, ts: str, dur: str) -> None:
        name, where = row.what, self.where[row.track]
        external = f'"External id": {row.external}, ' if row.external else ""
        arguments = f'{external}"cbid": {CBID[name]}, "correlation": {row.correlation}'
        lines.append(_span("cuda_runtime", f'"{name}"', where, ts, dur, arguments))
        if name in LAUNCHES:
            lines.append(_flow("s", row.correlation, f"{where}{ts}"))

    def _device_row(self, lines: list[str], row: Row, ts: str, dur: str) -> None:
        device, stream, number = self.device, row.track, row.correlation
        cat, ids = "kernel", f'"External id": {row.external}, "queued": 0, "device": {device}, "context": 1, '
        ids += f'"stream": {stream}, "correlation": {number}'
        if row.kind == ROW_KERNEL:
            name, arguments = row.what.name, f"{ids}, {row.what.launch}"
        elif row.kind == ROW_EXCHANGE:
            exchange, sequence = row.what
            name = exchange.kernel
            arguments = f'{ids}, {EXCHANGE_LAUNCH}, {exchange.written}, "Seq": {sequence}'
        else:
            cat, name = "gpu_memcpy", row.what
            rate = row.num_bytes / max(row.end_ns - row.start_ns, 1)
            arguments = (
                f'"External id": {row.external}, "device": {device}, "context": 1, "stream": {stream}, '
                f'"correlation": {number}, "bytes": {row.num_bytes}, "memory bandwidth (GB/s)": {rate:.6f}'
            )
        where = f'"pid": {device}, "tid": {stream}, "ts": '
        lines.append(_span(cat, self._name(name), where, ts, dur, arguments))
        lines.append(_flow("f", number, f"{where}{ts}"))

    def _head(self, rows: list[Row], first: int) -> list[str]:
        streams = {row.track for row in rows if row.kind in (ROW_KERNEL, ROW_COPY, ROW_EXCHANGE)}
        named: list[tuple[str, int, int, dict[str, Any]]] = []
        for pid, label, order in (
            (self.pid, "CPU", self.pid),
            (self.device, f"GPU {self.device}", 5_000_000 + self.device),
        ):
            named += [
                ("process_name", pid, 0, {"name": "python"}),
                ("process_labels", pid, 0, {"labels": label}),
                ("process_sort_index", pid, 0, {"sort_index": order}),
            ]
        for stream in sorted(streams):
            named.append(("thread_name", self.device, stream, {"name": f"stream {stream} "}))
            named.append(("thread_sort_index", self.device, stream, {"sort_index": stream}))
        for tid, name in zip(self.tids, THREADS, strict=True):
            named.append(("thread_name", self.pid, tid, {"name": f"thread {tid} ({name})"}))
            named.append(("thread_sort_index", self.pid, tid, {"sort_index": tid}))
        ts = _us(first)
        return [
            f'  {{\n    "name": "{name}", "ph": "M", "ts": {ts}, "pid": {pid}, "tid": {tid},\n'
            f'    "args": {{\n      {json.dumps(what)[1:-1]}\n    }}\n  }}'
            for name, pid, tid, what in named
        ]

    def _foot(self, first: int, last: int) -> list[str]:
        ts, dur = _us(first), _us(last - first)
        return [
            f'  {{\n    "ph": "X", "cat": "Trace", "ts": {ts}, "dur": {dur},\n'
            '    "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)",\n'
            '    "args": {\n      "Op count": 0\n    }\n  }',
            '  {\n    "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g",\n'
            f'    "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": {ts}\n  }}',
        ]

    def _metadata(self) -> dict[str, Any]:
        config, gpu = self.config, self.config.device
        devices = min(config.ranks, RANKS_PER_NODE)
        made: dict[str, Any] = {
            "schemaVersion": 1,
            "deviceProperties": [
                {
                    "id": number, "name": gpu.name, "totalGlobalMem": gpu.memory_bytes,
                    "computeMajor": gpu.compute[0], "computeMinor": gpu.compute[1],
                    "maxThreadsPerBlock": 1024,
                    "maxThreadsPerMultiprocessor": 32 * gpu.warps_per_sm, "regsPerBlock": 65536,
                    "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": gpu.num_sm,
                }
                for number in range(devices)
            ],
            "cupti_version": 26,
            "cuda_runtime_version": 12080,
            "cuda_driver_version": 12080,
        }  # fmt: skip
        if config.ranks > 1:
            groups = groups_in(config, self.rank).all
            made["distributedInfo"] = {
                "backend": "nccl",
                "rank": self.rank,
                "world_size": config.ranks,
                "pg_count": len(groups),
                "pg_config": [
                    {
                        "pg_name": group.name, "pg_desc": group.description, "backend_config": "cuda:nccl",
                        "pg_size": len(group.ranks), "ranks": list(group.ranks),
                    }
                    for group in groups
                ],
                "nccl_version": "2.26.2",
            }  # fmt: skip
        identity = f"{(config.seed * 1_000_003 + 1) % 2**128:032X}"
        return {
            **made,
            "record_shapes": 1,
            "trace_id": identity,
            "displayTimeUnit": "ms",
            "baseTimeNanoseconds": self.clock.base_ns,
            **self.added,
        }
