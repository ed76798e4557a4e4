"""The parts of the check that need neither a GPU nor torch: counters, thresholds, wants, verdicts, budget."""

from __future__ import annotations

import gzip
import json
import tarfile
from itertools import count
from pathlib import Path

import pytest

from stepscope.model.error import InputError, RefusedError, UnusableError
from stepscope.sources.telemetry import read_parts
from tests.tools.nvml import UUID, Fake
from tools.gpu_check import need, threshold
from tools.gpu_check.budget import Budget
from tools.gpu_check.case import BY_NAME, CASES, cases_for
from tools.gpu_check.judge import cost_of, outcome_of
from tools.gpu_check.keep import cut, pack
from tools.gpu_check.record import Recorder, write
from tools.gpu_check.sample import Device, Reading

WALL_NS, MONO_NS = 1_800_000_000_000_000_000, 5_000_000_000


def readings(nvml, num=6, period_ns=100_000_000):
    """Looks at a device, one a period."""
    now = [0]
    made = Device(nvml, 0, lambda: WALL_NS + now[0], lambda: MONO_NS + now[0])
    seen = []
    for number in range(num):
        now[0] = number * period_ns
        seen.append(made.read())
    return seen


def device(nvml):
    """A device whose clocks go on by a third of a period at each look at them."""
    ticks = count()
    return Device(nvml, 0, lambda: WALL_NS, lambda: MONO_NS + next(ticks) * 34_000_000)


def test_the_first_look_has_no_ratios_and_later_ones_state_their_window():
    first, *later = readings(Fake())
    assert (first.window_ns, dict(first.ratios)) == (None, {})
    assert {each.window_ns for each in later} == {100_000_000}
    assert later[0].ratios == {
        "sm_active_ratio": pytest.approx(0.95),
        "sm_occupancy_ratio": 0.4,
        "tensor_active_ratio": 0.8,
        "dram_active_ratio": pytest.approx(0.3),
    }


def test_a_metric_that_is_refused_or_no_number_is_absent_and_not_zero():
    nvml = Fake(per_cent={2: float("nan"), 5: 50.0})
    assert readings(nvml)[2].ratios == {"tensor_active_ratio": 0.5}
    values = readings(Fake())[0].values
    assert "pcie_link_gen" not in values  # the driver says Not Supported
    assert values["power_watts"] == 350.5
    assert values["sm_clock_hertz"] == 1.485e9


def test_two_looks_nearer_than_the_floor_give_no_ratios():
    seen = readings(Fake(), period_ns=60_000_000)
    assert [bool(each.ratios) for each in seen] == [False, False, True, False, True, False]


def test_without_gpm_the_basic_values_are_read_and_the_note_says_what_is_missing():
    made = device(Fake(has_gpm=False))
    assert not made.reads_gpm
    assert made.read().ratios == {}
    assert "no GPM" in need.counter_note(made)


def test_the_files_say_what_was_read_with_its_times(tmp_path):
    seen = readings(Fake(pids=(41, 42)), num=12)
    counters, processes = write(seen, tmp_path, UUID, "NVIDIA H200")
    parts = {part.format: part for path in (counters, processes) for part in read_parts(str(path))}
    series = {each.signal: each for each in parts["dcgm-exporter"].series}
    assert series["sm_active_ratio"].value.tolist() == pytest.approx([0.95] * 11)
    assert series["sm_active_ratio"].at_ns.tolist() == [each.wall_ns for each in seen[1:]]
    assert series["power_watts"].value[0] == pytest.approx(350.5)
    assert series["memory_used_bytes"].value[0] == 3 << 30
    assert series["sm_clock_max_hertz"].value[0] == 1.98e9
    assert series["sm_active_ratio"].owner.uuid == UUID
    listed = {each.owner.pid: each for each in parts["nvidia-smi-apps"].series}
    assert set(listed) == {41, 42}
    assert listed[41].at_ns[0] == seen[0].wall_ns
    assert listed[41].value[0] == 2 << 30
    assert f"# mono_ns {seen[1].mono_ns} window_ns 100000000" in counters.read_text()


