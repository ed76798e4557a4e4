"""Compute time by kind: disjoint, and exactly the compute time."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.analyse.compute import is_layout_kernel
from stepscope.model import report
from stepscope.model.report import COMPUTE_KINDS
from stepscope.trace.kernel_class import classify
from tests.analyse.build import Build


def rows_of(where: Path, build: Build) -> tuple[report.Accounting, ...]:
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file).accounting


def kinds(row: report.Accounting) -> dict[str, int]:
    """Nanoseconds by kind, without the zeroes."""
    assert row.compute is not None
    found = {kind: getattr(row.compute, f"{kind}_ns") for kind in COMPUTE_KINDS}
    assert sum(found.values()) == row.compute_ns
    return {kind: ns for kind, ns in found.items() if ns}


def test_of_kernels_that_run_at_once_the_one_that_began_first_counts(tmp_path: Path) -> None:
    """gemm [0, 10), softmax [4, 12): 10 + 2; reduction [20, 30) holds embedding [22, 25): 10 + 0."""
    build = Build()
    build.kernel("ampere_gemm", 0, 10, launched=(-9, -8)).kernel(
        "softmax", 4, 12, launched=(-7, -6), stream=8
    )
    build.kernel("reduce_kernel", 20, 30, launched=(-5, -4))
    build.kernel("indexSelectLargeIndex", 22, 25, launched=(-3, -2), stream=8)
    (row,) = rows_of(tmp_path, build)
    assert kinds(row) == {"gemm": 10_000, "softmax": 2_000, "reduction": 10_000}


def test_of_kernels_that_begin_together_the_one_earlier_in_the_file_counts(tmp_path: Path) -> None:
    build = Build().kernel("softmax", 0, 10, launched=(-9, -8))
    build.kernel("ampere_gemm", 0, 15, launched=(-7, -6), stream=8)
    (row,) = rows_of(tmp_path, build)
    assert kinds(row) == {"softmax": 10_000, "gemm": 5_000}


def test_a_kernel_behind_communication_counts_whole_and_one_of_no_length_not_at_all(tmp_path: Path) -> None:
    build = Build().kernel("ncclDevKernel_AllReduce", 0, 30, launched=(-9, -8), stream=20)
    build.kernel("ampere_gemm", 10, 20, launched=(-7, -6)).kernel("softmax", 12, 12, launched=(-5, -4))
    (row,) = rows_of(tmp_path, build)
    assert kinds(row) == {"gemm": 10_000}
    assert row.communication_exposed_ns == 20_000


def test_windows_cut_kernels(tmp_path: Path) -> None:
    """Host windows [0, 100) and [100, 200): the warm-up's kernel and what runs beyond are cut off."""
    build = Build().steps(1, [0, 100, 200, 300])
    for at in (0, 100, 200):
        build.op("aten::mm", at + 1, at + 9).kernel(
            "ampere_gemm", at + 20, at + 60, launched=(at + 2, at + 3)
        )
        build.op("aten::softmax", at + 10, at + 19)
        build.kernel("softmax", at + 50, at + 90, launched=(at + 11, at + 12), stream=8)
    steps, trace = rows_of(tmp_path, build)
    assert kinds(steps) == {"gemm": 120_000, "softmax": 90_000}
    assert kinds(trace) == {"gemm": 120_000, "softmax": 90_000}


@pytest.mark.parametrize(
    ("name", "is_layout"),
    [
        ("void cudnn::engines_precompiled::nhwcToNchwKernel<__nv_bfloat16, …>", True),
        ("void nchwToNhwcKernel<float, float, float, true, false>", True),
        ("void cudnn::cnn::im2col4d_kernel<float, long>", True),
        ("batched_transpose_32x32_half", True),
        ("transpose_CNHW2NCHW_V2_2D_WG_off64", True),
        ("SubTensorOpWithTransform4d", True),
        ("transpose_readWrite_alignment_kernel", True),
        # What does more, whatever else its name tells.
        ("triton_red_fused_native_layer_norm_transpose_clone_1", False),
        ("triton_poi_fused_transpose_convert_0", False),
        ("conv_transpose_kernel", False),
        ("conv_depthwise2d_transposeC", False),
        ("cutlass_gemm_transpose_kernel", False),
        ("void at::native::col2im_kernel<float>", False),
        ("vectorized_elementwise_kernel", False),
    ],
)
def test_a_layout_kernel_does_nothing_else(name: str, is_layout: bool) -> None:
    assert is_layout_kernel(name, classify(name)[0]) is is_layout


