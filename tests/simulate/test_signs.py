"""What each fault shows outside of the traces, in numbers, and where its neighbours show the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

from stepscope.simulate import FAULTS
from stepscope.simulate.counter.device import state_of
from stepscope.simulate.row import ROW_EXCHANGE, ROW_KERNEL
from tests.simulate.conftest import Run, record, scraped

GIB = 2**30


def reasons(run: Run, rank: int) -> set[int]:
    """Bits that were set in a scrape while steps ran."""
    ends = run.cluster.step_end_ns[rank]
    found = run.dcgm().within(
        "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", run.device(rank), ends[0] + 2_000_000_000, ends[-1]
    )
    return {int(value) for value in found}


def kernel_ns(run: Run, rank: int, name: str) -> float:
    """Median duration of a rank's kernels of a name."""
    took = [
        r.end_ns - r.start_ns for r in run.cluster.rows(rank) if r.kind == ROW_KERNEL and name in r.what.name
    ]
    return float(np.median(took))


def test_slower_products_look_alike_in_a_trace_and_only_counters_tell_why() -> None:
    """Throttled, capped, braked, locked: one and the same trace, four different counters."""
    runs = {
        "thermal": record("thermal-throttle#1:0.81"),
        "power": record("power-cap#1:0.6"),
        "brake": record("power-brake#1:0.81"),
        "locked": record("clock-lock#1:0.81"),
    }
    for run in runs.values():
        ratio = kernel_ns(run, 1, "nvjet") / kernel_ns(run, 0, "nvjet")
        assert ratio == pytest.approx(1 / 0.81, rel=0.01)
        assert kernel_ns(run, 1, "layer_norm_kernel") / kernel_ns(
            run, 0, "layer_norm_kernel"
        ) == pytest.approx(1, rel=0.02)
        assert run.mean("DEV_SM_CLOCK", 1) / 1980 == pytest.approx(0.81, abs=0.015)
        assert run.mean("DEV_SM_CLOCK", 0) == 1980
        assert reasons(run, 0) == {0}
    assert {name: reasons(run, 1) for name, run in runs.items()} == {
        "thermal": {0x20},
        "power": {0x4},
        "brake": {0x88},
        "locked": {0},
    }
    assert runs["thermal"].mean("DEV_GPU_TEMP", 1) == pytest.approx(88, abs=1.5)
    assert runs["locked"].mean("DEV_GPU_TEMP", 1) < 70
    assert runs["power"].mean("DEV_POWER_USAGE", 1) == pytest.approx(0.6 * 700, rel=0.05)
    assert runs["power"].mean("DEV_ENFORCED_POWER_LIMIT", 1) == pytest.approx(420)
    assert runs["locked"].mean("DEV_ENFORCED_POWER_LIMIT", 1) == 700
    # Time with lowered clocks, in nanoseconds.
    counted = runs["thermal"].dcgm().of["DCGM_FI_DEV_THERMAL_VIOLATION", runs["thermal"].device(1)]
    grows = np.diff([v for at, v in counted if at < runs["thermal"].timeline.end_ns][-5:])
    assert grows == pytest.approx(np.full(4, 1e9), rel=0.05)


def test_a_ratio_is_of_the_cycles_that_the_clock_has_left_and_power_falls_faster_than_the_clock() -> None:
    half, healthy = state_of(record("clock-lock:0.5").timeline, 0).of, state_of(record().timeline, 0).of
    # In products the tensor pipe issues in as many cycles as at full speed.
    assert half["tensor"].max() == pytest.approx(healthy["tensor"].max(), rel=0.03)
    power = [of["power"][of["tensor"] > 0.58].mean() for of in (half, healthy)]
    idle = 74
    assert (power[0] - idle) / (power[1] - idle) == pytest.approx(0.5**2.4, rel=0.05)


def test_application_clocks_say_so_of_odd_seeds() -> None:
    assert reasons(record("clock-lock#1:0.81", seed=5), 1) == {0x2}


def test_a_severe_throttle_is_the_hardwares() -> None:
    assert reasons(record("thermal-throttle#1:severe"), 1) == {0x48}


def test_a_hot_device_that_is_not_throttled_is_not_slower() -> None:
    run = record("hot#1:88")
    assert run.mean("DEV_GPU_TEMP", 1) == pytest.approx(87.5, abs=1)
    assert reasons(run, 1) == {0}
    assert run.mean("DEV_SM_CLOCK", 1) == 1980
    assert kernel_ns(run, 1, "nvjet") / kernel_ns(run, 0, "nvjet") == pytest.approx(1, rel=0.01)