def test_the_recorder_reads_until_it_is_told_to_stop_and_gives_its_samples_back():
    nvml = Fake()
    looks = count()

    def sleep(seconds):
        return next(looks) >= 9

    with Recorder(device(nvml), sleep) as recorder:
        recorder._thread.join(timeout=30)
    assert len(recorder.readings) == 10
    assert (nvml.num_samples, nvml.num_freed) == (2, 2)
    assert len(recorder.between(WALL_NS, WALL_NS)) == 10
    assert recorder.between(WALL_NS + 10**9, WALL_NS + 2 * 10**9) == []


def test_a_driver_that_stops_answering_ends_the_readings_and_is_said():
    nvml = Fake()

    def lost(handle, sample):
        raise nvml.NVMLError("GPU is lost")

    nvml.nvmlGpmSampleGet = lost
    with Recorder(device(nvml), lambda seconds: False) as recorder:
        recorder._thread.join(timeout=30)
    assert recorder.fault == "the driver stopped answering: GPU is lost"


# ── wants ──


@pytest.mark.parametrize(
    ("found", "kind", "said"),
    [
        ({"fault": "no-cuda", "why": "torch is built without CUDA"}, UnusableError, "no CUDA device"),
        ({"fault": "old-driver", "why": "too old (found version 11040)"}, UnusableError, "driver is too old"),
        ({"fault": "broken", "why": "CUDA error: unknown error"}, UnusableError, "does not answer"),
        ({"num_kernels": 0, "injectors": []}, RefusedError, "another profiler is active;"),
        ({"num_kernels": 0, "injectors": ["CUDA_INJECTION64_PATH"]}, RefusedError, "64_PATH is set"),
        ({"error": "took longer than the 60 s that it had"}, UnusableError, "cannot be tried"),
    ],
)  # fmt: skip
def test_what_stands_in_the_way_is_one_line_with_its_mend(found, kind, said):
    with pytest.raises(kind, match=said) as caught:
        need.check_probe(found)
    assert ";" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_python_without_torch_is_named():
    with pytest.raises(InputError, match=r"python9: no torch: .*--python"):
        need.check_torch({"error": "no torch: No module named 'torch'"}, "python9")


def test_a_driver_without_a_library_and_a_binding_that_is_not_there_are_told_apart():
    def none():
        raise ImportError("No module named 'pynvml'")

    with pytest.raises(InputError, match="pip install nvidia-ml-py"):
        need.open_nvml(none)
    nvml = Fake()

    def broken():
        raise nvml.NVMLError("NVML Shared Library Not Found")

    nvml.nvmlInit = broken
    with pytest.raises(UnusableError, match="Shared Library Not Found; look whether nvidia-smi"):
        need.open_nvml(lambda: nvml)


def test_the_device_is_found_by_uuid_or_by_being_the_only_one():
    assert need.find_device(Fake(count=3), UUID.removeprefix("GPU-")) == 0
    assert need.find_device(Fake(count=1), None) == 0
    with pytest.raises(UnusableError, match="which of 3 devices"):
        need.find_device(Fake(count=3), None)


def test_a_device_that_others_use_is_refused_with_what_was_measured():
    seen = readings(Fake(busy=37, pids=(9,)))
    with pytest.raises(RefusedError, match=r"37% busy, 1 processes, 3.0 GiB held .*--busy-ok"):
        need.check_free(seen, False)
    assert "figures may be off" in need.check_free(seen, True)
    assert need.check_free(readings(Fake(busy=2)), False) is None
    # Who holds memory and does nothing is said and does not stop us.
    assert "0% busy, 1 processes" in need.check_free(readings(Fake(pids=(9,))), False)


# ── thresholds ──

H200_BF16, H200_BANDWIDTH = 9.89e14, 4.8e12


def ran(name, precision, share, ratios):
    """A kernel that ran 2 s at a share of the peak (of bandwidth for a copy), and its readings."""
    row = {
        "name": name, "precision": precision, "start_ns": WALL_NS, "end_ns": WALL_NS + 2_000_000_000,
        "flops": share * H200_BF16 if precision else 0.0,
        "bytes_per_second": 1e12 if precision else share * H200_BANDWIDTH,
    }  # fmt: skip
    seen = [
        Reading(WALL_NS + 100_000_000 * n, 0, 0, 100_000_000, ratios if n > 2 else {"sm_active_ratio": 0.0},
                {"sm_clock_hertz": 1.98e9, "sm_clock_max_hertz": 1.98e9})
        for n in range(21)
    ]  # fmt: skip
    return threshold.known([row], seen, "NVIDIA H200")[0]


