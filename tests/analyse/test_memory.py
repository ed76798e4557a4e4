"""Memory of a trace: levels, peaks, who allocated, growth, driver calls, categories."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.memory.category import alive_at
from stepscope.analyse.memory.growth import LEAST_STEPS, growth
from stepscope.analyse.memory.series import MOST_POINTS, Series, peaks_of, points
from stepscope.analyse.rank import analyse_rank
from stepscope.model import report
from stepscope.trace.load import load_bytes
from tests.analyse.build import AT_US, BASE_NS, Build

MB = 1 << 20
OTHER_THREAD = 77


def memory_of(build: Build) -> tuple[report.Memory, ...]:
    return analyse_rank(load_bytes(build.bytes(), "t.json"), rank=0)[0].memory


def at_ns(us: int) -> int:
    return BASE_NS + (AT_US + us) * 1000


def training_step() -> Build:
    """One step of 100 µs behind one of warm-up: 40 MB were there, 10 come forward, 5 backward, 2 with the
    optimizer, all alive at the peak; 7 MB of the forward pass are freed before it."""
    b = Build().steps(1, [0, 100, 200])
    for start in (0, 100):
        b.kernel("gemm", start + 10, start + 90, launched=(start + 5, start + 6))
    b.op("aten::linear", 110, 130).op("aten::empty", 112, 114)
    b.memory(113, 10 * MB, address=1, allocated=50 * MB, reserved=80 * MB)
    b.memory(120, 7 * MB, address=2, allocated=57 * MB, reserved=80 * MB)
    b.note("autograd::engine::evaluate_function: MmBackward0", 140, 160, tid=OTHER_THREAD)
    b.op("aten::mm", 142, 150, tid=OTHER_THREAD)
    b.memory(145, 5 * MB, address=3, allocated=62 * MB, reserved=80 * MB, tid=OTHER_THREAD)
    b.memory(150, -7 * MB, address=2, allocated=55 * MB, reserved=80 * MB, tid=OTHER_THREAD)
    b.note("Optimizer.step#Adam.step", 170, 190).op("aten::zeros_like", 171, 180)
    b.memory(175, 2 * MB, address=2, allocated=57 * MB, reserved=80 * MB)
    b.memory(180, 6 * MB, address=5, allocated=63 * MB, reserved=80 * MB)
    b.memory(185, -6 * MB, address=5, allocated=57 * MB, reserved=80 * MB)
    return b


def test_the_peak_is_told_with_its_moment_step_and_op() -> None:
    (row,) = memory_of(training_step())
    assert row.peak == report.MemoryPeak(
        at_ns=at_ns(180),
        allocated_bytes=63 * MB,
        reserved_bytes=80 * MB,
        step=2,
        op="aten::zeros_like",
        within="Optimizer.step#Adam.step",
    )
    assert (row.source, row.basis, row.num_events, row.device.index) == ("trace", "totals", 7, 0)
    assert [point.allocated_bytes // MB for point in row.timeline] == [50, 57, 62, 55, 57, 63, 57]


def test_memory_alive_at_the_peak_is_of_the_phase_that_allocated_it() -> None:
    (row,) = memory_of(training_step())
    told = {each.kind: each.bytes // MB for each in row.categories}
    assert told == {"before": 40, "activations": 10, "optimizer_state": 8, "gradients": 5}
    assert sum(each.bytes for each in row.categories) == 63 * MB


@pytest.mark.parametrize("lacks", ["addresses", "totals", "steps", "backward", "optimizer"])
def test_categories_are_absent_where_they_cannot_be_told(lacks: str) -> None:
    build = training_step()
    for event in build.events:
        gone = {"addresses": "Addr", "totals": "Total Allocated"}.get(lacks, "")
        event.get("args", {}).pop(gone, None)
    prefix = {"steps": "ProfilerStep", "backward": "autograd", "optimizer": "Optimizer"}.get(lacks)
    if prefix:
        build.events = [event for event in build.events if not event["name"].startswith(prefix)]
    (row,) = memory_of(build)
    assert row.categories == ()
    assert row.peak is not None


def test_without_totals_levels_are_above_the_lowest_one() -> None:
    """The profilers of 2021 write only what changes: 3 MB were there at least, for they are freed."""
    b = Build().op("aten::mm", 0, 90)
    for at, size in ((10, 8 * MB), (20, -11 * MB), (30, 5 * MB)):
        b.memory(at, size)
    (row,) = memory_of(b)
    assert row.basis == "changes"
    assert [point.allocated_bytes // MB for point in row.timeline] == [11, 0, 5]
    assert row.reserve is None
    assert row.timeline[0].reserved_bytes is None


def test_host_memory_is_kept_apart_and_has_no_reserve() -> None:
    b = training_step()
    b.memory(115, 3 * MB, address=9, allocated=3 * MB, reserved=0, device=-1, device_type=0)
    device, host = memory_of(b)
    assert (device.num_events, host.num_events) == (7, 1)
    assert host.device == report.Device(kind="cpu")
    assert host.reserve is None
    assert host.peak is not None
    assert host.peak.reserved_bytes is None


def test_devices_are_kept_apart() -> None:
    b = training_step().memory(115, 3 * MB, address=9, allocated=300 * MB, reserved=400 * MB, device=1)
    assert [(row.device.index, row.num_events) for row in memory_of(b)] == [(0, 7), (1, 1)]


def test_a_trace_without_memory_events_has_no_memory() -> None:
    assert memory_of(Build().op("aten::mm", 0, 90)) == ()


def test_a_file_that_is_cut_has_no_memory() -> None:
    whole = training_step().bytes()
    cut = analyse_rank(load_bytes(whole[: int(len(whole) * 0.9)], "t.json"), rank=0)[0]
    assert cut.is_cut
    assert cut.memory == ()


def test_the_reserve_that_grew_is_judged_when_it_grew() -> None:
    b = Build().op("aten::mm", 0, 90)
    b.memory(10, MB, allocated=60 * MB, reserved=80 * MB)
    b.memory(20, MB, allocated=61 * MB, reserved=100 * MB)
    b.memory(30, MB, allocated=90 * MB, reserved=100 * MB)
    (row,) = memory_of(b)
    assert row.reserve == report.MemoryReserve(
        at_ns=at_ns(20), reserved_bytes=100 * MB, allocated_bytes=61 * MB, unused_share=0.39, grew=True
    )


def test_a_reserve_that_was_there_before_is_judged_where_the_least_lay_unused() -> None:
    b = Build().op("aten::mm", 0, 90)
    b.memory(10, MB, allocated=60 * MB, reserved=100 * MB)
    b.memory(20, MB, allocated=90 * MB, reserved=100 * MB)
    b.memory(30, -MB, allocated=70 * MB, reserved=80 * MB)
    (row,) = memory_of(b)
    assert row.reserve is not None
    assert (row.reserve.grew, row.reserve.unused_share) == (False, pytest.approx(0.1))


def driver_calls() -> Build:
    b = Build().steps(1, [0, 100, 200, 300])
    for start in (0, 100, 200):
        b.kernel("gemm", start + 10, start + 90, launched=(start + 5, start + 6))
    b.memory(20, MB, allocated=MB, reserved=2 * MB)
    for name, at in (
        ("cudaFree", 110),
        ("cudaFree", 111),
        ("cudaMalloc", 112),
        ("cudaMalloc", 113),
        ("cudaFree", 120),
        ("cudaMalloc", 121),
        ("cudaFree", 199),
        ("cudaMalloc", 201),  # in the next step
        ("cudaMallocHost", 202),
        ("cudaMalloc", 400),  # outside every step
    ):
        b.call(name, at, at + 0.5)
    return b


def test_driver_calls_are_counted_in_steps_and_retries_within_one() -> None:
    (row,) = memory_of(driver_calls())
    assert row.driver == report.DriverCalls(num_allocations=4, num_frees=4, num_retries=2, steps=(2, 3))


def test_of_several_devices_nobody_knows_whose_driver_calls_they_are() -> None:
    rows = memory_of(driver_calls().memory(21, MB, allocated=MB, reserved=2 * MB, device=1))
    assert [row.driver for row in rows] == [None, None]


def steps_of(*peaks: float) -> list[report.MemoryStep]:
    return [report.MemoryStep(step=5 + i, peak_bytes=round(peak * MB)) for i, peak in enumerate(peaks)]


def test_a_ramp_grows_by_its_slope() -> None:
    found = growth(steps_of(*(100 + 3 * i for i in range(12))))
    assert found is not None
    assert found.bytes_per_step == 3 * MB
    assert found.steady_share == 1.0
    assert found.num_steps == 12
    # All 66 pairs rise; of chance their sum has a variance of 12 · 11 · 29 / 18.
    assert found.certainty == pytest.approx(65 / (12 * 11 * 29 / 18) ** 0.5)
    assert found.error_bytes_per_step < 100


def test_a_jump_is_no_growth() -> None:
    """Optimizer state made in the third step, an evaluation that begins in the middle."""
    for at in (2, 6, 9):
        found = growth(steps_of(*(100 + 50 * (i >= at) for i in range(12))))
        assert found is not None
        assert found.steady_share == 0.0


def test_uneven_batches_are_noise() -> None:
    rng = np.random.default_rng(7)
    found = growth(steps_of(*(1000 + rng.normal(0, 80, 40))))
    assert found is not None
    assert abs(found.bytes_per_step) < 3 * found.error_bytes_per_step
    assert found.error_bytes_per_step > MB / 2


@pytest.mark.parametrize("num_steps", [LEAST_STEPS, 20])
def test_noise_alone_is_hardly_ever_called_certain(num_steps: int) -> None:
    """The figure that memory-creep's threshold is chosen by: about one run in a thousand."""
    rng = np.random.default_rng(1)
    found = [growth(steps_of(*rng.normal(20_000, 2_000, num_steps))) for _ in range(500)]
    assert sum(each is not None and each.certainty >= 3 for each in found) <= 2


