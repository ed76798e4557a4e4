"""The picture of a step: what it shows is what the accounting counted, at a resolution that it states."""

from __future__ import annotations

from collections import defaultdict
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse import account
from stepscope.analyse.rank import analyse_rank
from stepscope.analyse.timeline import MOST_PIECES, Pieces, coarser, merged, single_pieces
from stepscope.model import report
from stepscope.model.interval import Intervals, intersect, subtract, union
from stepscope.trace.kernel_class import classify
from stepscope.trace.load import load_bytes
from tests.analyse.build import BASE_NS, Build
from tests.analyse.generate import generate

AT_NS = BASE_NS + 10_000_000
_spans = st.lists(st.tuples(st.integers(0, 5_000), st.integers(1, 400)), min_size=1, max_size=80)


def timeline_of(b: Build) -> report.Timeline:
    (analysis,) = analyse_rank(load_bytes(b.bytes(), "x.json"))
    timeline = analysis.devices[0].timeline
    assert timeline is not None
    return timeline


def rows(timeline: report.Timeline) -> list[tuple[object, ...]]:
    """A line a lane: whose, what, and (start, length, part that is no hole, how many, name) of its pieces."""
    return [
        (
            lane.kind,
            lane.stream if lane.kind == "stream" else lane.thread,
            lane.what,
            *zip(
                lane.start_ns,
                lane.dur_ns,
                lane.busy_ns,
                lane.count,
                [timeline.names[at] for at in lane.name] or [None] * len(lane.count),
                strict=True,
            ),
        )
        for lane in timeline.lanes
    ]


