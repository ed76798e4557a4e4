"""Blocks of a file that were lost: what is left is kept, and nothing is concluded from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stepscope
from stepscope.trace.load import load_bytes
from tests.analyse.build import Build


def made() -> bytes:
    """400 steps of 100 µs, of which the device is busy for 98: 300 kB."""
    build = Build()
    for step in range(400):
        at = step * 100
        build = build.step(step, at, at + 100).op("aten::mm", at, at + 5)
        build = build.kernel("gemm", at + 2, at + 100, launched=(at + 1, at + 2))
    return build.bytes()


def at_names(text: bytes) -> list[int]:
    """Where in the text names of device work stand: a hole may begin inside one."""
    return [place for place in range(len(text)) if text.startswith(b'"gemm"', place)]


@pytest.mark.parametrize("filler", [b"\0", b"\xff", b"x"])
@pytest.mark.parametrize("begin", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("in_string", [False, True])
def test_a_hole_in_the_events_is_a_cut(filler: bytes, begin: float, in_string: bool, tmp_path: Path) -> None:
    text = made()
    size = 96 << 10
    start = int(len(text) * begin)
    if in_string:
        start = next(place for place in at_names(text) if place >= start) + 3
    torn = text[:start] + filler * size + text[start + size :]
    traces = [load_bytes(torn, "t.json", native=native) for native in (True, False)]
    for trace in traces:
        assert [loss.code for loss in trace.losses if loss.is_cut]
        assert trace.num_events > 300
    assert traces[0].losses == traces[1].losses
    file = tmp_path / "t.json"
    file.write_bytes(torn)
    made_ = stepscope.diagnose(file)
    assert made_.verdict.class_ == "undecided"
    assert not made_.findings


@pytest.mark.parametrize("filler", [b"\0" * 40, b'"a": }, {', b"\xff\xfe"])
def test_a_small_tear_is_no_hole(filler: bytes) -> None:
    text = made()
    middle = len(text) // 2
    trace = load_bytes(text[:middle] + filler + text[middle + len(filler) :], "t.json", native=True)
    assert not any(loss.is_cut for loss in trace.losses)


def test_a_long_text_that_needs_no_mending_is_no_hole() -> None:
    trace = json.loads(made())
    trace["traceEvents"][1]["args"] = {"Call stack": "frame;" * 40_000}
    assert not load_bytes(json.dumps(trace).encode(), "t.json", native=True).losses