def test_another_process_is_seen_by_its_pid_and_its_work_and_not_in_the_trace() -> None:
    run, straggler = (
        record("foreign-process#1:1.4", "loader-stall:0.6"),
        record("straggler#1:1.4", "loader-stall:0.6"),
    )
    for each in (run, straggler):
        assert kernel_ns(each, 1, "nvjet") / kernel_ns(each, 0, "nvjet") == pytest.approx(1.4, rel=0.01)
    rows = [line.split(", ") for line in run.files["telemetry/node0.apps.csv"].splitlines()[1:]]
    own = {place.pid for place in run.places}
    theirs = {row[3] for row in rows if int(row[4]) not in own}
    assert theirs == {run.places[1].uuid}
    assert not {
        int(line.split(", ")[4]) for line in straggler.files["telemetry/node0.apps.csv"].splitlines()[1:]
    } - {place.pid for place in straggler.places}
    # The device works on while our trace has nothing on it.
    assert run.mean("DEV_GPU_UTIL", 1) == 100
    assert straggler.mean("DEV_GPU_UTIL", 1) < 90
    assert run.mean("PROF_PIPE_TENSOR_ACTIVE", 1) > 1.2 * straggler.mean("PROF_PIPE_TENSOR_ACTIVE", 1)
    used = run.mean("DEV_FB_USED", 1) - run.mean("DEV_FB_USED", 0)
    assert used * 2**20 == pytest.approx(0.18 * run.cluster.config.device.memory_bytes, rel=0.01)


def test_a_loader_out_of_cores_and_one_that_waits_for_disks_differ_on_the_host_alone() -> None:
    decoding, reading, healthy = record("loader-stall:0.3"), record("page-cache-thrash:0.5"), record()
    cores = {
        name: run.rate("namedprocess_namegroup_cpu_seconds_total", "user")
        for name, run in (("decoding", decoding), ("reading", reading), ("healthy", healthy))
    }
    assert cores["decoding"] == pytest.approx(16, rel=0.05)  # eight workers of two ranks
    assert cores["reading"] < 2
    assert cores["healthy"] < 1.5
    faults = [run.rate("node_vmstat_pgmajfault") for run in (decoding, reading, healthy)]
    assert faults[0] == faults[2] == 0
    assert faults[1] > 5000
    assert reading.rate("node_disk_read_bytes_total", "nvme0n1", "device") > 3e8
    assert healthy.rate("node_disk_read_bytes_total", "nvme0n1", "device") == 0
    assert host_share(reading, "iowait") > 0.1 > 0.01 > host_share(decoding, "iowait")
    assert reading.host("name").values("node_procs_blocked").max() >= 10


def host_share(run: Run, mode: str) -> float:
    """Of the host's processor time, while steps run."""
    text = run.host("mode")
    ends = run.cluster.step_end_ns[0]
    num = len(set(re.findall(r'cpu="(\d+)"', run.files["telemetry/node0.node.prom"])))
    values = [value for at, value in text.of["node_cpu_seconds_total", mode] if ends[0] <= at <= ends[-1]]
    at = sorted({at for at, _ in text.of["node_cpu_seconds_total", mode] if ends[0] <= at <= ends[-1]})
    return (values[-1] - values[0]) / ((at[-1] - at[0]) / 1e9) if num else 0.0


def test_cores_add_up_to_the_time_that_passed() -> None:
    for fault in ("cpu-contention", "page-cache-thrash", "loader-stall"):
        text = record(fault).host("mode")
        at = text.at_ns
        total = np.zeros(len(at))
        for (name, _), series in text.of.items():
            if name == "node_cpu_seconds_total":
                by = dict(series)  # cores are alike here: the last of each scrape stands for all
                total += np.array([by[ns] for ns in at])
        assert np.diff(total) == pytest.approx(np.diff(at) / 1e9, abs=0.05)


def test_every_tenth_step_has_a_burst_of_faults() -> None:
    run = record("page-cache-miss:300", steps=60, recording=(("scrape_ms", 200),))
    series = run.host().of["node_vmstat_pgmajfault", ""]
    grows = np.diff([value for _, value in series]) > 500
    begins = [series[n + 1][0] for n in np.flatnonzero(grows[1:] & ~grows[:-1]) + 1]
    ends = run.cluster.step_end_ns[0]
    # The host is a step ahead: the batches of steps 4, 14, … are read while the device does the one before.
    assert [int(np.searchsorted(ends, at)) for at in begins] == [3, 13, 23, 33, 43, 53]


