"""What a trace's columns must be, worked out from the standard library's JSON one event at a time.

Written apart from the loader on purpose: it knows the file format and the column contract, and nothing else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np

from stepscope.model.trace import ABSENT_I32, ABSENT_I64, Trace

KEYS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "correlations": {"correlation": ("correlation",)},
    "ops": {
        "external_id": ("External id", "external id"),
        "sequence": ("Sequence number",),
        "fwd_thread": ("Fwd thread id",),
        "dims_id": ("Input Dims",),
        "types_id": ("Input type",),
        "concrete_id": ("Concrete Inputs",),
        "strides_id": ("Input Strides",),
        "stack_id": ("Call stack",),
        "module_id": ("Module Hierarchy",),
    },
    "python": {
        "python_id": ("Python id",),
        "parent_id": ("Python parent id",),
        "module_id": ("Python module id",),
    },
    "gpu": {
        "device": ("device",),
        "stream": ("stream",),
        "bytes": ("bytes",),
        "grid": ("grid",),
        "block": ("block",),
        "registers": ("registers per thread",),
        "shared_bytes": ("shared memory",),
        "occupancy": ("est. achieved occupancy %",),
        "warps_per_sm": ("warps per SM",),
        "blocks_per_sm": ("blocks per SM",),
        "graph_id": ("graph id",),
        "graph_node_id": ("graph node id",),
    },
    "comms": {
        "collective_id": ("Collective name",),
        "dtype_id": ("dtype",),
        "group_id": ("Process Group Name",),
        "group_desc_id": ("Process Group Description",),
        "ranks_id": ("Process Group Ranks",),
        "in_nelems": ("In msg nelems",),
        "out_nelems": ("Out msg nelems",),
        "group_size": ("Group size",),
        "sequence": ("Seq",),
        "src_rank": ("Src Rank",),
        "dst_rank": ("Dst Rank",),
    },
    "syncs": {
        "wait_stream": ("wait_on_stream",),
        "wait_correlation": ("wait_on_cuda_event_record_corr_id",),
        "wait_event": ("wait_on_cuda_event_id",),
    },
}
TEXTS = {
    "ops": ("dims_id", "types_id", "concrete_id", "strides_id", "stack_id", "module_id"),
    "comms": ("collective_id", "dtype_id", "group_id", "group_desc_id", "ranks_id"),
}
MEMORY = {
    "bytes": "Bytes",
    "address": "Addr",
    "device_type": "Device Type",
    "device": "Device Id",
    "total_allocated": "Total Allocated",
    "total_reserved": "Total Reserved",
}


def parsed(text: bytes) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Metadata and events; decimals stay exact."""
    document = json.loads(text.decode("utf-8-sig"), parse_float=Decimal, strict=False)
    if isinstance(document, list):
        return {}, document
    return {key: value for key, value in document.items() if key != "traceEvents"}, document["traceEvents"]


def nanoseconds(microseconds: Any) -> int:
    return int((Decimal(microseconds) * 1000).to_integral_value(ROUND_HALF_EVEN))