GOOD = {
    "sm_active_ratio": 0.97,
    "sm_occupancy_ratio": 0.2,
    "tensor_active_ratio": 0.8,
    "dram_active_ratio": 0.2,
}
STREAM = {
    "sm_active_ratio": 0.9,
    "sm_occupancy_ratio": 0.6,
    "tensor_active_ratio": 0.0,
    "dram_active_ratio": 0.8,
}


def test_known_kernels_that_behave_meet_every_threshold():
    kernels = [ran("matmul-bf16", "bf16", 0.7, GOOD), ran("copy", "", 0.9, STREAM)]
    assert kernels[0].features["sm_active_mean"] == pytest.approx(0.97)  # the rise of the clock is left out
    assert kernels[0].features["flops_peak_share"] == pytest.approx(0.7)
    assert kernels[1].features["memory_peak_share"] == pytest.approx(0.9)
    found = threshold.checks(kernels)
    assert all(each.passed for each in found)
    deciding = [(each.clause, each.kernel, each.holds) for each in found if each.wanted is not None]
    assert deciding == [
        ("sm_active_mean > 0.9", "matmul-bf16", True),
        ("large_gemm_peak_share < 0.6", "matmul-bf16", False),
        ("dram_active_mean >= 0.6", "copy", True),
        ("dram_active_mean >= 0.6", "matmul-bf16", False),
        ("tensor_active_mean <= 0.3", "copy", True),
        ("tensor_active_mean <= 0.3", "matmul-bf16", False),
    ]
    assert "as written" in threshold.table(kernels, found)


def test_a_product_at_half_of_its_peak_and_a_copy_that_does_not_stream_are_told():
    kernels = [
        ran("matmul-bf16", "bf16", 0.5, GOOD),
        ran("copy", "", 0.5, {**STREAM, "dram_active_ratio": 0.4}),
    ]
    failed = [(each.clause, each.kernel) for each in threshold.checks(kernels) if not each.passed]
    assert failed == [("large_gemm_peak_share < 0.6", "matmul-bf16"), ("dram_active_mean >= 0.6", "copy")]


def test_what_was_not_measured_is_not_judged():
    assert threshold.checks([ran("matmul-bf16", "bf16", 0.7, {})]) != []
    only_rate = threshold.checks([ran("copy", "", 0.9, {})])
    assert only_rate == []


# ── verdicts ──


@pytest.mark.parametrize(
    ("name", "told", "cost", "outcome", "passed"),
    [
        ("no-workers", ["input-starvation"], 0.4, "right", True),
        ("no-workers", ["launch-bound", "input-starvation"], 0.4, "top 3", True),
        ("no-workers", ["launch-bound"], 0.4, "wrong", False),
        ("no-workers", [], 0.4, "abstained", False),
        ("no-workers", [], 0.03, "abstained", True),  # it costs nothing here
        ("tf32-off", ["unfused-elementwise", "tf32-off"], 0.5, "right", True),  # true without the fault too
        ("healthy-transformer", [], 0.0, "right", True),
        ("healthy-transformer", ["launch-bound"], 0.0, "wrong", False),
    ],
)
def test_an_outcome_follows_from_what_was_done_and_what_it_cost(name, told, cost, outcome, passed):
    assert outcome_of(BY_NAME[name], "cuda", told, cost)[:2] == (outcome, passed)


def test_on_a_cpu_a_fault_without_a_rule_is_due_silence():
    assert outcome_of(BY_NAME["tiny-kernels"], "cpu", [], 0.9)[:2] == ("abstained", True)
    assert outcome_of(BY_NAME["tiny-kernels"], "cuda", [], 0.9)[:2] == ("abstained", False)


def test_a_neighbour_that_the_driver_numbers_otherwise_is_due_nothing():
    case = BY_NAME["co-tenant"]
    assert outcome_of(case, "cuda", [], 0.5, is_seen=False)[:2] == ("abstained", True)


