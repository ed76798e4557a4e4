"""Where ops stand under a device's limits, with numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from stepscope.analyse.roofline import NOT_KNOWN, roofline
from stepscope.analyse.work import Work
from stepscope.model import report
from stepscope.model.hardware import Hardware, hardware_of
from tests.analyse.build import Build

H100 = hardware_of("NVIDIA H100 80GB HBM3")
V100 = hardware_of("Tesla V100-SXM2-16GB")
assert H100 is not None
assert V100 is not None
BF16_PEAK, TF32_PEAK, FP32_PEAK = (H100.peak_flops[name] for name in ("bf16", "tf32", "fp32"))
BANDWIDTH = H100.memory_bytes_per_second or 0.0
MS = 1_000_000


def at_peak(milliseconds: float, peak: float, precision: str, num_bytes: int = 1) -> Work:
    """A matrix product that takes so long at this peak."""
    return Work(round(milliseconds * 1e-3 * peak), num_bytes, precision, is_matrix=True)


def test_half_of_the_peak_is_half() -> None:
    place = roofline([(at_peak(2, BF16_PEAK, "bf16"), 1, 2)], 8 * MS, H100)
    assert place.peak_share == pytest.approx(0.5)
    assert place.bound == "compute"
    assert place.achieved_flops_per_second == pytest.approx(BF16_PEAK / 2)


@pytest.mark.parametrize(("cores", "peak"), [(1, TF32_PEAK), (0, FP32_PEAK)])
def test_a_product_in_fp32_has_the_peak_that_its_kernels_tell(cores: int, peak: float) -> None:
    assert roofline([(at_peak(1, peak, "fp32"), cores, 1)], 4 * MS, H100).peak_share == pytest.approx(0.25)


def test_where_kernels_do_not_tell_an_fp32_product_has_no_share() -> None:
    place = roofline([(at_peak(1, FP32_PEAK, "fp32"), -1, 1)], 4 * MS, H100)
    assert place.peak_share is None
    assert place.bound is None
    assert place.flops is not None


def test_calls_of_one_op_have_each_its_peak() -> None:
    """1 ms at the peak of TF32 and 1 ms at that of the vector units, in 4 ms."""
    works = [(at_peak(1, TF32_PEAK, "fp32"), 1, 1), (at_peak(1, FP32_PEAK, "fp32"), 0, 1)]
    assert roofline(works, 4 * MS, H100).peak_share == pytest.approx(0.5)


@pytest.mark.parametrize(("name", "share"), [("AMD Instinct MI300X", 0.25), ("AMD Instinct MI250X", None)])
def test_matrix_units_of_amd_do_fp32_as_fp32(name: str, share: float | None) -> None:
    model = hardware_of(name)
    assert model is not None
    place = roofline([(at_peak(1, model.peak_flops["fp32"], "fp32"), 1, 1)], 4 * MS, model)
    assert place.peak_share == (None if share is None else pytest.approx(share))


def test_a_transform_has_no_share_and_is_no_error() -> None:
    place = roofline([(at_peak(3, FP32_PEAK, "fp32"), 0, 1)], 2 * MS, H100, is_direct=False)
    assert place.peak_share is place.excess is place.bound is None
    assert place.achieved_flops_per_second == pytest.approx(1.5 * FP32_PEAK)


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA A100-SXM4-40GB MIG 3g.20gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GH200 480GB",
    ],
)
def test_a_part_of_a_card_or_another_card_has_no_peaks_of_its_namesake(name: str) -> None:
    assert hardware_of(name) is None


def test_a_device_without_tf32_has_one_peak_for_fp32() -> None:
    assert V100 is not None
    work = at_peak(1, V100.peak_flops["fp32"], "fp32")
    assert roofline([(work, -1, 1)], 2 * MS, V100).peak_share == pytest.approx(0.5)


def test_little_arithmetic_on_much_data_is_bound_by_memory() -> None:
    """One operation for six bytes, of which the traffic alone takes 3 of 4 ms."""
    num_bytes = round(3e-3 * BANDWIDTH)
    place = roofline([(Work(num_bytes // 6, num_bytes, "bf16", is_matrix=False), -1, 1)], 4 * MS, H100)
    assert place.bound == "memory"
    assert place.memory_peak_share == pytest.approx(0.75)
    assert place.peak_share is None


def test_data_out_of_a_cache_have_no_share_of_the_memory_s_rate() -> None:
    num_bytes = round(3e-3 * BANDWIDTH)
    place = roofline([(Work(0, num_bytes, "bf16", is_matrix=False), -1, 1)], 2 * MS, H100)
    assert place.memory_peak_share is None
    assert place.achieved_bytes_per_second == pytest.approx(1.5 * BANDWIDTH)


def test_more_than_the_peak_is_no_rate_but_an_error() -> None:
    place = roofline([(at_peak(3, BF16_PEAK, "bf16"), 1, 1)], 2 * MS, H100)
    assert place.excess == pytest.approx(1.5)
    assert place.peak_share is place.achieved_flops_per_second is place.bound is None


@pytest.mark.parametrize("hardware", [None, H100])
def test_without_work_or_time_nothing_is_known(hardware: Hardware | None) -> None:
    assert roofline(None, MS, hardware) == NOT_KNOWN
    assert roofline([(at_peak(1, BF16_PEAK, "bf16"), 1, 1)], 0, hardware) == NOT_KNOWN
    assert roofline([(Work(2**70, 1, "bf16", is_matrix=True), 1, 1)], MS, hardware) == NOT_KNOWN


def test_of_an_unknown_device_rates_are_known_and_shares_are_not() -> None:
    place = roofline([(Work(10**9, 10**6, "bf16", is_matrix=True), 1, 1)], MS, None)
    assert place.achieved_flops_per_second == pytest.approx(1e12)
    assert place.peak_share is place.memory_peak_share is place.bound is None


def diagnosed(where: Path, size: int, kernel_us: int, *, shapes: bool = True) -> report.Report:
    """Three steps of one product of size × size in bf16 on an H100."""
    build = Build(deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    arguments = {
        "Input Dims": [[size, size], [size, size]],
        "Input type": ["c10::BFloat16", "c10::BFloat16"],
    }
    for step in range(3):
        at = step * 1000
        build = build.step(step, at, at + 1000)
        build = build.op("aten::mm", at, at + 10, **(arguments if shapes else {}))
        build = build.kernel("sm90_xmma_gemm_bf16", at + 8, at + 8 + kernel_us, launched=(at + 5, at + 6))
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file)


def test_a_report_says_what_a_product_reaches(tmp_path: Path) -> None:
    """2·4096³ = 137,438,953,472 operations in 500 µs, three times: 275 TFLOP/s of 989."""
    made = diagnosed(tmp_path, 4096, 500)
    op = made.operators[0]
    assert op.flops == 3 * 137_438_953_472
    assert op.bytes == 3 * 3 * 4096 * 4096 * 2
    assert op.peak_share == pytest.approx(137_438_953_472 / 500e-6 / BF16_PEAK)
    assert op.bound == "compute"


def test_without_shapes_there_is_no_work(tmp_path: Path) -> None:
    op = diagnosed(tmp_path, 4096, 500, shapes=False).operators[0]
    assert op.flops is op.bytes is op.peak_share is op.bound is None


def test_an_op_beyond_the_peak_is_a_note_that_says_what_may_be_wrong(tmp_path: Path) -> None:
    """The same in 50 µs were 2.8 times the peak."""
    made = diagnosed(tmp_path, 4096, 50)
    issue = next(issue for issue in made.health.issues if issue.code == "impossible_rate")
    assert issue.count == 3
    assert "aten::mm would reach 277.9 %" in issue.detail
    assert made.operators[0].flops is not None
    assert made.operators[0].peak_share is None


def test_a_copy_over_the_bus_is_not_held_against_the_memory(tmp_path: Path) -> None:
    build = Build(deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    arguments = {"Input Dims": [[1000], [1000], []], "Input type": ["float", "float", "Scalar"]}
    for step in range(3):
        at = step * 1000
        build = build.step(step, at, at + 1000).op("aten::copy_", at, at + 10, **arguments)
        build = build.copy("Memcpy HtoD (Pinned -> Device)", at + 8, at + 300, launched=(at + 5, at + 6))
    file = tmp_path / "t.json"
    file.write_text(build.write())
    op = stepscope.diagnose(file).operators[0]
    assert op.name == "aten::copy_"
    assert op.memory_peak_share is op.bound is None
