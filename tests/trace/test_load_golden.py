"""Every real trace, event by event, against the standard library's reading, and parser against parser."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from stepscope.trace.load import load, load_bytes
from tests.conftest import _shared_data
from tests.trace.golden import differences
from tests.trace.parsers import PARSERS, corpus, digest, needs_fallback, needs_native

FOLDER = _shared_data() / "traces"
REAL = [
    pytest.param(path, id=str(path.relative_to(FOLDER)).removesuffix(".json.gz"))
    for path in sorted(FOLDER.rglob("*.json.gz"))
    if "rocprof" not in path.parts
] or [pytest.param(FOLDER, marks=pytest.mark.skip(reason=f"no shared data in {FOLDER}"))]
WHOLE = [path for path in corpus() if path.name.startswith("layout-")]


@pytest.mark.parametrize("path", REAL)
def test_a_real_trace_reads_as_its_json_says(path: Path) -> None:
    trace = load(str(path))
    assert differences(trace, gzip.decompress(path.read_bytes())) == []
    assert {loss.code for loss in trace.losses} <= {"no_anchor"}


@needs_native
@needs_fallback
@pytest.mark.parametrize("path", REAL)
def test_both_parsers_give_the_same_tables(path: Path) -> None:
    assert digest(load(str(path), native=False)) == digest(load(str(path), native=True))


@pytest.mark.parametrize("native", PARSERS)
@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_a_layout_reads_as_its_json_says(path: Path, native: bool) -> None:
    text = path.read_bytes()
    trace = load_bytes(text, path.name, native=native)
    # The golden reading knows complete events only; begin and end events have a test of their own.
    spans = [i for i, name in enumerate(trace.names) if name in ("outer", "inner")]
    if spans:
        text = _joined(text)
    assert differences(trace, text) == []


def _joined(text: bytes) -> bytes:
    """The corpus's two begin and end pairs, written as complete events."""
    import json

    document = json.loads(text.decode("utf-8-sig"))
    events = document if isinstance(document, list) else document["traceEvents"]
    for event in events:
        if event.get("ph") == "B":
            event["ph"], event["dur"] = "X", {"outer": 5.5, "inner": 1}[event["name"]]
            event.pop("args", None)
    return json.dumps(document).encode()


@pytest.mark.parametrize("native", PARSERS)
def test_layouts_of_one_trace_are_one_trace(native: bool) -> None:
    def essence(name: str) -> str:
        path = next(path for path in WHOLE if path.stem == name)
        return digest(load_bytes(path.read_bytes(), "x", native=native))

    assert len({essence(f"layout-{kind}") for kind in ("native", "compact", "indented", "crlf-bom")}) == 1


@needs_native
@needs_fallback
@pytest.mark.parametrize("path", corpus(), ids=lambda path: path.stem)
def test_both_parsers_agree_on_the_corpus(path: Path) -> None:
    text = path.read_bytes()
    assert digest(load_bytes(text, "x", native=False)) == digest(load_bytes(text, "x", native=True))
