"""A device beside its trace, its peers, its processes and the logs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stepscope.analyse.telemetry import beside, check, host
from stepscope.analyse.telemetry import log as of_log
from stepscope.analyse.telemetry.table import Samples, samples_of
from stepscope.model import report
from stepscope.model.activity import Activity
from stepscope.model.interval import union
from stepscope.model.log import ABSENT_NS, Log, LogEvent, Nccl, Progress
from stepscope.model.sample import Owner, Series, Topology
from tests.analyse.telemetry.make import HOST, SECOND, START, series, source

CELL = SECOND // 100


def one(*each: Series) -> Samples:
    (samples,) = samples_of([source(*each)])
    return samples


def activity(busy: list[float], start_ns: int = START) -> Activity:
    """A trace of as many seconds, each busy for that share."""
    column = np.repeat(np.array(busy) * CELL, 100)
    return Activity(start_ns=start_ns, cell_ns=CELL, parts={"busy": column, "idle_input": CELL - column})


def account(**more: object) -> report.Accounting:
    given = {
        "device": report.Device(index=0, name="NVIDIA H100 80GB HBM3"), "scope": "steps", "window": "device",
        "num_steps": 10, "total_ns": 10 * SECOND, "compute_ns": 8 * SECOND, "idle_ns": SECOND,
        "communication_exposed_ns": SECOND, "copy_exposed_ns": 0, "idle": report.Idle(), "status": "ok",
    } | more  # fmt: skip
    return report.Accounting(**given)  # type: ignore[arg-type]


def lagged(samples: Samples, seconds: float) -> Samples:
    return replace(samples, lag_ns=int(seconds * SECOND), window_ns=SECOND, is_lag_known=True)


def test_a_reading_is_held_against_the_seconds_that_it_is_of() -> None:
    readings = one(series("compute_busy_ratio", [0.0] * 12, start=START + SECOND))
    expected = check.predicted(lagged(readings, 2.0), activity([1, 0, 0.5, 1, 1, 1, 1, 1, 1, 1]), "busy")
    assert np.isnan(expected[[0, 1]]).all()
    assert expected[2:6].tolist() == pytest.approx([1, 0, 0.5, 1])


def test_a_counter_busier_than_the_trace_leaves_the_rest_to_others() -> None:
    readings = lagged(one(series("compute_busy_ratio", [0.9] * 10, start=START + SECOND)), 0.0)
    found = check.numbers(readings, activity([0.6] * 10), account())
    assert found["trace_busy_share"] == pytest.approx(0.6)
    assert found["busy_beyond_trace"] == pytest.approx(0.3)
    assert found["counter_is_broken"] == 0
    assert beside.contention(found, account()) == {"contended_share": pytest.approx(0.3)}


def test_a_counter_at_0_beside_kernels_is_broken_and_no_idle_device() -> None:
    readings = lagged(one(series("graphics_engine_active_ratio", [0.0] * 10, start=START + SECOND)), 0.0)
    assert check.numbers(readings, activity([0.9] * 10), account())["counter_is_broken"] == 1


def test_link_rates_are_of_the_time_in_collectives() -> None:
    """45 GB/s on average while collectives run for a fifth of the time: half of 450 GB/s inside them."""
    readings = lagged(one(series("nvlink_tx_bytes_per_second", [45e9] * 10, start=START + SECOND)), 0.0)
    row = account(communication=report.Communication(total_ns=2 * SECOND, hidden_ns=SECOND))
    found = check.numbers(readings, activity([0.9] * 10), row)
    assert found["nvlink_in_collectives_link_share"] == pytest.approx(0.5)


def test_sm_active_in_collectives_is_of_readings_with_hardly_anything_else() -> None:
    """Seconds of computing, of both, and of collectives alone: the last three tell it."""
    communicates = np.repeat(np.array([0.0, 0.9, 0.9, 1.0, 0.85]) * CELL, 100)
    computes = np.repeat(np.array([1.0, 0.9, 0.18, 0.0, 0.15]) * CELL, 100)
    trace = Activity(start_ns=START, cell_ns=CELL, parts={"communication": communicates, "compute": computes})
    readings = lagged(one(series("sm_active_ratio", [0.9, 0.9, 0.4, 0.2, 0.3], start=START + SECOND)), 0.0)
    found = check.numbers(readings, trace, account())
    assert found["sm_active_in_collectives"] == pytest.approx(0.3)
    fewer = lagged(one(series("sm_active_ratio", [0.9, 0.9, 0.4, 0.2], start=START + SECOND)), 0.0)
    assert "sm_active_in_collectives" not in check.numbers(fewer, trace, account())


def test_pcie_that_follows_the_loader_correlates() -> None:
    waits = [0.1, 0.6] * 10
    received = [1e9 * (1 - wait) for wait in waits]
    readings = lagged(one(series("pcie_rx_bytes_per_second", received, start=START + SECOND)), 0.0)
    found = check.numbers(readings, activity(waits), account())
    assert found["pcie_with_input"] == pytest.approx(1.0)
    # Of which seconds the readings are is not known: nor is what follows what.
    assert "pcie_with_input" not in check.numbers(
        replace(readings, is_lag_known=False), activity(waits), account()
    )


def test_a_batch_is_copied_when_the_loader_is_done_with_it() -> None:
    """Each fourth second the device waits, and in the next one the batch comes."""
    busy = [0.1, 0.9, 0.9, 0.9] * 5
    received = [0.0, 1e9, 0.0, 0.0] * 5
    readings = lagged(one(series("pcie_rx_bytes_per_second", received, start=START + SECOND)), 0.0)
    found = check.numbers(readings, activity(busy), account())
    assert found["pcie_with_input"] == pytest.approx(1.0)
    # What comes before the wait does not follow it.
    early = lagged(
        one(series("pcie_rx_bytes_per_second", received[2:] + received[:2], start=START + SECOND)), 0.0
    )
    assert check.numbers(early, activity(busy), account())["pcie_with_input"] < 0


def test_both_kinds_of_kernels_slower_is_contention_and_one_kind_is_not() -> None:
    both = beside.contention({"matrix_slowdown": 1.25, "other_slowdown": 1.25}, account())
    matrix_only = beside.contention({"matrix_slowdown": 1.25, "other_slowdown": 1.0}, account())
    assert both["contended_share"] == pytest.approx(0.8 * 0.2)
    assert matrix_only["contended_share"] == 0


def test_a_lower_clock_costs_only_what_the_clock_bounds() -> None:
    row = account(compute=report.Compute(gemm_ns=5 * SECOND, elementwise_ns=3 * SECOND))
    assert beside.clock_numbers({"clock_loss_share": 0.3}, row) == {"clock_bound_share": pytest.approx(0.15)}
    assert beside.clock_numbers({}, row) == {}


def process(pid: int, memory: float, sm: float | None = None) -> tuple[Series, ...]:
    owner = Owner(kind="process", uuid="GPU-1", pid=pid, host="node0")
    found = [series("process_memory_bytes", [memory] * 3, owner)]
    if sm is not None:
        found.append(series("process_sm_ratio", [sm] * 3, owner))
    return tuple(found)


def test_a_process_of_nobody_in_the_job_is_foreign() -> None:
    device = one(series("power_watts", [300] * 3))
    listed = source(*process(4100, 40e9, 0.7), *process(999, 8e9, 0.25))
    found = beside.processes([listed], device, frozenset({4100, 4101}), 80e9)
    assert found == {
        "num_foreign_processes": 1,
        "foreign_memory_share": pytest.approx(0.1),
        "foreign_sm_share": pytest.approx(0.25),
    }


def test_numbers_of_another_namespace_name_nobody_foreign() -> None:
    device = one(series("power_watts", [300] * 3))
    assert beside.processes([source(*process(70123, 40e9))], device, frozenset({17}), 80e9) == {}
    assert beside.processes([source(*process(70123, 40e9))], device, frozenset(), 80e9) == {}


def test_quiet_readings_are_told_apart_by_what_went_on() -> None:
    value = [0.9] * 10 + [0.0] * 10 + [0.9] * 10 + [0.01] * 10
    readings = one(series("compute_busy_ratio", value))

    def when(first: int, last: int):  # type: ignore[no-untyped-def]
        edges = np.array([START + first * SECOND]), np.array([START + last * SECOND])
        return union(*edges)

    found = beside.quiet(readings, when(0, 10), when(10, 20), when(30, 40), START)
    assert found == {
        "quiet_while_stepping": 0,
        "quiet_in_checkpoint": 0.5,
        "quiet_in_eval": 0.5,
        "quiet_before_steps": 0,
    }
    assert beside.quiet(readings, None, None, None, START + 60 * SECOND) == {"quiet_before_steps": 1}
    assert beside.quiet(one(series("compute_busy_ratio", [0.9] * 9)), None, None, None, None) == {}


def test_one_card_that_rests_lies_below_its_peers() -> None:
    found = beside.below_peers({0: 0.95, 1: 0.02, 2: 0.93})
    assert found[1]["busy_below_peers"] == pytest.approx(0.92)
    assert found[0]["busy_below_peers"] == pytest.approx(-0.475)
    assert beside.below_peers({0: 0.5}) == {}


def test_pairs_across_sockets_are_counted_once() -> None:
    links = {("GPU0", "GPU1"): "NV18", ("GPU0", "GPU2"): "SYS", ("GPU1", "GPU2"): "SYS"}
    links |= {(b, a): link for (a, b), link in links.items()}
    topology = Topology(("GPU0", "GPU1", "GPU2", "NIC0"), links)
    assert beside.across_sockets(topology) == {"numa_distance_share": pytest.approx(2 / 3)}


def test_a_host_is_told_by_its_own_counters() -> None:
    readings = one(
        series("cpu_user_ratio", [0.6] * 4, HOST),
        series("cpu_system_ratio", [0.2] * 4, HOST),
        series("cpu_run_queue", [128] * 4, HOST),
        series("cpu_cores", [64] * 4, HOST),
        series("major_page_faults_per_second", [500, 700] * 2, HOST),
    )
    found = host.numbers(readings, np.ones(4, dtype=bool))
    assert found["host_cpu_busy"] == pytest.approx(0.8)
    assert found["host_run_queue_per_core"] == 2
    assert found["host_major_faults_per_second"] == 600
    assert "host_iowait_share" not in found


def test_shared_memory_is_the_wrong_way_only_beside_a_link() -> None:
    by_host = {"nccl_socket_share": 0.0, "nccl_host_memory_share": 1.0}
    assert beside.way(by_host, 450e9) == {"wrong_way": 1}
    assert beside.way(by_host, 0) == {"wrong_way": 0}
    assert beside.way({}, 450e9) == {}


def test_sockets_are_the_wrong_way_only_where_there_is_a_faster_one() -> None:
    sockets = {"nccl_socket_share": 1.0}
    assert beside.way({**sockets, "nccl_nodes": 1.0}, 450e9) == {"wrong_way": 1}
    assert beside.way({**sockets, "nccl_nodes": 1.0}, 0) == {"wrong_way": 0}
    assert beside.way({**sockets, "nccl_nodes": 2.0}, 450e9) == {"wrong_way": 0}
    assert beside.way({**sockets, "nccl_nodes": 2.0, "nccl_fast_ports": 8.0}, 450e9) == {"wrong_way": 1}


def test_a_slow_step_with_a_write_was_a_write() -> None:
    written = [60e3] * 20
    written[9] = 900e6
    readings = lagged(one(series("disk_write_bytes_per_second", written, HOST)), 0.0)
    start = np.array([START + 8 * SECOND, START + 15 * SECOND])
    assert beside.written_in(readings, start, start + SECOND) == {"disk_written_share": 0.5}


def log(seconds: list[float], *events: LogEvent, nccl: Nccl | None = None) -> Log:
    at = START + np.cumsum(np.array(seconds) * SECOND).astype(np.int64)
    return Log("train.log", "plain", Progress(at, np.arange(1, len(seconds) + 1)), events, nccl)


def test_steps_that_take_longer_and_longer_are_told_by_the_times_of_lines() -> None:
    found = of_log.numbers([log([1.0] * 10 + [1.5] * 10)], None)
    assert found["step_growth_ratio"] == pytest.approx(1.5)
    assert found["steps_logged"] == 20
    assert "step_growth_ratio" not in of_log.numbers([log([1.0] * 5)], None)


def test_silence_is_counted_to_the_end_of_the_telemetry() -> None:
    given = log([2.0] * 10)
    end = int(given.progress.at_ns[-1]) + 90 * SECOND  # type: ignore[union-attr]
    found = of_log.numbers([given], end)
    assert found["seconds_without_step"] == 90
    assert found["missed_log_lines"] == 45


def test_a_log_without_times_tells_no_silence() -> None:
    progress = Progress(np.full(9, ABSENT_NS), np.arange(9), {"step_seconds": np.full(9, 0.5)})
    found = of_log.numbers([Log("train.log", "plain", progress)], START)
    assert "seconds_without_step" not in found
    assert found["step_growth_ratio"] == 1


def test_memory_that_was_reserved_and_not_given_out_is_held_against_the_request() -> None:
    numbers = {"requested_bytes": 2.0e9, "reserved_bytes": 73e9, "allocated_bytes": 60e9}
    event = LogEvent("oom", "cuda_out_of_memory", "CUDA out of memory", START, 1, numbers=numbers)
    found = of_log.numbers([log([1.0], event)], None)
    assert found["log_out_of_memory"] == 1
    assert found["log_oom_unallocated_share"] == pytest.approx(6.5)


def test_sockets_and_peer_to_peer_are_as_nccl_says() -> None:
    nccl = Nccl(transports={"NET/Socket": 6, "P2P/CUMEM": 2}, is_p2p_disabled=True)
    found = of_log.numbers([log([1.0], nccl=nccl)], None)
    assert found["nccl_socket_share"] == 0.75
    assert found["nccl_p2p_disabled"] == 1
    assert "nccl_socket_share" not in of_log.numbers([log([1.0], nccl=Nccl())], None)


def test_of_a_silence_what_lies_in_a_pause_is_told() -> None:
    """300 s since the last step, of which a checkpoint took 60 s and an evaluation nothing."""
    saves = union(np.array([START - 500, START + 10]) * 1, np.array([START - 400, START + 60 * SECOND + 10]))
    nothing = union(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    found = beside.silence(START, START + 300 * SECOND, saves, nothing)
    assert found == {"silent_in_checkpoint": pytest.approx(0.2), "silent_in_eval": 0.0}
    assert beside.silence(START, START + 300 * SECOND, None, None) == {}
    assert beside.silence(START, START, saves, saves) == {}
    assert beside.silence(None, START, saves, saves) == {}


def test_power_since_the_last_step_is_held_against_power_while_steps_went_on() -> None:
    readings = one(
        series("power_watts", [70.0] * 5 + [600.0] * 10 + [150.0] * 10),
        series("compute_busy_ratio", [0.0] * 5 + [0.99] * 10 + [1.0] * 10),
    )
    readings = replace(readings, window_ns=SECOND)
    first, last = int(readings.at_ns[4]), int(readings.at_ns[14])
    assert beside.standstill(readings, first, last) == {
        "standstill_busy_mean": 1.0,
        "standstill_power_ratio": pytest.approx(0.25),
    }
    # Two readings since the last step tell nothing yet, nor does a run without steps.
    assert beside.standstill(readings, first, int(readings.at_ns[22])) == {}
    assert beside.standstill(readings, None, None) == {}
