"""Worked traces of a few lines with exact answers, times in microseconds.

Where a case is about the accounting it is asked of the product and of the reference alike, so that a wrong
expectation shows as such. The numbers in the names are those of the project's list of trace cases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from stepscope.analyse.rank import analyse_rank
from stepscope.trace.load import load_bytes, rank_of
from tests.analyse import reference
from tests.analyse.build import Build

CAUSES = (
    "queued input preprocess host_sync copy_wait allocator gc compile checkpoint eval logging launch peer "
    "profiler python unknown"
).split()
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"


@dataclass(frozen=True)
class Answer:
    """One accounting row in microseconds: parts and the idle causes that are not zero."""

    window: str
    parts: Mapping[str, float]
    by_step: Mapping[int, Mapping[str, float]]
    shares: Mapping[str, float]


Ask = Callable[..., Answer]


def microseconds(flat: Mapping[str, int]) -> dict[str, float]:
    """Without the zeroes, named without unit and prefix: `launch`, `compute`, `total`…"""
    return {
        name.removesuffix("_ns").removeprefix("idle."): ns / 1000
        for name, ns in flat.items()
        if ns and name != "idle_ns"
    }


def flat_row(row: Any) -> dict[str, int]:
    flat = {
        name: getattr(row, name)
        for name in ("total_ns", "compute_ns", "communication_exposed_ns", "copy_exposed_ns", "idle_ns")
    }
    flat.update({f"idle.{cause}_ns": getattr(row.idle, f"{cause}_ns") for cause in CAUSES})
    return flat


def analyse(build: Build | bytes) -> list[Any]:
    data = build if isinstance(build, bytes) else build.bytes()
    trace = load_bytes(data, "case.json")
    rank, world_size, _ = rank_of(trace)
    return list(analyse_rank(trace, rank=rank, world_size=world_size))


def only(build: Build | bytes) -> Any:
    found = analyse(build)
    assert len(found) == 1
    return found[0]


def rows(analysis: Any, scope: str, device: int | None = 0) -> list[Any]:
    return [
        row
        for row in analysis.accounting
        if row.scope == scope and (row.device.kind == "cpu" if device is None else row.device.index == device)
    ]


def row_of(analysis: Any, scope: str, device: int | None = 0) -> Any:
    (row,) = rows(analysis, scope, device)
    return row


def issues(analysis: Any, code: str) -> list[Any]:
    return [issue for issue in analysis.issues if issue.code == code]


def count_of(analysis: Any, code: str) -> int:
    return sum(issue.count for issue in issues(analysis, code))


def uses(analysis: Any) -> dict[int, str]:
    return {step.step: step.use for step in analysis.steps}


def _ask_product(build: Build, scope: str = "steps", device: int | None = 0) -> Answer:
    analysis = only(build)
    row = row_of(analysis, scope, device)
    flat = flat_row(row)
    assert row.compute_ns + row.communication_exposed_ns + row.copy_exposed_ns + row.idle_ns == row.total_ns
    assert sum(flat[f"idle.{cause}_ns"] for cause in CAUSES) == row.idle_ns
    by_step = {
        step: microseconds(parts)
        for d in analysis.devices
        if (d.accounting.device.kind == "cpu" if device is None else d.accounting.device.index == device)
        for step, parts in d.by_step.items()
    }
    shares = {
        name: value
        for name in ("loader_share", "sync_share", "copy_call_share", "launch_share")
        if row.host is not None and (value := getattr(row.host, name)) is not None
    }
    return Answer(row.window, microseconds(flat), by_step, shares)


def _ask_reference(build: Build, scope: str = "steps", device: int | None = 0) -> Answer:
    (row,) = [r for r in reference.account(build.events) if r.device == device]
    parts = row.steps if scope == "steps" else row.trace
    return Answer(
        row.window,
        microseconds(parts.flat()),
        {step: microseconds(p.flat()) for step, p in row.by_step.items()},
        {name: n / whole for name, (n, whole) in row.host.items() if whole},
    )


@pytest.fixture(params=["product", "reference"])
def ask(request: pytest.FixtureRequest) -> Ask:
    return _ask_product if request.param == "product" else _ask_reference


# The first loader reads sound files only.


def no_warning(analysis: Any, *codes: str) -> bool:
    return all(issue.effect == "none" for code in codes for issue in issues(analysis, code))


# ── kernels and copies ───────────────────────────────────────────────────────────────────────────────


def test_01_kernels_of_every_collective_library_are_communication() -> None:
    names = (
        "ncclKernel_AllGather",
        "ncclDevKernel_AllReduce",
        "void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)",
        "void deep_ep::internode::dispatch<false, 8, false, 4>(int4*, float*)",
        "cross_device_reduce_1stage",
        "hipblasLt_gemm",
    )
    b = Build().op("aten::mm", -20, -10)
    for i, name in enumerate(names):
        b.kernel(name, 100 * i, 100 * i + 100, launched=(-9 + i, -8.5 + i))
    analysis = only(b)
    row = row_of(analysis, "trace")
    assert (row.communication_exposed_ns, row.compute_ns, row.idle_ns) == (500_000, 100_000, 0)
    assert not issues(analysis, "unclassified_kernels")
    assert analysis.devices[0].numbers.get("unclassified_share", 0) == 0
    assert {k.name: k.class_ for k in analysis.kernels}["hipblasLt_gemm"] == "gemm"


def test_02_kernels_shorter_than_a_microsecond_keep_their_length() -> None:
    b = Build().op("aten::mm", 0, 4)
    for i in range(1000):
        start = (5_000 + 1_900 * i) / 1000
        b.kernel("k", start, (5_900 + 1_900 * i) / 1000, launched=(start - 1.2, start - 1.1))
    analysis = only(b)
    row = row_of(analysis, "trace")
    assert (row.compute_ns, row.total_ns) == (900_000, 1_899_000)
    (kernel,) = analysis.kernels
    assert (kernel.count, kernel.device_ns, kernel.mean_ns) == (1000, 900_000, 900)
    assert not issues(analysis, "bad_timestamp")


def test_03_a_corrupt_duration_is_cut_at_its_successor() -> None:
    b = Build()
    b.kernel("A", 0, 2_000_000).kernel("B", 100, 200).kernel("C", 200, 300)
    analysis = only(b)
    row = row_of(analysis, "trace")
    assert (row.compute_ns, row.total_ns, row.idle_ns) == (300_000, 300_000, 0)
    assert count_of(analysis, "corrupt_duration") == 1
    assert {k.name: k.device_ns for k in analysis.kernels}["A"] == 100_000


def test_04_a_corrupt_duration_in_a_sparse_trace_is_unknown_and_not_two_seconds() -> None:
    b = Build().op("aten::mm", -50, -40)
    for i in range(1000):
        start = 60_000 * i
        end = start + (2_000_000 if i == 500 else 100)
        b.kernel("k", start, end, launched=(start - 10, start - 5))
    analysis = only(b)
    row = row_of(analysis, "trace")
    assert count_of(analysis, "corrupt_duration") == 1
    assert row.compute_ns == 999 * 100_000
    assert row.total_ns == (999 * 60_000 + 100) * 1000
    assert row.idle.unknown_ns == 60_000_000
    assert sum(k.device_ns for k in analysis.kernels) <= 999 * 100_000 + 60_000_000


def test_05_a_harmless_overlap_on_one_stream_is_no_warning() -> None:
    b = Build().op("aten::mm", -50, -40)
    b.kernel("A", 0, "10.003", launched=(-30, -29)).kernel("B", 10, 20, launched=(-28, -27))
    for i in range(250):  # two starts within one microsecond
        start = 100 + 10 * i
        b.kernel("n", start, start + 4, launched=(start - 5, start - 4))
        b.kernel("n", start, start + 3, launched=(start - 3, start - 2))
    analysis = only(b)
    row = row_of(analysis, "trace")
    assert row.compute_ns == (20 + 250 * 4) * 1000
    assert {k.name: k.count for k in analysis.kernels} == {"A": 1, "B": 1, "n": 500}
    assert no_warning(analysis, "corrupt_duration", "stream_overlap")
    assert not issues(analysis, "corrupt_duration")


def test_15_annotations_and_synchronisations_on_a_device_track_are_not_work(ask: Ask) -> None:
    b = Build().op("aten::mm", -20, -10)
    b.row("gpu_user_annotation", "step", 0, 1000, 0, 7, device=0, stream=7)
    b.row("cuda_sync", "Stream Sync", 100, 900, 0, 7, device=0, stream=7)
    b.kernel("k", 0, 100, launched=(-5, -4)).kernel("k", 900, 1000, launched=(-3, -2))
    assert ask(b, "trace").parts == {"total": 1000, "compute": 200, "queued": 800}


def test_30_copies_are_not_idleness(ask: Ask) -> None:
    b = Build().step(3, -10, 1000).op("aten::mm", -8, -6)
    b.kernel("k", 0, 25, launched=(-6, -5)).kernel("k", 960, 1000, launched=(-2, -1))
    b.copy("Memcpy HtoD (Pinned -> Device)", 25, 960, launched=(-4, -3))
    assert ask(b, "trace").parts == {"total": 1000, "compute": 65, "copy_exposed": 935}


# ── launches ─────────────────────────────────────────────────────────────────────────────────────────


def test_12_a_graph_launch_owns_all_its_kernels(ask: Ask) -> None:
    b = Build().steps(1, (0, 100, 200)).op("aten::mm", 0, 5).op("aten::mm", 100, 105)
    b.call("cudaGraphLaunch", 10, 15, correlation=9).call("cudaGraphLaunch", 110, 115, correlation=10)
    for i in range(5):
        b.kernel("k", 60 + 20 * i, 80 + 20 * i, correlation=9)
        b.kernel("k", 160 + 20 * i, 180 + 20 * i, correlation=10)
    answer = ask(b)
    assert answer.window == "device"
    assert answer.by_step[1]["compute"] == answer.by_step[2]["compute"] == 100
    assert answer.by_step[2] == {"total": 100, "compute": 100}


def test_12_a_graph_launch_is_one_launch() -> None:
    b = Build().steps(1, (0, 100, 200)).op("aten::mm", 0, 5).op("aten::mm", 100, 105)
    b.call("cudaGraphLaunch", 10, 15, correlation=9).call("cudaGraphLaunch", 110, 115, correlation=10)
    for i in range(5):
        b.kernel("k", 60 + 20 * i, 80 + 20 * i, correlation=9)
        b.kernel("k", 160 + 20 * i, 180 + 20 * i, correlation=10)
    analysis = only(b)
    assert analysis.devices[0].numbers["launches_per_step"] == 1
    assert analysis.kernels[0].count == 10
    assert no_warning(analysis, "missing_launch", "missing_kernels", "graph_underrecorded")


def test_13_replays_that_were_not_recorded_are_withheld_and_not_idle() -> None:
    b = Build()
    for i in range(32):
        b.step(i, 100 * i, 100 * i + 100).op("aten::mm", 100 * i, 100 * i + 5)
        b.call("cudaGraphLaunch", 100 * i + 10, 100 * i + 15, correlation=50 + i)
        for k in range(3 if i < 2 else 0):
            b.kernel("k", 100 * i + 20 + 20 * k, 100 * i + 40 + 20 * k, correlation=50 + i)
    analysis = only(b)
    assert analysis.devices[0].numbers["graph_coverage"] == pytest.approx(0.0625)
    assert {issue.effect for issue in issues(analysis, "graph_underrecorded")} <= {"degraded", "withheld"}
    assert issues(analysis, "graph_underrecorded")
    found = uses(analysis)
    assert [found[i] for i in range(2)] == ["counted"] * 2
    assert {found[i] for i in range(2, 32)} == {"no_device_data"}
    row = row_of(analysis, "steps")
    assert row.num_steps == 2
    assert set(analysis.devices[0].by_step) == {0, 1}
    assert row.idle_ns <= 2 * 40_000


def test_14_every_launch_call_is_linked() -> None:
    calls = (
        ("cuda_runtime", "cudaLaunchKernel"),
        ("cuda_runtime", "cudaLaunchKernelExC"),
        ("cuda_driver", "cuLaunchKernel"),
        ("cuda_driver", "cuLaunchKernelEx"),
        ("cuda_runtime", "hipModuleLaunchKernel"),
    )
    b = Build().step(1, 0, 200).op("aten::mm", 0, 2)
    for i, (cat, name) in enumerate(calls):
        b.kernel("k", 50 + 10 * i, 60 + 10 * i, launched=(3 + 2 * i, 4 + 2 * i), by=name, by_cat=cat)
    graph = b.new_correlation()
    b.call("cudaGraphLaunch", 20, 25, correlation=graph)
    for i in range(3):
        b.kernel("k", 100 + 10 * i, 110 + 10 * i, correlation=graph)
    analysis = only(b)
    assert analysis.devices[0].numbers["launches_per_step"] == 6
    assert sum(k.count for k in analysis.kernels) == 8
    assert analysis.devices[0].numbers.get("unlaunched_device_share", 0) == 0
    assert no_warning(analysis, "missing_launch", "missing_kernels")
    assert row_of(analysis, "steps").idle.unknown_ns == 0


def test_16_a_kernel_that_starts_before_its_launch_is_linked(ask: Ask) -> None:
    b = Build().op("aten::mm", 0, 50)
    b.kernel("k", 60, 80, launched=(51, 53)).kernel("k", 98, 110, launched=(100, 105))
    # The launch is taken to be at 98: nothing of the gap comes after it.
    assert ask(b, "trace").parts == {"total": 50, "compute": 32, "python": 18}


def test_16_a_clock_inversion_is_counted() -> None:
    b = Build().op("aten::mm", 0, 50)
    b.kernel("k", 60, 80, launched=(51, 53)).kernel("k", 98, 110, launched=(100, 105))
    analysis = only(b)
    assert count_of(analysis, "clock_inversion") == 1
    assert no_warning(analysis, "missing_launch")


def test_16_an_offset_between_host_and_device_is_reported() -> None:
    b = Build().op("aten::mm", 0, 50)
    for i in range(500):
        start = 100 + 20 * i
        early = (1_800 + 400 * i // 499) / 1000
        b.kernel("k", start - early, start + 10, launched=(start, start + 5))
    analysis = only(b)
    (issue,) = issues(analysis, "clock_inversion")
    assert issue.count == 500
    assert issue.effect != "none"


@pytest.mark.parametrize("pids", [(100, 200)])
def test_19_ranks_merged_in_one_file_keep_their_own_launches(pids: tuple[int, int]) -> None:
    b = Build()
    for device, pid in enumerate(pids):
        b.pid = pid
        for i in range(3):
            at = 1000 * device + 10 * i
            b.op("aten::mm", at - 1, at + 2)
            b.kernel(
                "k",
                at + 5,
                at + 9,
                launched=(at, at + 1),
                correlation=i + 1,
                device=device,
                stream=17,
                pid=pid,
            )
    found = analyse(b)
    kernels = 0
    for analysis in found:
        assert no_warning(analysis, "missing_launch", "missing_kernels", "clock_inversion")
        kernels += sum(k.count for k in analysis.kernels)
    assert kernels == 6
    for device in (0, 1):
        (row,) = [row for analysis in found for row in rows(analysis, "trace", device)]
        # Between two kernels: the end of the kernel to the op's end or launch, then to the next kernel.
        assert (row.total_ns, row.compute_ns, row.idle.unknown_ns) == (24_000, 12_000, 0)
        assert row.idle.launch_ns == 2 * 6_000


def test_19_one_stream_number_on_three_devices_is_three_streams(ask: Ask) -> None:
    b = Build().op("aten::mm", -20, -10)
    for device in range(3):
        at = -9 + 2 * device
        b.kernel("k", 0, 50, launched=(at, at + 0.5), device=device, stream=17)
        b.kernel("k", 64, 100, launched=(at + 1, at + 1.5), device=device, stream=17)
    for device in range(3):
        assert ask(b, "trace", device).parts == {"total": 100, "compute": 86, "queued": 14}


# ── damage ───────────────────────────────────────────────────────────────────────────────────────────


def test_17_impossible_timestamps_are_left_out_and_counted() -> None:
    def good() -> Build:
        b = Build(at=1_700_000_000_000_000, base_ns=None).op("aten::mm", -20, -10)
        for i in range(10):
            b.kernel("k", 20 * i, 20 * i + 15, launched=(20 * i - 8, 20 * i - 7))
        return b

    plain, bad = good(), good()
    for ts in ("0", "0", "9223372036854775808"):
        bad.raw(
            ph="X",
            cat="kernel",
            name="k",
            pid=0,
            tid=7,
            ts=ts,
            dur=0,
            args={"device": 0, "stream": 7, "correlation": 0},
        )
    analysis = only(bad)
    assert count_of(analysis, "bad_timestamp") == 3
    assert flat_row(row_of(analysis, "trace")) == flat_row(row_of(only(plain), "trace"))
    assert row_of(analysis, "trace").total_ns == 195_000


def test_18_steps_without_kernels_and_a_cut_step_are_not_idle() -> None:
    b = Build()
    for i in range(5):
        end = 100 * i + (50 if i == 4 else 100)
        b.step(i, 100 * i, end).op("aten::mm", 100 * i, 100 * i + 1)
        for k in range(5 if i == 4 else 10):
            at = 100 * i + 2 + 8 * k
            number = b.new_correlation()
            b.call("cudaLaunchKernel", at, at + 1, correlation=number)
            if i > 1:
                b.kernel("k", at + 2, at + 8, correlation=number)
    analysis = only(b)
    found = uses(analysis)
    assert found == {0: "no_device_data", 1: "no_device_data", 2: "counted", 3: "counted", 4: "partial"}
    assert count_of(analysis, "no_device_data") == 2
    assert count_of(analysis, "partial_step") == 1
    row = row_of(analysis, "steps")
    assert (row.num_steps, row.window) == (2, "host")
    assert (row.total_ns, row.compute_ns) == (200_000, 120_000)
    assert set(analysis.devices[0].by_step) == {2, 3}


def test_18_a_trace_of_one_step_is_analysed(ask: Ask) -> None:
    b = Build().step(7, 0, 100).op("aten::mm", 0, 10).kernel("k", 15, 95, launched=(10, 12))
    answer = ask(b)
    # The op before the launch is a tenth of the step: preprocess. After the kernel nothing is open.
    assert answer.parts == {"total": 100, "compute": 80, "preprocess": 10, "launch": 5, "python": 5}
    assert set(answer.by_step) == {7}


def _two_kernels() -> Build:
    return (
        Build().op("aten::mm", 0, 4).kernel("k", 10, 30, launched=(4, 5)).kernel("k", 40, 60, launched=(6, 7))
    )


def test_spare_b_a_file_cut_in_an_event_keeps_what_came_before() -> None:
    text = _two_kernels().op("aten::relu", 70, 80).write()
    analysis = only(text[: text.index("aten::relu") + 4].encode())
    assert issues(analysis, "truncated")
    assert row_of(analysis, "trace").compute_ns == 40_000


def test_spare_b_a_raw_control_character_keeps_the_rest() -> None:
    text = _two_kernels().op("aten::relu", 70, 80).write().replace("aten::relu", "aten::re\x01lu")
    analysis = only(text.encode())
    assert issues(analysis, "malformed_events")
    assert row_of(analysis, "trace").compute_ns == 40_000


def test_spare_f_times_are_microseconds_whatever_the_unit_of_display() -> None:
    plain = _two_kernels()
    shown = _two_kernels()
    shown.properties = {"displayTimeUnit": "ns"}
    assert '"displayTimeUnit": "ns"' in shown.write()
    assert flat_row(row_of(only(shown), "trace")) == flat_row(row_of(only(plain), "trace"))
    assert row_of(only(shown), "trace").total_ns == 50_000


# ── windows ──────────────────────────────────────────────────────────────────────────────────────────


def test_21_a_host_that_runs_ahead_gets_device_windows(ask: Ask) -> None:
    b = Build().steps(1, (0, 100, 200, 300)).op("aten::mm", 2, 3)
    for i in range(3):
        b.kernel("k", 10 + 150 * i, 160 + 150 * i, launched=(100 * i + 1, 100 * i + 2))
    answer = ask(b)
    assert answer.window == "device"
    assert answer.by_step[1] == {"total": 160, "compute": 150, "launch": 9, "python": 1}
    assert answer.by_step[2] == answer.by_step[3] == {"total": 150, "compute": 150}
    assert answer.parts == {"total": 460, "compute": 450, "launch": 9, "python": 1}


def test_21_step_times_are_those_of_the_host() -> None:
    b = Build().steps(1, (0, 100, 200, 300)).op("aten::mm", 2, 3)
    for i in range(3):
        b.kernel("k", 10 + 150 * i, 160 + 150 * i, launched=(100 * i + 1, 100 * i + 2))
    assert [step.dur_ns for step in only(b).steps] == [100_000] * 3


def test_spare_c_a_step_that_overlaps_a_python_frame_is_kept(ask: Ask) -> None:
    b = Build().steps(1, (0, 100, 200)).frame("train.py(9): log", "190.0", "200.4").op("aten::mm", 0, 2)
    b.kernel("k", 10, 90, launched=(5, 6)).kernel("k", 110, 190, launched=(105, 106))
    answer = ask(b)
    assert set(answer.by_step) == {1, 2}
    assert answer.by_step[2]["total"] == 100


def test_spare_d_a_kernel_belongs_to_the_step_that_launched_it(ask: Ask) -> None:
    b = Build().steps(3, (0, 100, 200)).op("aten::mm", 0, 5).op("aten::mm", 100, 105)
    b.kernel("k", 95, 180, launched=(90, 91)).kernel("k", 195, 260, launched=(190, 191))
    answer = ask(b)
    assert answer.window == "device"
    assert answer.by_step[3]["compute"] == 85
    assert answer.by_step[4]["compute"] == 65


def test_device_windows_leave_out_the_work_of_a_step_that_was_not_recorded(
    ask: Ask,
) -> None:
    b = Build().step(5, 0, 100).step(7, 200, 300).op("aten::mm", 0, 1).op("aten::mm", 200, 201)
    b.kernel("k", 10, 120, launched=(5, 6)).kernel("k", 290, 400, launched=(250, 251))
    b.kernel("of step 6", 150, 900, launched=(140, 141), stream=20)
    answer = ask(b)
    assert answer.window == "device"
    assert answer.by_step[7] == {"total": 200, "compute": 200}


# ── idle causes ──────────────────────────────────────────────────────────────────────────────────────


def test_22_a_wait_of_queued_work_is_not_the_hosts_fault(ask: Ask) -> None:
    b = Build().op("aten::mm", -10, -6)
    b.kernel("A", 0, 100, launched=(-5, -4)).kernel("B", 150, 200, launched=(20, 22))
    b.call("cudaStreamSynchronize", 30, 210)
    assert ask(b, "trace").parts == {"total": 200, "compute": 150, "queued": 50}


def test_22_the_share_of_host_time_in_synchronisation_is_reported_apart(ask: Ask) -> None:
    b = Build().step(1, -10, 210).op("aten::mm", -10, -6)
    b.kernel("A", 0, 100, launched=(-5, -4)).kernel("B", 150, 200, launched=(20, 22))
    b.call("cudaStreamSynchronize", 30, 210)
    answer = ask(b)
    assert answer.parts["queued"] == 50
    # After the last kernel the host still waits: that gap has no activity at its end.
    assert answer.parts["host_sync"] == 10
    assert answer.shares["sync_share"] == pytest.approx(180 / 220)


def test_23_one_gap_has_several_causes(ask: Ask) -> None:
    b = Build().kernel("A", 0, 100, launched=(-5, -4)).note(LOADER, 90, 200)
    for i in range(4):
        b.op("aten::mm", f"{200 + 14.5 * i}", f"{200 + 14.5 * (i + 1)}")
    b.kernel("B", 265, 300, launched=(258, 262))
    assert ask(b, "trace").parts == {"total": 300, "compute": 135, "input": 100, "launch": 65}


def test_24_a_synchronisation_costs_the_run_ahead_it_took(ask: Ask) -> None:
    b = Build().kernel("A", 0, 100, launched=(-5, -4)).call("cudaStreamSynchronize", 20, 102)
    b.frame("train.py(1): step", 102, 112).kernel("B", 115, 150, launched=(112, 113))
    assert ask(b, "trace").parts == {"total": 150, "compute": 135, "host_sync": 12, "launch": 3}


def test_25_a_gap_passes_from_thread_to_thread(ask: Ask) -> None:
    engine = 4243
    b = Build().kernel("A", 0, 100, launched=(-5, -4)).note(LOADER, 90, 160).op("backward", 160, 200)
    b.op("autograd::engine::evaluate_function: MmBackward0", 165, 175, tid=engine)
    b.kernel("B", 172, 180, launched=(170, 171), tid=engine)
    assert ask(b, "trace").parts == {"total": 180, "compute": 108, "input": 60, "launch": 12}


def test_26_a_stall_behind_queued_work_costs_nothing(ask: Ask) -> None:
    b = Build().step(1, -20, 280).note(LOADER, 100, 160).op("aten::mm", -18, -16)
    b.kernel("A", 0, 200, launched=(-15, -14)).kernel("B", 200, 260, launched=(190, 191))
    answer = ask(b)
    assert "input" not in answer.parts
    assert answer.shares["loader_share"] == pytest.approx(60 / 300)


def test_28_a_phase_wins_over_what_happens_in_it(ask: Ask) -> None:
    b = Build().kernel("A", 0, 100, launched=(-5, -4)).note("checkpoint", 90, 300)
    b.copy("Memcpy DtoH (Device -> Pageable)", 150, 160, launched=(110, 165), by="cudaMemcpy")
    b.call("cudaStreamSynchronize", 165, 250).kernel("B", 300, 310, launched=(290, 292))
    assert ask(b, "trace").parts == {"total": 310, "compute": 110, "copy_exposed": 10, "checkpoint": 190}


def test_29_a_trace_without_devices_counts_ops_and_host_collectives(ask: Ask) -> None:
    b = Build().step(1, 0, 100).op("aten::mm", 0, 40).note(LOADER, 40, 60).op("aten::mm", 60, 90)
    b.note("gloo:all_reduce", 90, 100)
    assert ask(b, device=None).parts == {
        "total": 100,
        "compute": 70,
        "communication_exposed": 10,
        "input": 20,
    }


def _pauses(mark: str | None) -> Build:
    """120 steps of 8 ms with 0.3 ms of loader, and 1 s after each twentieth."""
    b, at = Build(), 0
    for i in range(1, 121):
        b.step(i, at, at + 8000).note(LOADER, at, at + 300).op("aten::mm", at + 300, at + 340)
        b.kernel("k", at + 400, at + 7600, launched=(at + 350, at + 355))
        at += 8000
        if i % 20 == 0:
            if mark:
                b.note(mark, at, at + 1_000_000)
            at += 1_000_000
    return b


@pytest.mark.parametrize(("mark", "cause"), [(None, "python"), ("checkpoint", "checkpoint")])
def test_36_pauses_between_steps_are_not_the_loader(mark: str | None, cause: str) -> None:
    analysis = only(_pauses(mark))
    row = row_of(analysis, "steps")
    assert row.num_steps == 120
    assert set(uses(analysis).values()) <= {"counted", "marked"}
    assert row.total_ns == (120 * 8_000 + 5 * 1_000_000) * 1000
    assert row.idle.input_ns / row.total_ns <= 0.04
    idle = getattr(row.idle, f"{cause}_ns")
    assert idle >= 5_000_000_000
    assert row.idle.compile_ns == 0
    numbers = analysis.devices[0].numbers
    assert numbers["periodic_stall_steps"] == 20
    assert numbers["periodic_stall_share"] == pytest.approx(0.84, abs=0.01)
    assert all(value <= 1 for name, value in numbers.items() if name.endswith("_share"))
    shares = [getattr(row.host, name) for name in ("loader_share", "sync_share", "launch_share")]
    assert all(share is None or 0 <= share <= 1 for share in shares)


# ── what a busy or an empty device says ──────────────────────────────────────────────────────────────


def _mostly_communication() -> Build:
    b = Build().op("aten::mm", 3, 5)
    b.kernel(ALL_REDUCE, 0, 64, launched=(0, 1)).kernel("gemm", 64, 93, launched=(2, 3))
    return b


def test_37_a_busy_device_may_wait_for_communication(ask: Ask) -> None:
    answer = ask(_mostly_communication().step(1, 0, 100))
    assert answer.parts == {"total": 100, "communication_exposed": 64, "compute": 29, "python": 7}


def test_37_a_trace_without_kernels_has_no_device_numbers() -> None:
    b = Build().step(1, 0, 100).op("aten::mm", 0, 40)
    for i in range(5):
        b.call("cudaLaunchKernel", 40 + i, 40.5 + i)
    analysis = only(b)
    assert analysis.kernels == ()
    assert all(row.device.kind == "cpu" or row.status == "withheld" for row in analysis.accounting)
    for device in analysis.devices:
        assert "kernel_median_ns" not in device.numbers
        assert "launches_per_step" not in device.numbers
    assert issues(analysis, "no_device_data") or issues(analysis, "missing_kernels")


def test_37_without_steps_the_span_is_that_of_the_device(ask: Ask) -> None:
    answer = ask(_mostly_communication(), "trace")
    assert answer.parts == {"total": 93, "communication_exposed": 64, "compute": 29}


def test_37_without_steps_there_is_only_the_scope_trace() -> None:
    analysis = only(_mostly_communication())
    assert [row.scope for row in analysis.accounting] == ["trace"]
    assert issues(analysis, "no_steps")
    assert analysis.steps == ()


def test_spare_a_without_communication_kernels_there_is_no_overlap() -> None:
    analysis = only(_two_kernels())
    row = row_of(analysis, "trace")
    assert row.communication is None
    assert row.communication_exposed_ns == 0
    assert not analysis.collectives


def test_20_claimed_communication_is_never_more_than_exposed() -> None:
    b = Build().step(1, 0, 100).op("aten::mm", 3, 5)
    b.kernel(ALL_REDUCE, 1, 61, launched=(0, 1), stream=20).kernel("gemm", 37, 93, launched=(2, 3))
    for row in only(b).accounting:
        assert row.communication_exposed_ns == 36_000
        communication = row.communication
        assert communication is not None
        assert (communication.total_ns, communication.hidden_ns) == (60_000, 24_000)
        assert communication.total_ns - communication.hidden_ns <= row.communication_exposed_ns
        assert (communication.wait_exposed_ns or 0) <= row.communication_exposed_ns
        assert communication.transfer_ns is None
        assert communication.wait_ns is None


def test_27_a_slow_collective_on_one_rank_is_measured_against_one_direction_of_the_link() -> None:
    b = Build(
        world_size=8,
        deviceProperties=[{"id": 0, "name": "AMD Instinct MI300X", "numSms": 304, "warpSize": 64}],
    )
    b.step(1, 0, 10_000).op("aten::mm", 0, 5).note("nccl:all_reduce", 5, 20)
    b.kernel(
        ALL_REDUCE,
        20,
        9_220,
        launched=(10, 12),
        **{
            "Collective name": "allreduce",
            "In msg nelems": 8_800_000,
            "Out msg nelems": 8_800_000,
            "Group size": 8,
            "dtype": "BFloat16",
            "Process Group Name": "0",
            "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
        },
    )
    b.kernel("gemm", 9_220, 9_900, launched=(30, 32))
    numbers = only(b).devices[0].numbers
    assert numbers["bus_bytes_per_second"] == pytest.approx(3.348e9, rel=1e-3)
    assert numbers["bus_bandwidth_link_share"] == pytest.approx(0.00747, rel=2e-3)
    assert numbers["collective_group_size"] == 8
    assert numbers["collective_bytes"] == 17_600_000


# ── found by breaking it: each stands for its kind ──────────────────────────────────────────────────


def test_an_item_call_costs_the_wait_since_work_was_last_issued() -> None:
    """`.item()` issues a small copy behind all that is queued and waits: the copy's start is no limit."""
    b = Build()
    for n in range(5):
        at = 1000 * n
        b.step(n, at, at + 1000)
        for k in range(5):
            b.kernel("gemm", at + 12 + 80 * k, at + 92 + 80 * k, launched=(at + 10 + k, at + 11 + k))
        b.copy("Memcpy DtoH (Device -> Pinned)", at + 412, at + 414, launched=(at + 20, at + 22))
        b.call("cudaStreamSynchronize", at + 23, at + 415)
        b.op("aten::item", at + 19, at + 416)
    row = row_of(only(b), "steps")
    # Blocked 23 to 414 while the device was busy, 391 of the 600 idle behind it (the last step's tail aside).
    assert row.idle.host_sync_ns >= 4 * 390_000
    assert row.idle.python_ns + row.idle.launch_ns <= 5 * 220_000


