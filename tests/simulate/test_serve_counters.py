"""The counters of a live job are those of the same job simulated at once, however its time is cut."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.simulate import Cluster, Config, Recording, parse, recorded
from stepscope.simulate.counter.meter import BIN_NS, MOST_KINDS, Meter
from stepscope.simulate.meeting import Meetings
from stepscope.simulate.model import Kernel
from stepscope.sources.formats.exposition import read_exposition
from stepscope.sources.telemetry import telemetry_of
from tests.simulate.conftest import scraped
from tests.simulate.live import CLOCKS, SHAPE, START_NS, Job

EXACT = (
    "DEV_GPU_UTIL", "DEV_MEM_COPY_UTIL", "DEV_FB_USED", "DEV_CLOCK_THROTTLE_REASONS", "DEV_MEM_CLOCK",
    "DEV_NVLINK_BANDWIDTH_TOTAL", "PROF_PCIE_RX_BYTES", "PROF_PCIE_TX_BYTES", "PROF_DRAM_ACTIVE",
    "PROF_GR_ENGINE_ACTIVE", "PROF_NVLINK_TX_BYTES", "DEV_THERMAL_VIOLATION",
)  # fmt: skip
"""By definition alone. The rest has noise of its own: clocks that hunt, power, what is per cycle."""
NOISY = {"PROF_SM_ACTIVE": 0.02, "PROF_PIPE_TENSOR_ACTIVE": 0.02, "DEV_POWER_USAGE": 0.03}
FAULTS = ("loader-stall#1:severe@20:40", "thermal-throttle#0:severe@20:40")


def test_a_live_job_has_the_counters_of_the_same_job_simulated_at_once(tmp_path: Path) -> None:
    telemetry = Recording(counters="full", lost=0.0)
    config = Config(**SHAPE, steps=50, faults=tuple(map(parse, FAULTS)), telemetry=telemetry)
    cluster = Cluster(config)
    files = dict(recorded(cluster))
    at_once = scraped(files["telemetry/node0.dcgm.prom"])
    job = Job(tmp_path / "run", *FAULTS)
    last = cluster.step_end_ns[0][-1] - 1_000_000_000
    times = [at for at in at_once.at_ns if START_NS + 1_500_000_000 < at < last]
    assert len(times) >= 15
    for at in times:
        found = job.scrape((at - START_NS) / 1e9)
        for place in job.service.places:
            of = {name: dict(rows)[at] for (name, gpu), rows in at_once.of.items() if gpu == str(place.index)}
            for name in EXACT:
                wanted = of[f"DCGM_FI_{name}"]
                assert found[name][place.rank] == pytest.approx(wanted, rel=1e-4, abs=1e-9), (name, at)
            for name, most in NOISY.items():
                assert found[name][place.rank] == pytest.approx(of[f"DCGM_FI_{name}"], rel=most), (name, at)
    for rank, player in enumerate(job.service.live.players):
        ends = player.step_end_ns
        assert ends == cluster.step_end_ns[rank][player.first_kept : player.first_kept + len(ends)]
    reads = scraped(files["telemetry/node0.node.prom"], "device")
    first, last = (at for at in (reads.at_ns[12], reads.at_ns[-8]))
    rate = {}
    for at in (first, last):
        rate[at] = dict(reads.of["node_network_receive_bytes_total", "eth0"])[at]
    live = Job(tmp_path / "again", *FAULTS)
    seen = []
    for at in (first, last):
        live.until((at - START_NS) / 1e9)
        seen.append(live.host("node_network_receive_bytes_total", 'device="eth0"'))
    assert seen[1] - seen[0] == pytest.approx(rate[last] - rate[first], rel=0.02)


def test_what_is_scraped_does_not_depend_on_how_often_time_is_turned(tmp_path: Path) -> None:
    fast, slow = Job(tmp_path / "fast", "page-cache-miss"), Job(tmp_path / "slow", "page-cache-miss")
    fast.until(9.0, every=0.013)
    for second in (-3, 0, 1.37, 6.6):
        slow.until(second, every=2.5)
        slow.service.devices(0), slow.service.host(0)
    slow.until(9.0, every=4.0)
    assert fast.service.devices(0) == slow.service.devices(0)
    one, other = fast.service.host(0), slow.service.host(0)
    assert [line.split()[0] for line in one.splitlines()] == [line.split()[0] for line in other.splitlines()]
    name = "node_vmstat_pgmajfault"
    assert fast.host(name) == pytest.approx(slow.host(name), rel=1e-9)
    assert [bytes(each) for each in fast.records(1)] == [bytes(each) for each in slow.records(1)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 90)), min_size=1, max_size=25),
    st.lists(st.integers(1, 12), max_size=8),
)
def test_a_meter_that_is_read_while_it_runs_has_what_one_read_at_the_end_has(
    kernels: list[tuple[int, int]], cuts: list[int]
) -> None:
    gpu = Config(**SHAPE).device
    kernel = Kernel("k", 10.0, sm_active=0.5, occupancy=0.25, num_bytes=1e6, launch="")
    whole, cut = Meter(gpu, 0, Meetings()), Meter(gpu, 0, Meetings())
    times, at = [], START_NS
    for gap, length in kernels:
        at += gap * 1_000_000
        times.append((at, at + length * 1_000_000))
        at += length * 1_000_000
    for start, end in times:
        whole.kernel(start, end, kernel)
    wanted = whole.activity()
    edge, todo, parts = START_NS, list(times), []
    for bins in [*cuts, -(-(at - START_NS) // BIN_NS) + 1]:
        edge += bins * BIN_NS
        while todo and todo[0][0] < edge:
            cut.kernel(*todo.pop(0), kernel)
        parts.append(cut.taken(edge))
    for name in ("busy", "sm_active", "dram_bytes"):
        joined = np.concatenate([part.of[name] for part in parts])
        assert joined[: len(wanted)] == pytest.approx(wanted.of[name], abs=1e-6)
        assert joined[len(wanted) :] == pytest.approx(0.0, abs=1e-6)


def test_the_exporter_has_the_habits_of_the_real_one(tmp_path: Path) -> None:
    job = Job(tmp_path / "run", recording={"collect_ms": 3000, "counters": "default"})
    assert job.service.devices(0) == ""  # nothing was collected yet
    seen: list[str] = []
    for tenth in range(-49, 120):
        job.until(tenth / 10)
        seen.append(job.service.devices(0))
    bodies = [body for at, body in enumerate(seen) if body and body != seen[at - 1]]
    assert len(bodies) == 5  # one in three seconds, and the same between them
    assert "PROF_" not in bodies[0]  # the first sample is blank
    assert "PROF_GR_ENGINE_ACTIVE" in bodies[1]
    assert "scraped_at" not in bodies[-1]  # and there are no timestamps
    lines = [line for line in bodies[-1].splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Z_0-9a-z]+\{[^}]*\} [0-9.]+", line) for line in lines)
    metrics = read_exposition(bodies[-1], given_ns=CLOCKS.real_ns).metrics
    (part,) = telemetry_of(metrics, name="x", time="given")
    assert part.format == "dcgm-exporter"
    job.service.event("exporter-restart")
    job.until(job.seconds + 1)
    assert job.service.devices(0) == ""
    job.until(job.seconds + 3)
    assert "DEV_GPU_UTIL" in job.service.devices(0)
    assert "PROF_" not in job.service.devices(0)
    job.service.event("vanish#1")
    job.until(job.seconds + 4)
    assert list(job.scrape()["DEV_GPU_UTIL"]) == [0]


def test_a_job_that_goes_on_for_long_keeps_no_more_than_a_short_one(tmp_path: Path) -> None:
    """Two hundred steps and eight hundred: what is kept of them is as much."""
    job = Job(tmp_path / "run", "page-cache-miss:20", layers=1, step_ms=20.0, buckets=2)
    sizes = []
    for seconds in (4.0, 16.0):
        job.until(seconds, every=1.0)
        service = job.service
        player = service.live.players[1]
        sizes.append(
            {
                "meetings": len(service.live.meetings.by_key),
                "plans": len(player.plans),
                "happenings": len(player.happenings),
                "records": len(service.ranks[1]._due),
                "lines": len(service.logs._due),
                "bins": player.meter._grid.shape[1],
                "series": len(service.nodes[0]._series[0]["busy"]),
            }
        )
    assert service.live.step > 600
    assert len(player.meter._rows) <= MOST_KINDS
    for name, size in sizes[1].items():
        assert size <= max(1.5 * sizes[0][name], sizes[0][name] + 20), (name, sizes)
