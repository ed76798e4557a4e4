"""One small recording to keep: a trace, its counters and marks, without secrets and identities."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepscope.model import redact
from stepscope.model.error import RefusedError
from stepscope_sdk import ring_abi as abi

MOST_BYTES = 4_000_000
_UUID = re.compile(r"\b(GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_BARE_UUID = re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b")
NO_UUID = "00000000-0000-0000-0000-000000000000"
_KEPT_TEXTS = ("magic", "framework", "names")
_DROPPED = ("host_name", "hostname", "trace_id", "traceName", "with_stack")


def plain(text: str) -> str:
    """Text without the numbers by which a device is known all over the world."""
    return _BARE_UUID.sub(NO_UUID, _UUID.sub(lambda found: f"{found[1]}-{NO_UUID}", text))


def clean_trace(raw: bytes, key: bytes) -> dict[str, Any]:
    """A Kineto trace without secrets, host, user, paths and device numbers."""
    whole = json.loads(raw)
    for name in _DROPPED:
        whole.pop(name, None)
    whole, _ = redact.tree_without_secrets(whole)
    names = redact.Pseudonyms(key, redact.identities_in_tree(whole))
    cleaned: dict[str, Any] = _each_text(whole, lambda text: plain(names.apply(text)))
    return cleaned


def _each_text(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _each_text(item, change) for name, item in value.items()}
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    return value


def cut(trace: Mapping[str, Any], share: float) -> dict[str, Any]:
    """The first part of a trace, to the end of a step: events that begin later are left out."""
    steps = [e for e in trace["traceEvents"] if str(e.get("name", "")).startswith("ProfilerStep#")]
    ends = sorted({float(e["ts"]) + float(e.get("dur", 0)) for e in steps})
    if not ends or share >= 1:
        return dict(trace)
    last = ends[max(int(len(ends) * share) - 1, 0)]
    events = [e for e in trace["traceEvents"] if e.get("ph") == "M" or float(e.get("ts", 0)) < last]
    return {**trace, "traceEvents": events}


def clean_ring(raw: bytes) -> bytes:
    """A ring whose header names nobody; its marks stay."""
    ring = bytearray(raw)
    for each in abi.HEADER:
        if each.kind == "s" and each.name not in _KEPT_TEXTS:
            ring[each.offset : each.offset + each.size] = bytes(each.size)
    return bytes(ring)


def pack(folder: Path, about: Mapping[str, Any], target: Path) -> int:
    """Write the recording in `folder` as one archive of at most `MOST_BYTES`: its size.

    The trace is cut to fewer steps where it is too large. The same recording gives the same bytes.
    """
    trace_path = next(folder.glob("*.trace.json.gz"))
    raw = gzip.decompress(trace_path.read_bytes())
    key = redact.key_of_inputs([about.get("date", "")])
    trace = clean_trace(raw, key)
    others: dict[str, bytes] = {
        path.name: plain(path.read_text(encoding="utf-8")).encode()
        for path in sorted(folder.iterdir())
        if path.suffix in (".prom", ".csv")
    }
    for place, path in enumerate(sorted(folder.glob("marks/*.ring"))):
        others[f"rank{place}.ring"] = clean_ring(path.read_bytes())
    share = 1.0
    while share > 0.05:
        text = json.dumps(cut(trace, share), separators=(",", ":")).encode()
        whole = {
            "about.json": plain(json.dumps(about, indent=1, sort_keys=True)).encode() + b"\n",
            "rank0.pt.trace.json.gz": gzip.compress(text, 9, mtime=0),
            **others,
        }
        packed = _archive(whole)
        if len(packed) <= MOST_BYTES:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(packed)
            return len(packed)
        share *= 0.7
    raise RefusedError(
        f"{target}: the recording does not fit in {MOST_BYTES / 1e6:.0f} MB even with a twentieth of its "
        "steps; keep another case with --keep"
    )


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return gzip.compress(buffer.getvalue(), 9, mtime=0)
