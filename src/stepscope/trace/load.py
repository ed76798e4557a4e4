"""Trace files to columns: the one entry that the rest of stepscope uses."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from stepscope.model.error import InputError
from stepscope.model.trace import (
    ABSENT_I32, ABSENT_I64, Comms, Correlations, Flows, Gpu, Instants, Memory, Ops, Python, Spans, Syncs, Trace, Track,
)  # fmt: skip

SUFFIXES = (".json", ".json.gz", ".json.zst")


def native_available() -> bool:
    return False


def discover(paths: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in paths:
        p = Path(path)
        if p.is_dir():
            inside = sorted(str(f) for f in p.rglob("*") if f.name.endswith(SUFFIXES))
            if not inside:
                raise InputError(path, "the directory holds no trace", "give a file, or a directory with *.json or *.json.gz")
            found += inside
        else:
            found.append(path)
    return found


def load(path: str, *, native: bool | None = None, progress: Callable[[int, int], None] | None = None) -> Trace:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(path, error.strerror or "cannot be read", "check the path and its permissions") from error
    return load_bytes(data, path)


def load_bytes(data: bytes, name: str) -> Trace:
    size = len(data)
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    d: Any = json.loads(data.decode("utf8", "replace"), strict=False, parse_float=Decimal)
    return _columns(d, name, size)


def _columns(d: Any, name: str, size: int) -> Trace:
    events = d if isinstance(d, list) else d["traceEvents"]
    meta = {} if isinstance(d, list) else {k: v for k, v in d.items() if k != "traceEvents"}
    base = int(meta.get("baseTimeNanoseconds", 0) or 0)
    names: dict[str, int] = {}
    cats: dict[str, int] = {}
    texts: dict[str, int] = {}
    seen: dict[Any, int] = {}
    tracks: list[Track] = []

    def intern(table: dict[str, int], s: Any) -> int:
        if s is None:
            return -1
        return table.setdefault(s if isinstance(s, str) else json.dumps(s, default=str), len(table))

    def ident(x: Any) -> Any:
        if isinstance(x, str):
            try:
                return int(x)
            except ValueError:
                return x
        return x

    core: list[tuple[int, ...]] = []
    corr, ops, gpu, comm, py = [], [], [], [], []
    for i, e in enumerate(events):
        if e.get("ph") not in ("X", "i"):
            continue
        key = (ident(e.get("pid", 0)), ident(e.get("tid", 0)))
        if key not in seen:
            seen[key] = len(tracks)
            tracks.append(Track(*key))
        if e["ph"] == "i":
            continue
        ts, dur = (int((Decimal(e.get(k, 0)) * 1000).to_integral_value()) for k in ("ts", "dur"))
        if abs(ts) > 8 * 10**18:
            continue
        r = len(core)
        core.append((ts + base, dur, intern(names, e.get("name", "")), intern(cats, e.get("cat", "")), seen[key], i))
        a = e.get("args") or {}
        if not isinstance(a, dict):
            continue
        if "correlation" in a:
            corr.append((r, int(a["correlation"])))
        x = a.get("External id", a.get("external id"))
        if x is not None or "Input Dims" in a:
            ops.append((r, ABSENT_I64 if x is None else int(x), ABSENT_I64, ABSENT_I64, intern(texts, a.get("Input Dims")),
                        intern(texts, a.get("Input type")), -1, -1, intern(texts, a.get("Call stack")), -1))  # fmt: skip
        if "device" in a or "stream" in a:
            gpu.append((r, int(a.get("device", ABSENT_I32)), int(a.get("stream", ABSENT_I64)), int(a.get("bytes", ABSENT_I64))))
        if "Collective name" in a:
            comm.append((r, intern(texts, a["Collective name"]), intern(texts, a.get("dtype")), intern(texts, a.get("Process Group Name")),
                         -1, -1, int(a.get("In msg nelems", ABSENT_I64)), int(a.get("Out msg nelems", ABSENT_I64)),
                         int(a.get("Group size", ABSENT_I64)), ABSENT_I64, ABSENT_I64, ABSENT_I64))  # fmt: skip
    i64, i32 = np.int64, np.int32

    def table(rows: list[Any], types: list[Any]) -> list[Any]:
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in types]
        return [np.array(list(c), dtype=t) for c, t in zip(columns, types, strict=True)]

    e64, e32 = np.empty(0, i64), np.empty(0, i32)
    g, n = table(gpu, [i32, i32, i64, i64]), len(gpu)
    nan = np.full(n, np.nan, np.float32)
    return Trace(
        name=os.fspath(name),
        spans=Spans(*table(core, [i64, i64, i32, i32, i32, i32])),
        correlations=Correlations(*table(corr, [i32, i64])),
        ops=Ops(*table(ops, [i32, i64, i64, i64, i32, i32, i32, i32, i32, i32])),
        python=Python(*table(py, [i32, i64, i64, i64])),
        gpu=Gpu(*g, np.zeros((n, 3), i32), np.zeros((n, 3), i32), np.full(n, -1, i32), np.full(n, -1, i64), nan, nan, nan,
                np.full(n, ABSENT_I64, i64), np.full(n, ABSENT_I64, i64)),
        comms=Comms(*table(comm, [i32] * 6 + [i64] * 6)),
        syncs=Syncs(e32, e64, e64, e64),
        instants=Instants(e64, e32, e32, e32, e32),
        memory=Memory(e64, e32, e32, e64, e64, e32, e32, e64, e64),
        flows=Flows(e64, e64, e32, e32, np.empty(0, np.uint8)),
        names=list(names), cats=list(cats), texts=list(texts), tracks=tracks,
        metadata=json.loads(json.dumps(meta, default=float)),
        anchor="base" if base else "none", num_events=len(events), num_bytes=size,
    )  # fmt: skip
