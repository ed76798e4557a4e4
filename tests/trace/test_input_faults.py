"""Entries of the project's list of inputs that broke other tools where the events are sound JSON.

The loader must pass such events on as they are written, for the health report and the analysis to judge. The
damaged ones are in `test_load_fault.py`; each name carries the entry's id.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepscope.model.trace import Trace
from stepscope.trace.discover import rank_of
from stepscope.trace.limits import Limits
from stepscope.trace.load import load_bytes
from tests.trace.parsers import PARSERS, codes, names


@pytest.fixture(params=PARSERS)
def native(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def event(name: str, ts: float, dur: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, **more}


def loaded(events: list[dict[str, Any]], native: bool, name: str = "t.json", **top: Any) -> Trace:
    document = {"schemaVersion": 1, "baseTimeNanoseconds": 10**18, **top, "traceEvents": events}
    return load_bytes(json.dumps(document).encode(), name, native=native)


def test_T16_without_step_markers_every_event_is_kept(native: bool) -> None:
    trace = loaded([event("a", 1, 2), event("b", 4, 2)], native)
    assert names(trace) == ["a", "b"]
    assert codes(trace) == set()


@pytest.mark.parametrize(
    ("name", "rank"), [("rank5.json", 5), ("worker12.pt.trace.json", 12), ("t.json", None)]
)
def test_T17_without_distributed_info_the_name_tells_the_rank(
    name: str, rank: int | None, native: bool
) -> None:
    assert rank_of(loaded([event("a", 1, 2)], native, name))[0] == rank


@pytest.mark.parametrize("dur", [1e12, 1_600_000.5, 4_000_000_000_000_000])
def test_T20_T21_an_absurd_duration_is_kept_as_written(dur: float, native: bool) -> None:
    trace = loaded([event("a", 1, dur), event("b", 4, 2)], native)
    assert trace.spans.dur_ns.tolist() == [int(dur * 1000), 2000]
    assert codes(trace) == set()


def test_T25_T26_T27_crossing_spans_are_kept_to_the_nanosecond(native: bool) -> None:
    trace = loaded([event("parent", 1, 10), event("child", 5, 6.001), event("crossing", 0.5, 1)], native)
    ends = (trace.spans.ts_ns + trace.spans.dur_ns - 10**18).tolist()
    assert ends == [11_000, 11_001, 1_500]


def test_T40_a_trace_without_device_rows_has_an_empty_table(native: bool) -> None:
    trace = loaded([event("aten::mm", 1, 2, cat="cpu_op", args={"External id": 1})], native)
    assert len(trace.gpu.row) == 0
    assert trace.ops.row.tolist() == [0]


def test_T44_memory_for_text_does_not_grow_with_the_file(
    native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stepscope.trace import load as module

    sizes: list[int] = []
    make = module._parser

    def watched(*given: Any) -> Any:
        parser, is_native = make(*given)
        feed = parser.feed

        class Watched:
            state, finish = parser.state, parser.finish

            def feed(self, text: memoryview, is_final: bool, is_forced: bool) -> int:
                sizes.append(len(text))
                return int(feed(text, is_final, is_forced))

        return Watched(), is_native

    monkeypatch.setattr(module, "_parser", watched)
    text = json.dumps({"traceEvents": [event(f"n{i % 7}", i, 1) for i in range(20_000)]}).encode()
    trace = load_bytes(text, "t.json", native=native, limits=Limits(chunk=16 << 10))
    assert trace.num_events == 20_000
    assert max(sizes) <= 4 * (16 << 10) < len(text) / 10


@pytest.mark.parametrize("absurd", [-1, 1 << 31, 10**30, True, "3", 1.0, None])
def test_what_is_no_number_of_a_rank_is_none(absurd: object, native: bool) -> None:
    of = {"rank": absurd, "world_size": absurd}
    assert rank_of(loaded([event("a", 1, 2)], native, distributedInfo=of))[:2] == (None, None)
    assert rank_of(loaded([event("a", 1, 2)], native, **of))[:2] == (None, None)


def test_a_rank_beyond_the_world_is_told(native: bool) -> None:
    trace = loaded([event("a", 1, 2)], native, distributedInfo={"rank": 5, "world_size": 2})
    assert rank_of(trace) == (5, 2, "distributedInfo says rank 5, the world has 2 ranks")
