"""What a meter sums is what the rows of the same run say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.simulate import Cluster, Config, parse
from stepscope.simulate.config import START_NS
from stepscope.simulate.counter import meter as metering
from stepscope.simulate.counter.meter import BIN_NS, LEVELS, Activity, Meter, share_across
from stepscope.simulate.gpu import gpu_of
from stepscope.simulate.meeting import Meetings
from stepscope.simulate.model import Kernel
from stepscope.simulate.row import ROW_COPY, ROW_EXCHANGE, ROW_KERNEL, Row

F64 = np.ndarray[Any, Any]


def spread(intervals: list[tuple[int, int, float]], num: int) -> F64:
    """(start, end, total) spread evenly over bins, the slow way."""
    found = np.zeros(num)
    for start, end, total in intervals:
        for at in range((start - START_NS) // BIN_NS, (end - START_NS - 1) // BIN_NS + 1):
            left, right = START_NS + at * BIN_NS, START_NS + (at + 1) * BIN_NS
            found[at] += total * (min(end, right) - max(start, left)) / (end - start)
    return found


def union(rows: list[Row]) -> list[tuple[int, int, float]]:
    """Busy nanoseconds, as intervals without overlap."""
    found: list[tuple[int, int, float]] = []
    over = 0
    for start, end in sorted((row.start_ns, row.end_ns) for row in rows):
        begin = max(start, over)
        if end > begin:
            found.append((begin, end, float(end - begin)))
            over = end
    return found


def metered(config: Config) -> tuple[Cluster, list[tuple[list[Row], Activity]]]:
    cluster = Cluster(config, is_metered=True)
    return cluster, [(rows, cluster.activity[rank]) for rank, rows in cluster.each()]


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(
    seed=st.integers(0, 9),
    shape=st.sampled_from([(1, 1), (2, 1), (3, 1), (4, 2)]),
    fault=st.sampled_from(["gc", "loader-stall", "wrong-transport", "thermal-throttle", "host-sync"]),
    settle=st.sampled_from([7, 100, 20_000]),
)
def test_the_grid_agrees_with_the_rows_however_often_it_is_settled(
    seed: int, shape: tuple[int, int], fault: str, settle: int
) -> None:
    ranks, stages = shape
    names = (parse(fault),) if fault != "wrong-transport" or ranks > 1 else ()
    config = Config(
        seed=seed, ranks=ranks, pipeline_stages=stages, steps=3, layers=3, buckets=3, faults=names
    )
    before, metering.SETTLE_AT = metering.SETTLE_AT, settle
    try:
        _, found = metered(config)
    finally:
        metering.SETTLE_AT = before
    for rows, activity in found:
        num = len(activity)
        busy = [row for row in rows if row.kind in (ROW_KERNEL, ROW_EXCHANGE)]
        assert activity.of["busy"] * BIN_NS == pytest.approx(spread(union(busy), num), abs=20)
        kernels = [row for row in rows if row.kind == ROW_KERNEL]
        flops = spread([(r.start_ns, r.end_ns, r.what.tensor_flops) for r in kernels], num)
        assert activity.of["tensor_flops"] == pytest.approx(flops, rel=1e-9, abs=1e3)
        copies = [row for row in rows if row.kind == ROW_COPY]
        copied, back = (
            spread([(r.start_ns, r.end_ns, float(r.num_bytes)) for r in copies if way in r.what], num)
            for way in ("HtoD", "DtoH")
        )
        moved = sum(row.what[0].moved_bytes for row in rows if row.kind == ROW_EXCHANGE)
        sent = sum(
            row.what[0].moved_bytes
            for row in rows
            if row.kind == ROW_EXCHANGE and row.what[0].source in (None, _rank(rows, row))
        )
        if fault == "wrong-transport":
            assert activity.of["link_tx"].sum() == 0
            assert (activity.of["pcie_rx"] - copied).sum() <= moved * (1 + 1e-9)
            assert activity.of["pcie_tx"].sum() == pytest.approx(sent + back.sum(), rel=1e-9)
        else:
            assert activity.of["pcie_rx"] == pytest.approx(copied, rel=1e-9, abs=1e-3)
            assert activity.of["pcie_tx"] == pytest.approx(back, rel=1e-9, abs=1e-3)
            assert activity.of["link_tx"].sum() == pytest.approx(sent, rel=1e-9)


def _rank(rows: list[Row], row: Row) -> int | None:
    """The rank whose rows these are, where one of its transfers tells."""
    exchange = row.what[0]
    return exchange.source if exchange.kind == "send" else exchange.target


@settings(max_examples=6, deadline=None, database=None)
@given(seed=st.integers(0, 20), model=st.sampled_from(["transformer", "moe", "resnet"]))
def test_levels_stay_within_what_the_device_has(seed: int, model: str) -> None:
    _, found = metered(Config(seed=seed, ranks=2, steps=2, layers=2, model=model, tail=0.02))
    for _, activity in found:
        of = activity.of
        for name in LEVELS:
            assert of[name].min() >= 0
            assert of[name].max() <= 1 + 1e-9
        assert np.all(of["occupancy"] <= of["sm_active"] + 1e-9)
        assert np.all(of["sm_active"] <= of["busy"] + 1e-9)
        gpu = gpu_of("H100")
        assert (of["tensor_flops"] / (gpu.peak_flops * BIN_NS / 1e9)).max() < 0.63
        assert (of["dram_bytes"] / (gpu.memory_peak * BIN_NS / 1e9)).max() < 0.9


def test_two_kernels_and_a_gap_on_the_grid() -> None:
    meter = Meter(gpu_of("H100"), 0, Meetings())
    one = Kernel("one", 0, "", sm_active=0.5, occupancy=0.25, tensor_flops=6e9)
    meter.kernel(START_NS, START_NS + 10_000_000, one)
    meter.kernel(START_NS + 15_000_000, START_NS + 45_000_000, one)
    of = meter.activity().of
    assert of["busy"].tolist() == pytest.approx([0.75, 1.0, 0.25])
    assert of["sm_active"].tolist() == pytest.approx([0.375, 0.5, 0.125])
    assert of["tensor_flops"].tolist() == pytest.approx([7e9, 4e9, 1e9])


@pytest.mark.parametrize(
    ("members", "share"),
    [((0, 1), 0.0), ((7, 8), 1.0), (tuple(range(8)), 0.0), (tuple(range(16)), 2 / 16), ((0, 8, 16), 1.0)],
)
def test_of_a_ring_only_what_passes_a_hosts_edge_leaves_it(members: tuple[int, ...], share: float) -> None:
    assert share_across(members) == share


def test_a_kernels_grid_says_how_much_of_the_device_it_fills() -> None:
    rows = Cluster(Config(steps=1, layers=1)).rows(0)
    first = next(r.what for r in rows if r.kind == ROW_KERNEL and "nvjet" in r.what.name)
    assert '"grid": [3072, 1, 1], "block": [384, 1, 1]' in first.launch
    # 3072 tiles of twelve warps, one on each of 132 multiprocessors: 23 waves are full, 36 blocks are left.
    assert first.sm_active == pytest.approx(3072 / 132 / 24)
    assert first.occupancy == pytest.approx(3072 / 132 / 24 * 12 / 64)
    # 8192 rows of four warps, fifteen on each: four full waves, and the last of 272 blocks is on them all.
    norm = next(r.what for r in rows if r.kind == ROW_KERNEL and "vectorized_layer_norm" in r.what.name)
    assert '"grid": [8192, 1, 1], "block": [128, 1, 1]' in norm.launch
    assert norm.sm_active == 1.0
    assert norm.occupancy == pytest.approx(8192 / (132 * 15) / 5 * 15 * 4 / 64)
