"""Both parsers, and what must be equal between them."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from stepscope.model.error import StepscopeError
from stepscope.model.trace import Trace
from stepscope.trace.load import load_bytes, native_available

CORPUS = Path(__file__).parent / "fault"
TABLES = ("spans", "correlations", "ops", "python", "gpu", "comms", "syncs", "instants", "memory", "flows")
needs_native = pytest.mark.skipif(not native_available(), reason="the native parser is not built")
needs_fallback = pytest.mark.skipif(
    find_spec("stepscope.trace.kineto_fallback") is None, reason="there is no fallback parser"
)
PARSERS = [
    pytest.param(True, id="native", marks=needs_native),
    pytest.param(False, id="fallback", marks=needs_fallback),
]


def corpus() -> list[Path]:
    return sorted(CORPUS.glob("*.json"))


PIECES = (
    *(b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\n", b"\0", b"\xff", b"-", b".", b"e5", b"0"),
    *(b"null", b"nan", b"[1, 2]", b'{"a": 1}', b"18446744073709551615", b'"0x1f"', b"\\u00e9", b'\\"', b"]}"),
    *(b'"args": {', b'"ph": "X", ', b'"dtype": "x", ', b'"Input Dims": [[1]], ', b'"correlation": 5, '),
    *(b'{"schemaVersion": 1, "traceEvents": [', b'{"ph": "X", "ts": 1, "dur": 1}, ', b" " * 300),
    *(b"N/A", b"1e999", b".5", b"99999999999999999999", b"\\u12", b"\\ud800", b"\x01", b"\xff\xfe"),
    *(b'{"ph": "X", "ts": 1}', b'"args": {"name": "x"}'),
)
"""What is put into a mutated text: every token of JSON, broken ones, and whole pieces of events."""


def mutated(text: bytes, rng: random.Random) -> bytes:
    """The text with a few bytes changed, pieces left out, doubled or put in."""
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        match rng.randrange(6):
            case 0:
                text = text[:at] + bytes([rng.randrange(256)]) + text[at + 1 :]
            case 1:
                text = text[:at] + text[at + rng.randrange(1, 40) :]
            case 2 if rng.random() < 0.2:
                text = text[:at]
            case 3:
                start = rng.randrange(len(text) + 1)
                text = text[:at] + text[start : start + rng.randrange(300)] + text[at:]
            case _:
                text = text[:at] + rng.choice(PIECES) + text[at:]
    return text


def digest(trace: Trace) -> str:
    """Equal for equal tables, texts, tracks, metadata and losses, down to the order of interned texts."""
    out = hashlib.sha256()
    for name in TABLES:
        table = getattr(trace, name)
        for field in dataclasses.fields(table):
            column = getattr(table, field.name)
            out.update(f"{name}.{field.name} {column.dtype} {column.shape}\n".encode())
            out.update(np.ascontiguousarray(column).tobytes())
    rest = (
        trace.names,
        trace.cats,
        trace.texts,
        trace.tracks,
        dict(trace.metadata),
        trace.anchor,
        trace.losses,
        trace.num_events,
    )
    out.update(repr(rest).encode("utf-8", "backslashreplace"))
    return out.hexdigest()


def names(trace: Trace) -> list[str]:
    """Names of the spans in order."""
    return [trace.names[i] for i in trace.spans.name_id.tolist()]


def codes(trace: Trace) -> set[str]:
    """Health codes of what was lost or mended."""
    return {loss.code for loss in trace.losses} - {"no_anchor"}


def kept(data: bytes, native: bool) -> tuple[object, ...]:
    """Which events were kept and which codes were raised, or the refusal's type."""
    try:
        trace = load_bytes(data, "x.json", native=native)
    except StepscopeError as error:
        return (type(error).__name__,)
    spans = trace.spans
    return (
        trace.num_events,
        spans.index.tolist(),
        spans.ts_ns.tolist(),
        spans.dur_ns.tolist(),
        names(trace),
        len(trace.flows.id),
        len(trace.memory.bytes),
        sorted(codes(trace)),
    )