def test_the_cost_of_a_fault_is_by_sample_and_not_by_step():
    measured = {"healthy_seconds": 0.02, "healthy_samples": 16, "faulty_seconds": 0.02, "faulty_samples": 1}
    assert cost_of(measured) == pytest.approx(15 / 16)


def test_every_rule_of_a_case_is_in_the_catalogue():
    from stepscope.rules import load_catalog

    known = set(load_catalog().rules)
    assert {rule for case in CASES for rule in (*case.rules, *case.tolerated)} <= known
    with pytest.raises(ValueError, match=r"no case nothing; there are: healthy-transformer"):
        cases_for("cuda", ("nothing",))


def test_the_page_names_every_case_and_its_rules():
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/check-on-a-gpu.md").read_text()
    assert [case.name for case in CASES if f"`{case.name}`" not in page] == []
    table = [line for line in page.splitlines() if line.startswith("| `")]
    for case in CASES:
        row = next(line for line in table if f"`{case.name}`" in line)
        if case.name != "fragmentation":
            assert set(case.rules) - {"host-preprocessing"} <= {r for r in case.rules if f"`{r}`" in row}


# ── time, and what is kept ──


def test_a_stage_that_does_not_fit_is_left_out_and_said():
    now = [0.0]
    budget = Budget(100.0, lambda: now[0])
    now[0] = 70.0
    assert budget.has("bursts", 30.0)
    assert not budget.has("kernels", 31.0)
    assert budget.share(3, 0.0) == pytest.approx(10.0)
    now[0] = 120.0
    assert not budget.has("cases", 1.0)
    assert budget.skipped == ["kernels: needs 31 s, 30 s are left", "cases: needs 1 s, 0 s are left"]


def test_what_is_kept_has_no_identity_and_is_small(tmp_path):
    steps = [
        {"ph": "X", "name": f"ProfilerStep#{n}", "cat": "user_annotation", "ts": 1e6 * n, "dur": 9e5}
        for n in range(10)
    ]
    whole = {
        "host_name": "gpu-node-17", "baseTimeNanoseconds": 5,
        "deviceProperties": [{"name": "H200", "uuid": UUID}],
        "distributedInfo": {"rank": 0, "host": "gpu-node-17"},
        "traceEvents": [*steps, {"ph": "X", "name": "/home/ann/train.py(3): main", "ts": 5.0, "dur": 1.0},
                        {"ph": "M", "name": "process_name", "args": {"token": "HF_TOKEN=hf_" + "a" * 34}}],
    }  # fmt: skip
    (tmp_path / "rank0.pt.trace.json.gz").write_bytes(gzip.compress(json.dumps(whole).encode()))
    write(readings(Fake()), tmp_path, UUID, "NVIDIA H200")
    target = tmp_path / "kept" / "one.tar.gz"
    size = pack(tmp_path, {"date": "2026-01-02", "device": "NVIDIA H200"}, target)
    assert size == target.stat().st_size < 4_000_000
    with tarfile.open(target) as archive:
        files = {member.name: archive.extractfile(member).read() for member in archive}
    files["trace"] = gzip.decompress(files.pop("rank0.pt.trace.json.gz"))
    assert set(files) == {"about.json", "counters.prom", "trace"}
    for said in (b"gpu-node-17", b"/home/ann/", b"hf_aaa", UUID.encode(), UUID[4:].encode()):
        assert not [name for name, data in files.items() if said in data], said
    assert json.loads(files["about.json"])["device"] == "NVIDIA H200"
    assert len(json.loads(files["trace"])["traceEvents"]) == 12
    again = tmp_path / "again.tar.gz"
    pack(tmp_path, {"date": "2026-01-02", "device": "NVIDIA H200"}, again)
    assert again.read_bytes() == target.read_bytes()


def test_a_trace_is_cut_at_the_end_of_a_step():
    trace = {
        "traceEvents": [
            {"ph": "X", "name": f"ProfilerStep#{n}", "ts": 100.0 * n, "dur": 100.0} for n in range(10)
        ]
        + [{"ph": "X", "name": "op", "ts": 950.0, "dur": 1.0}, {"ph": "M", "name": "process_name"}]
    }
    left = cut(trace, 0.5)["traceEvents"]
    assert [each["name"] for each in left] == [*(f"ProfilerStep#{n}" for n in range(5)), "process_name"]