def test_the_longest_counted_step_is_drawn_with_streams_threads_and_idle_causes() -> None:
    b = Build()
    b.step(1, 0, 400).step(2, 400, 1400)
    b.op("aten::mm", 0, 90).kernel("sgemm", 100, 300, launched=(10, 20))
    b.note("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 400, 700)
    b.op("aten::linear", 700, 900)
    b.op("aten::mm", 720, 890)
    b.kernel("sgemm", 800, 1000, launched=(750, 760))
    b.kernel("ncclDevKernel_AllReduce_Sum", 900, 1100, launched=(780, 790), stream=20)
    timeline = timeline_of(b)
    assert (timeline.step, timeline.start_ns, timeline.dur_ns) == (2, AT_NS + 400_000, 1_000_000)
    assert timeline.resolution_ns == 1000
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert rows(timeline) == [
        ("stream", 7, "gemm", (400_000, 200_000, 200_000, 1, "sgemm")),
        ("stream", 20, "communication", (500_000, 200_000, 200_000, 1, "ncclDevKernel_AllReduce_Sum")),
        ("thread", "4242", "input", (0, 300_000, 300_000, 1, loader)),
        ("thread", "4242", "launch", (300_000, 200_000, 200_000, 1, "aten::mm")),
        ("idle", None, "input", (0, 300_000, 300_000, 1, None)),
        # cut at the launch that ends the gap
        ("idle", None, "launch", (300_000, 100_000, 100_000, 2, None)),
        ("idle", None, "python", (700_000, 300_000, 300_000, 1, None)),
    ]
    by_kind = {(lane.kind, lane.what): lane for lane in timeline.lanes}
    assert by_kind["idle", "input"].span == ()
    assert b.events[by_kind["stream", "gemm"].span[0]]["name"] == "sgemm"


def test_neighbours_of_one_class_become_one_piece_and_other_classes_stay_apart() -> None:
    b = Build()
    for n in range(10):
        b.kernel("sgemm", 10 * n, 10 * n + 4, launched=(10 * n - 2, 10 * n - 1))
        b.kernel("void at::native::vectorized_elementwise_kernel", 10 * n + 4, 10 * n + 9)
    b.kernel("sgemm", 20_000, 20_001)
    timeline = timeline_of(b)
    assert (timeline.step, timeline.dur_ns, timeline.resolution_ns) == (None, 20_001_000, 20_001)
    lanes = {lane.what: lane for lane in timeline.lanes if lane.kind == "stream"}
    assert (lanes["gemm"].start_ns, lanes["gemm"].dur_ns) == ((0, 20_000_000), (94_000, 1_000))
    assert (lanes["gemm"].busy_ns, lanes["gemm"].count) == ((40_000, 1_000), (10, 1))
    assert (lanes["elementwise"].start_ns, lanes["elementwise"].busy_ns) == ((4_000,), (50_000,))


def test_names_that_would_fill_the_report_are_left_out() -> None:
    b = Build().step(1, 0, 1000)
    b.kernel("g" * 20_000, 0, 500, launched=(0, 1)).kernel("h" * 20_000, 600, 700, launched=(2, 3))
    b.kernel("short", 800, 810, launched=(4, 5))
    timeline = timeline_of(b)
    assert set(timeline.names) == {"g" * 20_000, "short", "cudaLaunchKernel", "…"}
    shown = {timeline.names[at] for lane in timeline.lanes for at in lane.name}
    assert "…" in shown


def true_pieces(spans: list[tuple[int, int]]) -> tuple[Pieces, Intervals]:
    start = np.array([begin for begin, _ in spans], dtype=np.int64)
    end = start + np.array([length for _, length in spans], dtype=np.int64)
    return single_pieces(start, end, np.arange(len(spans))), union(start, end)


@given(_spans, st.integers(1, 600))
def test_merging_fills_only_holes_below_the_resolution_and_keeps_the_true_time(
    spans: list[tuple[int, int]], resolution: int
) -> None:
    pieces, true = true_pieces(spans)
    found = merged(merged(pieces, 1), resolution)
    shown = Intervals(found.start, found.end)
    assert int(found.count.sum()) == len(spans)
    assert int(found.busy.sum()) == true.total_ns
    assert subtract(true, shown).total_ns == 0
    added = subtract(shown, true)
    assert not len(added) or int((added.end - added.start).max()) < resolution
    assert (found.start[1:] - found.end[:-1] >= resolution).all()
    for begin, end, busy in zip(found.start, found.end, found.busy, strict=True):
        inside = intersect(true, Intervals(np.array([begin]), np.array([end])))
        assert inside.total_ns == busy
    # The longest event of each piece lends it its name.
    assert [spans[at][1] for at in found.row.tolist()] == found.longest.tolist()


@given(_spans, st.integers(1, 200), st.integers(0, 3))
def test_merging_again_is_merging_once(spans: list[tuple[int, int]], fine: int, doublings: int) -> None:
    pieces, _ = true_pieces(spans)
    coarse = fine << doublings
    once, twice = merged(pieces, coarse), merged(merged(pieces, fine), coarse)
    for column in ("start", "end", "busy", "count", "longest"):
        assert getattr(once, column).tolist() == getattr(twice, column).tolist(), column


def expected_idle(device: object, timeline: report.Timeline) -> dict[str, int]:
    row = device.accounting  # type: ignore[attr-defined]
    if timeline.step is None:
        parts = {cause: getattr(row.idle, f"{cause}_ns") for cause in report.IDLE_CAUSES}
    else:
        of_step = device.by_step[timeline.step]  # type: ignore[attr-defined]
        parts = {cause: of_step[f"idle.{cause}_ns"] for cause in report.IDLE_CAUSES}
    return {cause: ns for cause, ns in parts.items() if ns}


def check(seed: int) -> None:
    """The idle lanes are the accounting's causes to the nanosecond; a class of a stream its activities."""
    generated = generate(seed)
    for analysis in analyse_rank(load_bytes(generated.bytes(), f"seed-{seed}.json")):
        for device in analysis.devices:
            timeline = device.timeline
            if timeline is None:
                assert device.accounting.total_ns == 0
                continue
            idle = {lane.what: sum(lane.busy_ns) for lane in timeline.lanes if lane.kind == "idle"}
            assert idle == expected_idle(device, timeline), seed
            assert sum(len(lane.start_ns) for lane in timeline.lanes) <= MOST_PIECES
            device_index = device.accounting.device.index
            streams = {
                (lane.stream, lane.what): sum(lane.busy_ns)
                for lane in timeline.lanes
                if lane.kind == "stream"
            }
            assert streams == true_streams(generated.events, device_index, timeline), seed
            for step in device.accounting.by_step:
                assert step.total_ns == device.by_step[step.step]["total_ns"]


def true_streams(
    events: list[dict[str, Any]], device: int | None, timeline: report.Timeline
) -> dict[tuple[int, str], int]:
    """Time in which each stream of a device runs work of each class, inside the window, event by event."""
    found: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset") and event["args"]["device"] == device:
            cls = {"gpu_memcpy": "copy", "gpu_memset": "set"}.get(event["cat"]) or classify(event["name"])[0]
            begin = round(Decimal(str(event["ts"])) * 1000) + BASE_NS - timeline.start_ns
            end = begin + round(Decimal(str(event["dur"])) * 1000)
            begin, end = max(begin, 0), min(end, timeline.dur_ns)
            if begin < end:
                found[event["args"]["stream"], cls].append((begin, end))
    return {
        key: union(*(np.array(column, dtype=np.int64) for column in zip(*pieces, strict=True))).total_ns
        for key, pieces in found.items()
    }


@pytest.mark.parametrize("chunk", range(3))
def test_idle_lanes_are_the_accounting_of_that_step(chunk: int) -> None:
    for seed in range(chunk * 60, (chunk + 1) * 60):
        check(seed)


@given(st.integers(min_value=10_000, max_value=2**32))
@settings(max_examples=20, deadline=None)
def test_idle_lanes_are_the_accounting_of_that_step_on_other_seeds(seed: int) -> None:
    check(seed)


def test_a_coarser_timeline_holds_the_same_time_in_fewer_pieces() -> None:
    b = Build().step(1, 0, 100_000)
    for n in range(200):
        b.kernel("sgemm", 500 * n, 500 * n + 90, launched=(500 * n, 500 * n + 1))
    fine = timeline_of(b)
    coarse = coarser(fine, 100)
    assert sum(len(lane.start_ns) for lane in fine.lanes) > 100
    assert sum(len(lane.start_ns) for lane in coarse.lanes) <= 100
    assert coarse.resolution_ns > fine.resolution_ns
    held: dict[int, dict[tuple[str, str], int]] = defaultdict(dict)
    for which, timeline in enumerate((fine, coarse)):
        for lane in timeline.lanes:
            held[which][lane.kind, lane.what] = sum(lane.busy_ns)
            assert len(lane.name) in (0, len(lane.start_ns))
    assert held[0] == held[1]


def test_of_many_steps_the_slowest_and_evenly_spaced_ones_are_told() -> None:
    total = np.full(1000, 10, dtype=np.int64)
    total[[17, 500, 999]] = 99
    told = account.told_steps(total, 200).tolist()
    assert len(told) == 200
    assert {17, 500, 999} <= set(told)
    assert told == sorted(told)
    assert max(np.diff([*told, 1000])) < 30
    assert account.told_steps(total[:200], 200).tolist() == list(range(200))


def test_a_row_tells_its_steps_and_how_many_it_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    b = Build()
    for n in range(6):
        b.step(n, 100 * n, 100 * n + 100)
        b.kernel("sgemm", 100 * n + 20, 100 * n + 60 + 5 * n, launched=(100 * n, 100 * n + 1))
    (whole,) = analyse_rank(load_bytes(b.bytes(), "x.json"))
    row = whole.accounting[0]
    assert [step.step for step in row.by_step] == list(range(6))
    assert row.steps_left_out is None
    assert sum(step.total_ns for step in row.by_step) == row.total_ns
    assert sum(step.idle.launch_ns for step in row.by_step) == row.idle.launch_ns
    assert whole.accounting[1].by_step == ()
    monkeypatch.setattr(account, "MOST_STEPS", 4)
    (thin,) = analyse_rank(load_bytes(b.bytes(), "x.json"))
    assert (len(thin.accounting[0].by_step), thin.accounting[0].steps_left_out) == (4, 2)


def test_a_hole_of_just_the_resolution_stays() -> None:
    pieces, _ = true_pieces([(0, 10), (15, 5), (30, 4)])
    assert merged(pieces, 5).start.tolist() == [0, 15, 30]
    one = merged(pieces, 6)
    assert (one.start.tolist(), one.end.tolist()) == ([0, 30], [20, 34])
    assert (one.busy.tolist(), one.count.tolist(), one.row.tolist()) == ([15, 4], [2, 1], [0, 2])