def test_one_odd_step_bends_nothing() -> None:
    peaks = [100 + 3 * i for i in range(12)]
    peaks[5] = 900
    found = growth(steps_of(*peaks))
    assert found is not None
    assert found.bytes_per_step == pytest.approx(3 * MB, rel=0.01)


def test_too_few_steps_withhold_growth() -> None:
    peaks = [100 + 3 * i for i in range(LEAST_STEPS)]
    assert growth(steps_of(*peaks[:-1])) is None
    assert growth(steps_of(*peaks)) is not None


@given(
    st.lists(st.integers(0, 1 << 34), min_size=LEAST_STEPS, max_size=30),
    st.integers(-(1 << 30), 1 << 30),
)
def test_growth_turns_with_what_is_added(peaks: list[int], more: int) -> None:
    """A level added to all steps changes nothing; a ramp added to them changes the slope by its own."""
    steps = [report.MemoryStep(step=i, peak_bytes=peak) for i, peak in enumerate(peaks)]
    raised = [report.MemoryStep(step=i, peak_bytes=peak + 10**9) for i, peak in enumerate(peaks)]
    ramped = [report.MemoryStep(step=i, peak_bytes=peak + more * i) for i, peak in enumerate(peaks)]
    plain, up, ramp = growth(steps), growth(raised), growth(ramped)
    assert plain is not None
    assert up is not None
    assert ramp is not None
    assert up.bytes_per_step == pytest.approx(plain.bytes_per_step, abs=1e-3)
    assert ramp.bytes_per_step == pytest.approx(plain.bytes_per_step + more, abs=1e-3)
    assert 0.0 <= plain.steady_share <= 1.0
    assert plain.error_bytes_per_step > 0


