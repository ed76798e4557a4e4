"""Ranks in one Perfetto file lie on one clock; what could not be aligned keeps its own, and says so."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model import report
from stepscope.trace.load import load
from stepscope.views.perfetto.clock import Clock, clock_note
from tests.analyse.build import Build
from tests.job.made import collective, ranks, write
from tests.views.perfetto.engine import Engine
from tests.views.perfetto.test_written import complaints, written

CALLS = """
    select s.ts, s.dur, s.name, p.name from slice s
    join thread_track t on s.track_id = t.id join thread using (utid) join process p using (upid)
    where s.name glob '*nccl*Kernel*'
    union all
    select s.ts, s.dur, s.name, p.name from slice s
    join process_track t on s.track_id = t.id join process p using (upid)
    where s.name glob '*nccl*Kernel*'
    order by 1
"""


def ends_by_process(path: Path) -> dict[str, list[int]]:
    """The ends of collectives of each process in the written file, in order."""
    found: dict[str, list[int]] = defaultdict(list)
    with Engine(path) as engine:
        assert complaints(engine) == []
        for start, length, _, process in engine.query(CALLS):
            found[process].append(start + length)
    return dict(found)


def two(shift_us: int, ppm: float = 0.0, number: int = 40) -> list[Build]:
    """Two ranks of collectives that end together, the second with a clock that is ahead and drifts."""
    a, b = ranks(2)
    for n in range(number):
        at = 20_000 * n
        for each, start, is_moved in ((a, 500, False), (b, 800, True)):

            def own(time: float, is_moved: bool = is_moved) -> float:
                return round(time * (1 + ppm / 1e6) + shift_us, 3) if is_moved else time

            each.kernel(
                "gemm", own(at), own(at + start - 10), launched=(own(at - 20) + 100, own(at - 15) + 100)
            )
            collective(each, own(at + start), own(at + 1000), launched=(own(at + start - 5), own(at + start)))
    return [a, b]


def test_an_offset_of_one_rank_is_gone_in_the_file(tmp_path: Path) -> None:
    """4 ms between the clocks in the traces, less than 10 µs in the file."""
    folder = write(tmp_path / "job", two(4000))
    done, _ = written([folder], tmp_path / "out")
    assert done.report.clocks is not None
    offsets = [row.offset_ns for row in done.report.clocks.ranks]
    assert max(offsets) - min(offsets) == pytest.approx(4_000_000, abs=1000)
    first, second = (np.array(ends) for ends in ends_by_process(tmp_path / "out").values())
    assert len(first) == 40
    assert np.abs(first - second).max() < 10_000


def test_a_drift_is_taken_out_too(tmp_path: Path) -> None:
    """100 ppm over 0.8 s are 80 µs; with the offset alone half of that would be left."""
    folder = write(tmp_path / "job", two(2500, ppm=100.0))
    done, _ = written([folder], tmp_path / "out")
    assert done.report.clocks is not None
    assert any(row.drift_ppm is not None for row in done.report.clocks.ranks)
    first, second = (np.array(ends) for ends in ends_by_process(tmp_path / "out").values())
    assert np.abs(first - second).max() < 10_000


def test_a_rank_that_shares_no_collective_keeps_its_times_and_says_so(tmp_path: Path) -> None:
    a, b, c = ranks(3)
    for n in range(4):
        at = 20_000 * n
        collective(a, at + 500, at + 1000)
        collective(b, at + 3800, at + 4000)
    c.kernel("gemm", 700, 900, launched=(600, 610))
    collective(c, 1200, 1500, "ncclDevKernel_Broadcast_RING_LL")
    folder = write(tmp_path / "job", [a, b, c])
    written([folder], tmp_path / "out")
    with Engine(tmp_path / "out") as engine:
        names = {
            name for (name,) in engine.query("select distinct name from process where name glob 'rank*'")
        }
        gemm = engine.query("select ts, dur from slice where name = 'gemm'")
    assert {name for name in names if "not aligned" in name} == {
        name for name in names if name.startswith("rank 2")
    }
    assert all("rank 2, clock not aligned: " in name for name in names if name.startswith("rank 2"))
    recorded = load(str(folder / "rank2.json"))
    row = recorded.names.index("gemm") == recorded.spans.name_id
    assert gemm == [(int(recorded.spans.ts_ns[row][0]), 200_000)]


def test_steps_and_onsets_of_the_report_move_with_their_rank(tmp_path: Path) -> None:
    made = two(4000)
    for each, shift in zip(made, (0, 4000), strict=True):
        for n in range(3):
            each.step(n + 1, 20_000 * n + shift - 100, 20_000 * (n + 1) + shift - 100)
    written([write(tmp_path / "job", made)], tmp_path / "out")
    with Engine(tmp_path / "out") as engine:
        rows = engine.query("select name, ts from slice where category = 'stepscope.step' order by name, ts")
    starts: dict[str, list[int]] = defaultdict(list)
    for name, start in rows:
        starts[name.partition(":")[0]].append(start)
    assert [max(each) - min(each) < 10_000 for each in starts.values()] == [True] * 3


def test_real_ranks_leave_their_collectives_together(shared_data: Path, tmp_path: Path) -> None:
    """Eight ranks, one of them with 3 ms put on its clock: in the file, ends agree within 10 µs."""
    folder = tmp_path / "job"
    shutil.copytree(shared_data / "traces/param/dlrm_kineto", folder)
    (path,) = folder.glob("worker4_*")
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        whole = json.load(file)
    for event in whole["traceEvents"]:
        if "ts" in event:
            event["ts"] = float(event["ts"]) + 3000
    path.chmod(0o644)
    with opened(path, "wt") as file:
        json.dump(whole, file)
    written([folder], tmp_path / "out")
    ends = ends_by_process(tmp_path / "out")
    assert len(ends) == 8
    table = np.array(list(ends.values()))
    assert table.shape == (8, 8)
    assert np.ptp(table, axis=0).max() < 10_000


@given(
    offset=st.integers(-(10**12), 10**12),
    ppm=st.floats(-200, 200),
    times=st.lists(st.integers(0, 2**61), min_size=2, max_size=20),
)
def test_a_clock_keeps_the_order_of_times(offset: int, ppm: float, times: list[int]) -> None:
    clock = Clock(offset, ppm / 1e6, times[0])
    moved = clock.at(np.array(sorted(times), dtype=np.int64))
    assert (np.diff(moved) >= 0).all()


def test_without_drift_a_clock_only_shifts_and_leaves_what_is_no_time() -> None:
    clock = Clock(offset_ns=250, drift=0.0, pivot_ns=0)
    times = np.array([1000, -(2**63), 2**63 - 1], dtype=np.int64)
    assert clock.at(times).tolist() == [750, -(2**63), 2**63 - 1]


def test_traces_that_count_from_their_own_beginning_lose_nothing(tmp_path: Path) -> None:
    a, b = (Build(rank=rank, world_size=2, base_ns=0) for rank in range(2))
    for n in range(3):
        collective(a, 3_000_000 + 20_000 * n, 3_001_000 + 20_000 * n)
        collective(b, 10_000 + 20_000 * n, 11_000 + 20_000 * n)
    a.kernel("early", 10, 20, launched=(1, 2))
    folder = write(tmp_path / "job", [a, b])
    _, counts = written([folder], tmp_path / "out")
    assert counts.left_out == 0


def test_sets_of_ranks_without_a_common_clock_say_with_whom_they_are_aligned() -> None:
    rows = tuple(
        report.RankClock(rank=rank, method="collectives", component=rank // 2, offset_ns=0)
        for rank in range(4)
    )
    clocks = report.Clocks(reference_rank=0, ranks=rows)
    assert [clock_note(clocks, rank, "en") for rank in range(4)] == [
        *[""] * 2,
        *["clock aligned with ranks 2-3 only"] * 2,
    ]
    assert clock_note(clocks, 9, "zh") == "时钟未对齐"
    assert clock_note(None, 0, "en") == ""
