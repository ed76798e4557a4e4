"""Device counters: the exporter's habits, and the laws that its numbers keep."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stepscope.simulate import Cluster, Config, Recording, parse
from stepscope.simulate.counter.dcgm import FIELDS
from stepscope.simulate.counter.device import State, state_of
from stepscope.simulate.counter.meter import BIN_NS
from stepscope.simulate.counter.scrape import Collected
from tests.simulate.conftest import Run, record, scraped

S = 1_000_000_000


def state(run: Run, rank: int = 0) -> State:
    return state_of(run.timeline, rank)


def test_a_body_has_no_timestamps_and_says_once_a_scrape_when_it_was() -> None:
    run = record()
    text = run.files["telemetry/node0.dcgm.prom"]
    found = scraped(text)
    assert len(found.at_ns) == len(set(found.at_ns)) == text.count("# scraped_at_ns ") > 20
    assert all(0.99 < gap / S < 1.01 for gap in np.diff(found.at_ns))
    sample = re.compile(r"DCGM_FI_(DEV|PROF)_[A-Z0-9_]+\{[^}]+\} [0-9.]+")
    assert all(sample.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    place = run.places[0]
    assert (
        f'DCGM_FI_DEV_GPU_UTIL{{gpu="{place.index}",UUID="{place.uuid}",pci_bus_id="{place.pci_bus_id}",'
        f'device="nvidia{place.index}",modelName="NVIDIA H100 80GB HBM3",Hostname="{place.host}",'
        'DCGM_FI_DRIVER_VERSION="570.124.06"} '
    ) in text


def test_utilisation_clocks_and_memory_are_whole_numbers_and_ratios_are_not() -> None:
    text = record("loader-stall").files["telemetry/node0.dcgm.prom"]
    for name, unit in (("GPU_UTIL", 100), ("MEM_COPY_UTIL", 100), ("SM_CLOCK", 1980), ("FB_USED", 82_000)):
        shown = re.findall(rf"^DCGM_FI_DEV_{name}\{{[^}}]+\}} (\S+)$", text, re.M)
        assert all(value.isdigit() and int(value) <= unit for value in shown)
    ratios = re.findall(r"^DCGM_FI_PROF_SM_ACTIVE\{[^}]+\} (\S+)$", text, re.M)
    assert all(re.fullmatch(r"[01]\.\d{6}", value) for value in ratios)
    assert len(set(ratios)) > 20


def test_the_list_that_the_exporter_comes_with_lacks_what_a_diagnosis_needs() -> None:
    text = record(recording=(("counters", "default"),)).files["telemetry/node0.dcgm.prom"]
    names = set(re.findall(r"^(DCGM_FI_\w+)\{", text, re.M))
    assert {"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"} < names
    for name in ("PROF_SM_ACTIVE", "PROF_SM_OCCUPANCY", "PROF_NVLINK_TX_BYTES", "DEV_CLOCK_THROTTLE_REASONS"):
        assert f"DCGM_FI_{name}" not in names
    assert "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL" in names
    # A model without links has no fields of theirs.
    other = record(gpu="L4", step_ms=None, layers=1, steps=2).files["telemetry/node0.dcgm.prom"]
    assert "NVLINK" not in other


def test_names_of_a_later_release_and_its_labels() -> None:
    text = record(recording=(("names", "4.6"),)).files["telemetry/node0.dcgm.prom"]
    assert "DCGM_FI_DEV_GPU_UTIL_RATIO{" in text
    assert "DCGM_FI_PROF_SM_UTIL_RATIO{" in text
    assert "DCGM_FI_DEV_GPU_UTIL{" not in text
    assert 'hostname="' in text
    assert "DCGM_FI_SYSTEM_DRIVER_VERSION=" in text
    assert "Hostname=" not in text


def test_a_slow_exporter_is_scraped_several_times_with_one_value() -> None:
    run = record(recording=(("collect_ms", 4000),))
    values = run.dcgm().values("DCGM_FI_DEV_POWER_USAGE", run.device(0))
    lengths = np.diff(np.flatnonzero(np.diff(values)))
    assert set(lengths.tolist()) <= {3, 4, 5}
    assert np.median(lengths) == 4


def test_the_first_sample_of_a_profiling_field_is_not_there() -> None:
    run = record(recording=(("collect_ms", 4000),))
    found = run.dcgm()
    first = {name[8:]: series[0][0] for (name, gpu), series in found.of.items() if gpu == run.device(0)}
    assert first["DEV_POWER_USAGE"] == found.at_ns[0]
    assert first["PROF_SM_ACTIVE"] - first["DEV_POWER_USAGE"] == pytest.approx(4 * S, abs=1.1 * S)


def test_what_is_scraped_is_older_than_the_scrape_by_a_lag_within_the_interval() -> None:
    run = record(recording=(("collect_ms", 3000), ("skew_ms", 250.0)))
    at = Collected.of(run.timeline, 0, run.cluster.config.telemetry or Recording())
    lags = [at.lag_ns(ns - 250_000_000) for ns in run.dcgm().at_ns]
    assert all(lag is not None and 0.03 * S < lag < 3.05 * S for lag in lags)
    assert len({round((lag or 0) / S) for lag in lags}) == 3


def test_scrapes_are_lost_at_the_rate_that_was_asked_for() -> None:
    run = record(recording=(("lost", 0.3), ("scrape_ms", 100)), steps=100)
    at = np.array(run.dcgm().at_ns)
    due = (at[-1] - at[0]) / 1e8 + 1
    assert 1 - len(at) / due == pytest.approx(0.3, abs=0.07)


def test_busy_is_what_the_trace_says_within_a_percent_and_a_window() -> None:
    run = record("loader-stall:0.4", steps=60)
    at = Collected.of(run.timeline, 0, run.cluster.config.telemetry or Recording())
    found = run.dcgm()
    activity = run.cluster.activity[0]
    whole = np.concatenate(([0.0], np.cumsum(activity.of["busy"])))
    checked = 0
    for scraped_ns, value in found.of["DCGM_FI_DEV_GPU_UTIL", run.device(0)]:
        lag = at.lag_ns(scraped_ns)
        assert lag is not None
        end = scraped_ns - lag - activity.start_ns
        if S <= end <= len(activity) * BIN_NS:
            edges = np.arange(len(whole)) * BIN_NS
            busy = (np.interp(end, edges, whole) - np.interp(end - S, edges, whole)) * BIN_NS / S
            assert value <= 100 * busy + 1e-6 < value + 1.0001
            checked += 1
    assert checked > 20


def test_bytes_over_links_are_those_that_were_exchanged() -> None:
    run = record(buckets=3)
    moved = sum(meeting.exchange.moved_bytes for meeting in run.cluster.meetings.by_key.values())
    states = state(run)
    assert (states.of["link_tx"].sum() * BIN_NS / 1e9) == pytest.approx(moved, rel=1e-6)
    ends = run.cluster.step_end_ns[0]
    seconds = (ends[-1] - run.cluster.activity[0].start_ns) / 1e9
    assert run.mean("PROF_NVLINK_TX_BYTES", 0) == pytest.approx(moved / seconds, rel=0.05)
    # MB/s of 1.024e6 bytes, both directions, whatever its kind says.
    total = run.mean("DEV_NVLINK_BANDWIDTH_TOTAL", 0) * 1_024_000
    assert total == pytest.approx(2 * moved / seconds, rel=0.05)


def test_energy_is_the_integral_of_power() -> None:
    of = state(record("checkpoint")).of
    joules = np.diff(of["energy_total"])
    assert joules == pytest.approx(of["power"][1:] * BIN_NS / 1e9, abs=1e-5)
    run = record("checkpoint")
    found = run.dcgm()
    energy = found.of["DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", run.device(0)]
    power = found.values("DCGM_FI_DEV_POWER_USAGE", run.device(0))
    seconds = (energy[-1][0] - energy[0][0]) / S
    assert (energy[-1][1] - energy[0][1]) / 1000 / seconds == pytest.approx(power[1:].mean(), rel=0.03)


@pytest.mark.parametrize(
    "fault",
    ["loader-stall", "thermal-throttle#0", "foreign-process#0", "unfused", "no-tensor-core:1", "hang#0"],
)
def test_ratios_keep_their_order(fault: str) -> None:
    run = record(fault)
    for rank in (0, 1):
        of = state(run, rank).of
        for name in ("busy", "sm_active", "occupancy", "tensor", "dram", "fp32", "integer"):
            assert of[name].min() >= 0
            assert of[name].max() <= 1 + 1e-9
        assert np.all(of["occupancy"] <= of["sm_active"] + 1e-9)
        assert np.all(of["sm_active"] <= of["busy"] + 1e-9)
        assert of["power"].max() <= run.cluster.config.device.tdp_watts * 1.02
        assert np.all(of["used_bytes"] <= run.cluster.config.device.memory_bytes)


def test_power_tells_products_from_streams_and_from_waiting() -> None:
    """As public measurements of such boards do: 85–95 %, 50–65 % and 20–28 % of 700 W."""
    power: dict[str, float] = {}
    for fault in ("gc:1", "unfused:60", "hang#0:20"):
        run = record(fault, steps=20)
        of = state(run, 1).of
        at = run.timeline.middle_ns
        is_waiting = (at > run.timeline.end_ns) & (at < run.timeline.stop_ns - S)
        which = {"g": of["tensor"] > 0.55, "u": of["dram"] > 0.8, "h": is_waiting}[fault[0]]
        power[fault] = float(of["power"][which].mean())
    assert 0.80 < power["gc:1"] / 700 < 0.95
    assert 0.50 < power["unfused:60"] / 700 < 0.68
    assert 0.20 < power["hang#0:20"] / 700 < 0.28


def test_a_chip_warms_behind_its_power() -> None:
    of = state(record(steps=100)).of
    begun = int(np.flatnonzero(of["busy"] > 0.9)[0])
    rise = of["temperature"][begun:] - of["temperature"][begun]
    second = int(S // BIN_NS)
    assert rise[second] < 4 < 8 < rise[10 * second] < rise[25 * second] < 45


def test_devices_are_not_in_the_order_of_ranks_and_pids_tell_them_apart() -> None:
    run = record(ranks=8, steps=2, layers=1, seed=1)
    assert [place.index for place in run.places] != list(range(8))
    assert sorted(place.index for place in run.places) == list(range(8))
    rows = run.files["telemetry/node0.apps.csv"].splitlines()
    by_pid = {int(row.split(", ")[4]): row.split(", ")[3] for row in rows[1:]}
    assert by_pid == {place.pid: place.uuid for place in run.places}


def test_a_job_of_two_hosts_has_a_file_each_and_its_ring_leaves_them() -> None:
    run = record(ranks=16, steps=12, layers=1)
    assert {name for name in run.files if name.endswith("dcgm.prom")} == {
        "telemetry/node0.dcgm.prom",
        "telemetry/node1.dcgm.prom",
    }
    assert {place.host for place in run.places[8:]} == {run.places[8].host} != {run.places[0].host}
    of = state(run).of
    # Two of sixteen edges of the ring are between hosts.
    assert of["rdma_tx"].sum() / (of["rdma_tx"].sum() + of["link_tx"].sum()) == pytest.approx(1 / 8)
    assert run.rate("node_infiniband_port_data_transmitted_bytes_total", "mlx5_0", "device") > 1e8


def test_the_default_list_is_the_exporters_own(shared_data: Path) -> None:
    text = (shared_data / "telemetry/dcgm-exporter/default-counters.csv").read_text()
    rows = [line.split(",", 2) for line in text.splitlines() if line.startswith("DCGM_FI_")]
    listed = {name.strip(): (kind.strip(), said.strip()) for name, kind, said in rows}
    ours = {f"DCGM_FI_{field.name}": (field.kind, field.help) for field in FIELDS if field.is_default}
    assert ours == {name: listed[name] for name in ours}
    assert set(listed) - set(ours) == {"DCGM_FI_DEV_VGPU_LICENSE_STATUS", "DCGM_FI_DRIVER_VERSION"}


def test_later_names_are_those_of_the_rename_list(shared_data: Path) -> None:
    path = shared_data.parent / "reference/dcgm_aliases.csv"
    if not path.exists():
        pytest.skip(f"no list of renamed fields: {path} is absent")
    renamed = {
        (int(i), old): new for i, new, old in (r.split(",") for r in path.read_text().splitlines()[1:])
    }
    for field in FIELDS:
        old = f"DCGM_FI_{field.name}"
        assert renamed.get((field.id, old), old) == f"DCGM_FI_{field.later or field.name}"


def test_every_field_has_an_id_and_a_name_of_its_own() -> None:
    assert len({field.id for field in FIELDS}) == len({field.name for field in FIELDS}) == len(FIELDS)


def test_without_telemetry_nothing_is_metered() -> None:
    cluster = Cluster(Config(steps=1, layers=1, faults=(parse("gc"),)))
    assert (cluster.activity, cluster.plans, cluster.happenings) == ([], [], [])


def test_the_state_of_an_idle_device_before_and_after() -> None:
    run = record()
    of: dict[str, Any] = state(run).of
    assert of["sm_mhz"][0] == of["sm_mhz"][-1] == 345
    assert of["reasons"][0] == 1
    assert of["used_bytes"][0] == 0
    assert of["busy"][:300].max() == 0
    assert 0.08 * 700 < of["power"][:100].mean() < 0.2 * 700