def test_others_on_the_hosts_cores_are_in_its_run_queue_and_launches_are_late() -> None:
    run, tiny = record("cpu-contention:1.5"), record("launch-bound:2", steps=400)
    queue = run.host("name").values("node_procs_running")
    num_cores = 24
    assert np.median(queue[10:-10]) > 2 * num_cores
    assert np.median(tiny.host("name").values("node_procs_running")) < num_cores / 2
    assert host_share(run, "user") > 0.95
    for each in (run, tiny):  # the trace of both: a device that waits for launches
        busy = [each.mean("PROF_GR_ENGINE_ACTIVE", rank) for rank in (0, 1)]
        assert min(busy) < 0.8


def test_the_way_of_an_exchange_is_in_ncclss_log_and_on_its_links() -> None:
    healthy, slow = record("gc"), record("slow-link:10", exchange_scale=8.0)
    host, socket = record("wrong-transport:10", exchange_scale=4.0), record("wrong-transport:3")
    kinds = {
        "P2P/CUMEM": (healthy, slow),
        "SHM/direct/direct": (host,),
        "[send] via NET/Socket/0": (socket,),
    }
    for kind, runs in kinds.items():
        for run in runs:
            said = re.findall(r"Channel \d\d/0 : (.*)", run.files["logs/nccl.log"])
            assert len(said) == 8
            assert all(kind in line for line in said)
    assert "NCCL_P2P_DISABLE set by environment to 1" in host.files["logs/nccl.log"]
    assert "NCCL_P2P_DISABLE" not in slow.files["logs/nccl.log"]
    for run in (host, socket):
        assert run.mean("PROF_NVLINK_TX_BYTES", 0) == 0
        assert run.mean("PROF_PCIE_TX_BYTES", 0) > 1e9
    assert slow.mean("PROF_PCIE_TX_BYTES", 0) < 5e7
    grows = np.diff(slow.dcgm().values("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", slow.device(0)))
    assert grows.sum() > 100
    assert healthy.dcgm().values("DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", healthy.device(0)).max() == 0
    assert socket.rate("node_network_transmit_bytes_total", "lo", "device") > 5e8
    # In the trace both are exchanges that take long, and nothing more.
    for run in (slow, host):
        took = [
            (r.end_ns - r.start_ns) / r.what[0].moved_bytes
            for r in run.cluster.rows(0)
            if r.kind == ROW_EXCHANGE
        ]
        assert 1 / np.median(took) < 45  # GB/s, of 360


def test_memory_that_leaks_and_memory_that_is_cut_up() -> None:
    leak, cut = record("memory-leak:1"), record("fragmentation:severe")
    ends = leak.cluster.step_end_ns[0]
    used = leak.dcgm().within("DCGM_FI_DEV_FB_USED", leak.device(0), ends[1], ends[-1])
    assert np.all(np.diff(used) >= 0)
    assert used[-1] > 1.3 * used[0]
    assert used[-1] * 2**20 > 0.94 * leak.cluster.config.device.memory_bytes
    share = cut.mean("DEV_FB_USED", 0) * 2**20 / cut.cluster.config.device.memory_bytes
    assert 0.92 < share <= 1
    numbers = {}
    for name, run in (("leak", leak), ("cut", cut)):
        text = run.files["logs/train.log"]
        found = re.search(
            r"memory in use. Of the allocated memory (\S+) GiB is allocated by PyTorch, and (\S+) GiB", text
        )
        assert found, name
        numbers[name] = (float(found[1]), float(found[2]))
        assert "Training completed" not in text
    assert numbers["leak"][1] < 2
    assert numbers["cut"][1] > 10
    assert cut.files["logs/train.log"].count("cache flushes since last step") == 50
    assert "OutOfMemory" not in record("memory-leak:0.5").files["logs/train.log"]
    assert "OutOfMemory" not in record("fragmentation:mild").files["logs/train.log"]
    ends = cut.cluster.step_end_ns[0]
    sm = cut.dcgm().within("DCGM_FI_PROF_SM_ACTIVE", cut.device(0), ends[5], ends[-1])
    assert sm.max() - sm.min() > 0.15


def test_a_hang_spins_without_power_until_the_watchdog_ends_it() -> None:
    run = record("hang#0:30@20:20")
    after = (run.timeline.end_ns + 3_000_000_000, run.timeline.stop_ns - 1_000_000_000)
    for rank, busy in ((0, 0), (1, 100)):
        assert set(run.dcgm().within("DCGM_FI_DEV_GPU_UTIL", run.device(rank), *after)) == {busy}
    power = run.dcgm().within("DCGM_FI_DEV_POWER_USAGE", run.device(1), *after)
    assert 0.2 < power.mean() / 700 < 0.3
    assert run.dcgm().within("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", run.device(1), *after).max() == 0
    text = run.files["logs/train.log"]
    assert text.count("Watchdog caught collective operation timeout") == 1
    assert "[Rank 1] Watchdog" in text
    assert "Timeout(ms)=30000) ran for 30041 milliseconds" in text
    assert len(run.cluster.step_end_ns[0]) == 20