def test_a_device_that_no_process_launched_on_is_not_lost() -> None:
    b = Build(rank=None)
    for pid, device in ((1000, 0), (1001, 1)):
        for i in range(4):
            b.raw(
                ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=pid, tid=pid, ts=10_000 + 100 * i,
                dur=2, args={"correlation": 10 * pid + i},
            ).raw(
                ph="X", cat="kernel", name="gemm", pid=device, tid=7, ts=10_010 + 100 * i, dur=50,
                args={"correlation": 10 * pid + i, "device": device, "stream": 7},
            )  # fmt: skip
    b.raw(ph="X", cat="kernel", name="gemm", pid=2, tid=7, ts=10_020, dur=50, args={"device": 2, "stream": 7})
    found = analyse(b)
    assert sorted(row.device.index for a in found for row in a.accounting) == [0, 1, 2]


def test_a_correlation_of_zero_links_nothing() -> None:
    b = Build()
    for i in range(5):
        b.raw(
            ph="X", cat="cuda_runtime", name="cudaLaunchKernel", pid=1, tid=1, ts=10_000 + 100 * i, dur=2,
            args={"correlation": 0},
        ).raw(
            ph="X", cat="kernel", name="gemm", pid=0, tid=7, ts=10_010 + 100 * i, dur=50,
            args={"correlation": 0, "device": 0, "stream": 7},
        )  # fmt: skip
    analysis = only(b)
    assert count_of(analysis, "missing_launch") == 5
    assert row_of(analysis, "trace").status == "withheld"