TRANSPOSE = {
    "Input Dims": [[4, 8, 6], [4, 8, 6], []],
    "Input type": ["float", "float", "Scalar"],
    "Input Strides": [[48, 6, 1], [48, 1, 8], []],
}


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "layout"),
        ({"Input Strides": [[48, 6, 1], [48, 6, 1], []]}, "elementwise"),
        # A cast, and an operand that is broadcast: there is more to do than to move.
        ({"Input type": ["float", "c10::Half", "Scalar"]}, "elementwise"),
        ({"Input Strides": [[48, 6, 1], [0, 6, 1], []]}, "elementwise"),
        ({"Input Dims": [[4, 8, 6], [8, 6], []], "Input Strides": [[48, 6, 1], [6, 1], []]}, "elementwise"),
        # The axis that changed its place has one element.
        (
            {"Input Dims": [[4, 1, 6], [4, 1, 6], []], "Input Strides": [[6, 6, 1], [6, 1, 1], []]},
            "elementwise",
        ),
        # Lists of tensors, text for numbers, and nothing: not known.
        ({"Input Dims": [[[4], [8]], [[4], [8]], []]}, "elementwise"),
        ({"Input Strides": [["48", "6", "1"], ["48", "1", "8"], []]}, "elementwise"),
        ({"Input Strides": [[48, 6, None], [48, 1, 8], []]}, "elementwise"),
        ({"Input Strides": []}, "elementwise"),
        ({"Input Dims": "…"}, "elementwise"),
    ],
)
def test_a_copy_between_other_strides_moves_elements_alone(
    tmp_path: Path, changed: dict[str, object], kind: str
) -> None:
    build = Build().op("aten::copy_", 0, 9, **{**TRANSPOSE, **changed})
    build.kernel("elementwise_kernel", 20, 30, launched=(2, 3))
    (row,) = rows_of(tmp_path, build)
    assert kinds(row) == {kind: 10_000}


def test_recomputation_and_optimizer_are_that_whatever_they_compute(tmp_path: Path) -> None:
    node = {"Sequence number": 5, "Fwd thread id": 1}
    build = Build().op("aten::mm", 0, 9, **{"Sequence number": 5, "Fwd thread id": 0})
    build.kernel("ampere_gemm", 10, 15, launched=(2, 3))
    build.op("MmBackward0", 20, 50, 2, **node).op("aten::mm", 21, 29, 2, **{"Sequence number": 1})
    build.kernel("ampere_gemm", 30, 37, launched=(22, 23), tid=2)
    build.op("aten::mm", 31, 39, 2).kernel("ampere_gemm", 40, 51, launched=(32, 33), tid=2)
    build.note("Optimizer.step#Muon.step", 60, 80).op("aten::mm", 61, 69)
    build.kernel("ampere_gemm", 70, 83, launched=(62, 63))
    (row,) = rows_of(tmp_path, build)
    assert kinds(row) == {"gemm": 16_000, "recompute": 7_000, "optimizer": 13_000}


KERNEL = st.tuples(
    st.sampled_from(
        ["ampere_gemm", "softmax", "reduce", "nchwToNhwc", "FusedAdam", "ncclDevKernel_AllReduce", "x"]
    ),
    st.integers(0, 300),
    st.integers(0, 80),
    st.integers(0, 3),
    st.integers(0, 1),
)


@given(st.lists(KERNEL, min_size=1, max_size=25), st.lists(st.integers(0, 400), max_size=5))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kinds_sum_to_compute_time_in_every_row(
    tmp_path: Path, kernels: list[tuple[str, int, int, int, int]], bounds: list[int]
) -> None:
    """Streams that overlap, kernels of no length, and steps whose windows cut kernels."""
    build = Build().steps(1, sorted(set(bounds)))
    for name, start, length, stream, device in kernels:
        build.kernel(
            name, start, start + length, launched=(start - 5, start - 4), stream=stream, device=device
        )
    for row in rows_of(tmp_path, build):
        assert sum(kinds(row).values()) == row.compute_ns