def test_products_without_tensor_cores_and_models_that_are_not_fused() -> None:
    plain, unfused, healthy = record("no-tensor-core:1", steps=8), record("unfused:16"), record()
    assert plain.mean("PROF_PIPE_TENSOR_ACTIVE", 0) == 0
    assert plain.mean("PROF_PIPE_FP32_ACTIVE", 0) > 0.5
    assert unfused.mean("PROF_DRAM_ACTIVE", 0) > 1.4 * healthy.mean("PROF_DRAM_ACTIVE", 0)
    assert unfused.mean("PROF_PIPE_TENSOR_ACTIVE", 0) < 0.8 * healthy.mean("PROF_PIPE_TENSOR_ACTIVE", 0)
    bad = record("misaligned:4", steps=20)
    assert bad.mean("PROF_PIPE_TENSOR_ACTIVE", 0) < 0.4 * healthy.mean("PROF_PIPE_TENSOR_ACTIVE", 0)
    assert bad.mean("PROF_SM_ACTIVE", 0) > 0.9


def test_errors_of_memory_and_a_slow_bus() -> None:
    run = record("ecc#1:severe")
    assert np.diff(run.dcgm().values("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", run.device(1))).sum() > 50
    assert run.mean("DEV_CORRECTABLE_REMAPPED_ROWS", 1) == 13
    assert run.mean("DEV_CORRECTABLE_REMAPPED_ROWS", 0) == 0
    bus = run.places[1].pci_bus_id[9:11].lower()
    assert f"NVRM: Xid (PCI:0000:{bus}:00): 63, " in run.files["logs/kernel.log"]
    slow = record("pcie-downgrade#1:16", model="resnet", layers=None)
    assert slow.mean("DEV_PCIE_LINK_GEN", 1) == 1
    assert slow.mean("DEV_PCIE_LINK_GEN", 0) == 5


def test_a_checkpoint_writes_and_is_logged_and_so_is_an_evaluation() -> None:
    run = record("checkpoint:2", period=10)
    assert run.rate("node_disk_written_bytes_total", "nvme0n1", "device") > 1e8
    text = run.files["logs/train.log"]
    assert (
        text.count("Saving model checkpoint to checkpoints/step-")
        == text.count("Saved checkpoint at step")
        == 5
    )
    assert record("eval:3").files["logs/train.log"].count("Running Evaluation") == 10
    assert record().rate("node_disk_written_bytes_total", "nvme0n1", "device") < 1e6


@pytest.mark.parametrize(
    "name", sorted(set(FAULTS) - {"stage-imbalance", "expert-imbalance", "launch-bound"})
)
def test_nothing_in_a_runs_folder_names_its_fault(name: str) -> None:
    run = record(name, steps=12, recording=(("log_style", "plain"),))
    everything = "\n".join(run.files.values()).lower()
    words = {name, name.replace("-", "_"), name.replace("-", " "), "stepscope", "simulat"}
    # Words that such logs, messages and fields have by right.
    words -= {"checkpoint", "eval", "ecc", "fragmentation"}
    assert [word for word in sorted(words) if word in everything] == []


def test_counters_before_a_fault_begins_are_those_of_a_healthy_run() -> None:
    run, healthy = record("thermal-throttle#1@40:49"), record()
    begins = run.cluster.step_end_ns[1][39]
    states = [state_of(each.timeline, 1).of for each in (run, healthy)]
    num = int(np.searchsorted(run.timeline.middle_ns, begins)) - 1
    for name in ("busy", "sm_active", "tensor", "sm_mhz", "reasons"):
        assert states[0][name][:num] == pytest.approx(states[1][name][:num])
    # It gets hot before.
    assert states[0]["temperature"][num] > 85
    later = slice(num + 5, int(np.searchsorted(run.timeline.middle_ns, run.timeline.end_ns)) - 5)
    assert set(states[0]["reasons"][later]) == {0x20}


def test_what_is_read_of_a_text_is_what_was_written() -> None:
    found = scraped('# scraped_at_ns 5\n# TYPE a gauge\na{gpu="0",x="y"} 1\na{gpu="1"} 2.5\nb 3\n')
    assert found.of == {("a", "0"): [(5, 1.0)], ("a", "1"): [(5, 2.5)], ("b", ""): [(5, 3.0)]}