def test_growth_is_of_counted_steps_alone() -> None:
    """The first step compiles and holds 500 MB more: it is in the table of peaks and not in the slope."""
    bounds = [0, 1000, *(1000 + 100 * (i + 1) for i in range(11))]
    b = Build().steps(1, bounds).note("_compile.compile_inner", 10, 900)
    level = 0
    for i, start in enumerate(bounds[:-1]):
        b.kernel("gemm", start + 10, start + 90, launched=(start + 5, start + 6))
        peak = 600 if i == 0 else 100 + 2 * i
        b.memory(start + 20, (peak - level) * MB, allocated=peak * MB, reserved=900 * MB)
        level = peak
    analysis = analyse_rank(load_bytes(b.bytes(), "t.json"), rank=0)[0]
    assert analysis.steps[0].use == "warm_up"
    (row,) = analysis.memory
    assert row.growth is not None
    assert row.growth.bytes_per_step == pytest.approx(2 * MB)
    # The peak of a step begins at the level it was entered with.
    assert [each.peak_bytes // MB for each in row.steps[:2]] == [600, 104]


def test_growth_leaves_out_steps_that_are_marked() -> None:
    """Of twelve steps one writes a checkpoint."""
    b = Build().steps(1, [100 * i for i in range(13)]).note("save_checkpoint", 510, 590)
    for i in range(12):
        b.kernel("gemm", 100 * i + 10, 100 * i + 90, launched=(100 * i + 5, 100 * i + 6))
        b.memory(100 * i + 20, MB, allocated=(i + 1) * MB, reserved=99 * MB)
    analysis = analyse_rank(load_bytes(b.bytes(), "t.json"), rank=0)[0]
    assert [step.step for step in analysis.steps if step.use == "marked"] == [6]
    (row,) = analysis.memory
    assert row.growth is not None
    assert (len(row.steps), row.growth.num_steps) == (12, 11)


def series(levels: list[int], reserved: list[int] | None) -> Series:
    level = np.array(levels, dtype=np.int64)
    return Series(
        ts_ns=np.arange(len(level), dtype=np.int64) * 1000 + BASE_NS,
        allocated=level,
        reserved=None if reserved is None else np.array(reserved, dtype=np.int64),
        bytes=np.diff(level, prepend=0),
        address=np.zeros(len(level), dtype=np.int64),
        track_id=np.zeros(len(level), dtype=np.int32),
        basis="totals",
    )


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=600), st.booleans()
)
def test_few_points_keep_every_extreme(levels: list[tuple[int, int]], has_reserve: bool) -> None:
    allocated, reserved = [a for a, _ in levels], [r for _, r in levels]
    told = points(series(allocated, reserved if has_reserve else None))
    assert 1 <= len(told) <= MOST_POINTS
    assert all(a.at_ns < b.at_ns for a, b in itertools.pairwise(told))
    assert max(p.allocated_bytes for p in told) == max(allocated)
    assert min(p.allocated_bytes for p in told) == min(allocated)
    if has_reserve:
        held = [p.reserved_bytes for p in told if p.reserved_bytes is not None]
        assert (max(held), min(held)) == (max(reserved), min(reserved))
    assert (told[0].at_ns, told[-1].at_ns) == (BASE_NS, BASE_NS + 1000 * (len(levels) - 1))