def _micro_steps(counts: list[int]) -> Build:
    b = Build()
    for n, count in enumerate(counts):
        b.step(n, 1000 * n, 1000 * n + 1000)
        for k in range(count):
            at = 1000 * n + 20 * k
            b.kernel("gemm", at + 6, at + 16, launched=(at + 1, at + 3))
    return b


def test_a_short_micro_step_at_the_edge_is_not_cut() -> None:
    assert set(uses(only(_micro_steps([10, 14, 14, 10, 14, 14, 10]))).values()) == {"counted"}
    assert uses(only(_micro_steps([14, 14, 14, 14, 6])))[4] == "partial"


def test_steps_that_count_anew_are_all_used_and_nested_ones_are_not() -> None:
    again = Build()
    for i, number in enumerate((0, 1, 2, 0, 1, 2)):
        again.step(number, 100 * i, 100 * i + 100)
        again.kernel("k", 100 * i + 10, 100 * i + 60, launched=(100 * i + 1, 100 * i + 2))
    assert row_of(only(again), "steps").num_steps == 6
    nested = Build()
    for i in range(4):
        nested.step(i, 1000 * i, 1000 * i + 1000).step(100 + i, 1000 * i + 300, 1000 * i + 500)
        nested.kernel("k", 1000 * i + 310, 1000 * i + 480, launched=(1000 * i + 305, 1000 * i + 307))
    row = row_of(only(nested), "steps")
    assert (row.num_steps, row.total_ns) == (4, 4_000_000)