def number(value: Any) -> int | None:
    """An integer argument, also in quotes, also in hexadecimal."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        try:
            value = int(value, 16 if value[:2] == "0x" else 10)
        except ValueError:
            return None
    value = int(value)
    if not -(2**63) < value < 2**64:
        return None
    return value - 2**64 if value >= 2**63 else value


def identity(value: Any) -> int | str:
    if isinstance(value, str):
        try:
            return int(value)
        except ValueError:
            return value
    return int(value)


def written(value: Any) -> str:
    """A text column's text: strings as they read, the rest as JSON without white space."""
    if isinstance(value, str):
        # A list that was written as a string is brought into the same form.
        return value.replace(" ", "") if value[:1] == "[" else value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def differences(trace: Trace, text: bytes) -> list[str]:
    """Where the trace departs from the text; empty where it does not."""
    metadata, events = parsed(text)
    base = int(metadata.get("baseTimeNanoseconds", 0))
    found: list[str] = []

    def same(what: str, ours: Any, wanted: Any) -> None:
        ours, wanted = list(ours), list(wanted)
        if len(ours) != len(wanted):
            found.append(f"{what}: {len(ours)} rows for {len(wanted)}")
            return
        for i, (a, b) in enumerate(zip(ours, wanted, strict=True)):
            if a != b and not (
                isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b)
            ):
                found.append(f"{what}[{i}]: {a!r} for {b!r}")
                return

    def track_of(ids: Any) -> list[tuple[Any, Any]]:
        return [(trace.tracks[i].pid, trace.tracks[i].tid) for i in ids.tolist()]

    def place(event: Mapping[str, Any]) -> tuple[Any, Any]:
        return identity(event.get("pid", 0)), identity(event.get("tid", 0))

    spans = [(i, e) for i, e in enumerate(events) if e.get("ph") == "X"]
    ours = trace.spans
    same("index", ours.index.tolist(), (i for i, _ in spans))
    same("ts", ours.ts_ns.tolist(), (base + nanoseconds(e["ts"]) for _, e in spans))
    same("dur", ours.dur_ns.tolist(), (nanoseconds(e.get("dur", 0)) for _, e in spans))
    same("name", (trace.names[i] for i in ours.name_id.tolist()), (e["name"] for _, e in spans))
    same("cat", (trace.cats[i] for i in ours.cat_id.tolist()), (e.get("cat", "") for _, e in spans))
    same("track", track_of(ours.track_id), (place(e) for _, e in spans))
    for name, columns in KEYS.items():
        _side(trace, name, columns, [e.get("args") for _, e in spans], same)

    def is_memory(event: Mapping[str, Any]) -> bool:
        return event.get("name") == "[memory]"

    marks = [(i, e) for i, e in enumerate(events) if e.get("ph") in ("i", "I", "R")]
    instants = [(i, e) for i, e in marks if not is_memory(e)]
    same("instants.index", trace.instants.index.tolist(), (i for i, _ in instants))
    same("instants.ts", trace.instants.ts_ns.tolist(), (base + nanoseconds(e["ts"]) for _, e in instants))
    memory = [(i, e) for i, e in marks if is_memory(e)]
    same("memory.index", trace.memory.index.tolist(), (i for i, _ in memory))
    same("memory.ts", trace.memory.ts_ns.tolist(), (base + nanoseconds(e["ts"]) for _, e in memory))
    same("memory.track", track_of(trace.memory.track_id), (place(e) for _, e in memory))
    for name, key in MEMORY.items():
        absent = ABSENT_I32 if name.startswith("device") else ABSENT_I64
        wanted = (absent if key not in e["args"] else number(e["args"][key]) for _, e in memory)
        same(f"memory.{name}", getattr(trace.memory, name).tolist(), wanted)
    flows = [e for e in events if e.get("ph") in ("s", "t", "f")]
    same("flows.ts", trace.flows.ts_ns.tolist(), (base + nanoseconds(e["ts"]) for e in flows))
    same("flows.id", trace.flows.id.tolist(), (number(e["id"]) for e in flows))
    same("flows.phase", map(chr, trace.flows.phase.tolist()), (e["ph"] for e in flows))
    same("flows.track", track_of(trace.flows.track_id), (place(e) for e in flows))
    _tracks(trace, events, same)
    same("num_events", [trace.num_events], [len(events)])
    return found


def _side(
    trace: Trace, name: str, columns: Mapping[str, tuple[str, ...]], args: list[Any], same: Any
) -> None:
    """One side table: every span that wrote one of its keys has a row, or none of them is in another."""
    table = getattr(trace, name)
    rows = table.row.tolist()
    assert rows == sorted(set(rows)), f"{name}.row is not ascending"
    taken = set(rows)
    for column, keys in columns.items():
        values = getattr(table, column)
        ours = dict(zip(rows, values.tolist(), strict=True))
        wanted, got = [], []
        for row, written_args in enumerate(args):
            given = written_args if isinstance(written_args, dict) else {}
            value = next((given[key] for key in keys if key in given), None)
            if row in taken:
                wanted.append(_wanted(name, column, value))
                mine = ours[row]
                if column in TEXTS.get(name, ()):
                    mine = None if mine < 0 else trace.texts[mine]
                got.append(mine)
            elif column in (
                "external_id",
                "correlation",
                "python_id",
                "device",
                "wait_stream",
                "collective_id",
            ):
                assert _wanted(name, column, value) in (None, ABSENT_I64, ABSENT_I32), (
                    f"{name}: span {row} has no row"
                )
        same(f"{name}.{column}", got, wanted)


def _wanted(table: str, column: str, value: Any) -> Any:
    if column in ("grid", "block"):
        is_triple = isinstance(value, list) and len(value) == 3
        return [int(v) for v in value] if is_triple else [ABSENT_I32] * 3
    if column in ("occupancy", "warps_per_sm", "blocks_per_sm"):
        if value is None:
            return math.nan
        return float(np.float32(float(value) / (100 if column == "occupancy" else 1)))
    if column in ("device", "registers"):
        exact = number(value)
        return ABSENT_I32 if exact is None else exact
    if column in TEXTS.get(table, ()):
        return None if value is None else written(value)
    exact = number(value)
    return ABSENT_I64 if exact is None else exact


def _tracks(trace: Trace, events: list[dict[str, Any]], same: Any) -> None:
    process: dict[Any, str] = {}
    labels: dict[Any, str] = {}
    thread: dict[Any, str] = {}
    for event in events:
        if event.get("ph") != "M":
            continue
        pid, tid, args = identity(event.get("pid", 0)), identity(event.get("tid", 0)), event.get("args") or {}
        if event["name"] == "process_name":
            process[pid] = args["name"]
        elif event["name"] == "process_labels":
            labels[pid] = args["labels"]
        elif event["name"] == "thread_name":
            thread[pid, tid] = args["name"]
    timed = set(trace.spans.track_id.tolist())
    used = [track for i, track in enumerate(trace.tracks) if i in timed]
    same("process names", (t.process_name for t in used), (process.get(t.pid) for t in used))
    same("process labels", (t.process_labels for t in used), (labels.get(t.pid) for t in used))
    same("thread names", (t.thread_name for t in used), (thread.get((t.pid, t.tid)) for t in used))