def test_the_peak_of_a_stretch_begins_with_the_level_it_was_entered_with() -> None:
    of = series([5, 9, 4, 4, 7], None)
    start = np.array([-5000, 0, 1500, 3500, 9000], dtype=np.int64) + BASE_NS
    end = np.array([-1000, 1500, 2500, 4500, 9999], dtype=np.int64) + BASE_NS
    assert peaks_of(of, start, end) == [None, 9, 9, 7, 7]


def test_the_level_before_the_first_event_is_known_from_its_change() -> None:
    """The first event frees 60 of what was 100."""
    of = dataclasses.replace(series([40, 50], None), bytes=np.array([-60, 10], dtype=np.int64))
    whole = np.array([0], dtype=np.int64) + BASE_NS
    assert peaks_of(of, whole, whole + 5000) == [100]


def test_memory_freed_before_the_peak_is_not_alive_at_it() -> None:
    of = dataclasses.replace(series([3, 8, 5, 9, 4], None), address=np.array([1, 2, 1, 1, 2], dtype=np.int64))
    assert of.bytes.tolist() == [3, 5, -3, 4, -5]
    assert alive_at(of, 2).tolist() == [1]
    assert alive_at(of, 3).tolist() == [1, 3]
    assert alive_at(of, 4).tolist() == [3]