@pytest.mark.parametrize(("written", "inset"), [("op", 0), ("mark", 0), ("mark", 0.25)])
def test_a_step_that_was_written_twice_is_one_step(written: str, inset: float) -> None:
    b = Build()
    for n in range(4):
        b.step(n, 1000 * n, 1000 * n + 1000)
        again = (1000 * n + inset, 1000 * n + 1000 - inset)
        b.op(f"ProfilerStep#{n}", *again) if written == "op" else b.step(n, *again)
        b.kernel("k", 1000 * n + 10, 1000 * n + 410, launched=(1000 * n + 1, 1000 * n + 2))
    row = row_of(only(b), "steps")
    assert (row.num_steps, row.total_ns, row.compute_ns) == (4, 4_000_000, 1_600_000)
    assert row.variation.slow_steps == ()


def test_devices_that_are_told_by_labels_alone_are_devices_of_their_own() -> None:
    """Without `args.device` the track's pid says the device; a label without a number gives no index."""
    for labels, indices in ((("GPU 0", "GPU 1"), [0, 1]), (("left", "right"), [None, None])):
        b = Build()
        for n, label in enumerate(labels):
            b.raw(ph="X", cat="kernel", name="k", pid=label, tid=7, ts=10 + 100 * n, dur=50, args={})
        devices = only(b).devices
        assert [d.accounting.device.index for d in devices] == indices
        assert [d.accounting.compute_ns for d in devices] == [50_000, 50_000]


def test_the_stub_of_a_step_at_the_end_of_the_loader_is_not_counted() -> None:
    b = Build()
    for n in range(3):
        b.step(n, 1000 * n, 1000 * n + 1000).op("aten::mm", 1000 * n, 1000 * n + 900)
    b.step(3, 3000, 3002)
    assert uses(only(b)) == {0: "counted", 1: "counted", 2: "counted", 3: "partial"}


def test_a_bandwidth_that_no_link_carries_is_withheld() -> None:
    b = Build(world_size=8, deviceProperties=[{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}])
    b.kernel(
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 20, launched=(1, 2),
        **{"Collective name": "allreduce", "In msg nelems": 4_400_000, "Out msg nelems": 4_400_000,
           "Group size": 8, "dtype": "Float"},
    )  # fmt: skip
    analysis = only(b)
    assert analysis.collectives[0].bus_bytes_per_second is None
    assert count_of(analysis, "unit_suspect") == 1


@pytest.mark.parametrize("pid", [-1, -7])
def test_a_process_with_a_negative_pid_is_a_process(pid: int) -> None:
    b = Build(pid=pid)
    b.step(1, 0, 100).kernel("k", 10, 60, launched=(1, 2))
    assert row_of(only(b), "steps").compute_ns == 50_000


@pytest.mark.parametrize("number", ["99999999999999999999999", "9223372036854775808", "0"])
def test_any_step_number_is_survived(number: str) -> None:
    b = Build().kernel("k", 10, 60, launched=(1, 2))
    b.raw(ph="X", cat="user_annotation", name=f"ProfilerStep#{number}", pid=4242, tid=4242, ts=10_000, dur=0)
    # What does not fit 64 bits counts as the largest number that does.
    assert [step.step for step in only(b).steps] == [min(int(number), 2**63 - 1)]


def test_with_stacks_the_users_own_line_is_named() -> None:
    """Loader and fetcher only pass the call on; the dataset's line and what it waits in are named."""
    chain = [
        ("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 0),
        ("python_function", "torch/utils/data/dataloader.py(720): __next__", 0.1),
        ("python_function", "torch/utils/data/_utils/fetch.py(49): fetch", 0.3),
        ("python_function", "train.py(9): __getitem__", 0.6),
        ("python_function", "<built-in function sleep>", 1.2),
    ]
    b = Build()
    for n in range(3):
        at = 200 * n
        b.step(n, at, at + 200)
        for cat, name, inset in chain:
            b.raw(
                ph="X", cat=cat, name=name, pid=4242, tid=4242, ts=10_000 + at + inset,
                dur=round(100 - 2 * inset, 3),
            )  # fmt: skip
        b.kernel("k", at + 110, at + 190, launched=(at + 105, at + 107))
    named = [c.name for c in only(b).devices[0].culprits["input"]]
    assert named == ["train.py(9): __getitem__", "<built-in function sleep>"]
