"""Ops, shapes and kernels: counts, inclusive times, latencies, lines of Python."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.analyse.group import alike, percentile_99
from stepscope.analyse.source import is_own_frame
from stepscope.analyse.work import call_of
from stepscope.analyse.work.align import is_aligned
from stepscope.model import report
from tests.analyse.build import Build


def diagnosed(where: Path, build: Build, **options: object) -> report.Report:
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file, **options)


def test_an_op_has_its_own_device_time_and_that_of_the_ops_inside(tmp_path: Path) -> None:
    """Twice: linear [0, 30) launches 4 µs itself, mm [5, 20) in it 7 µs."""
    build = Build()
    for at in (0, 100):
        build.op("aten::linear", at, at + 30).op("aten::mm", at + 5, at + 20)
        build.kernel("gemm", at + 40, at + 47, launched=(at + 6, at + 7))
        build.kernel("bias", at + 50, at + 54, launched=(at + 22, at + 23))
    linear, mm = sorted(diagnosed(tmp_path, build).operators, key=lambda op: op.name)
    assert (linear.name, linear.count, linear.device_ns, linear.total_ns, linear.host_ns) == (
        "aten::linear",
        2,
        8_000,
        22_000,
        60_000,
    )
    assert (mm.count, mm.device_ns, mm.total_ns, mm.host_ns) == (2, 14_000, 14_000, 30_000)
    # From the start of the call to that of the kernel: 34 and 28 µs.
    assert (mm.launch_latency_ns, linear.launch_latency_ns) == (34_000, 28_000)


def test_an_op_that_calls_itself_counts_once(tmp_path: Path) -> None:
    build = Build().op("aten::add", 0, 30).op("aten::add", 5, 20)
    build.kernel("a", 40, 50, launched=(6, 7)).kernel("b", 50, 55, launched=(22, 23))
    (op,) = diagnosed(tmp_path, build).operators
    assert (op.count, op.device_ns, op.total_ns, op.host_ns) == (2, 15_000, 15_000, 30_000)
    assert (op.mean_ns, op.p99_ns) == (7_500, 10_000)


def test_a_row_that_only_writes_down_arguments_launches_nothing(tmp_path: Path) -> None:
    build = Build().op("c10d::allreduce_", 0, 30).op("record_param_comms", 5, 20)
    build.kernel("ncclDevKernel_AllReduce", 40, 50, launched=(6, 7))
    (op,) = diagnosed(tmp_path, build).operators
    assert (op.name, op.device_ns) == ("c10d::allreduce_", 10_000)


def test_work_of_no_op_stands_under_its_kernel_and_has_no_inclusive_time(tmp_path: Path) -> None:
    (op,) = diagnosed(tmp_path, Build().kernel("gemm", 10, 20, launched=(0, 1))).operators
    assert (op.name, op.total_ns, op.host_ns, op.called_from) == ("gemm", None, None, None)


def test_kernels_after_an_idle_time_are_compared_with_runs_of_the_same_grid(tmp_path: Path) -> None:
    """Small ones of 10 µs and large ones of 100; three small ones after 2 ms of nothing take 15."""
    build, at = Build(), 0
    for turn in range(12):
        is_late = turn in (4, 6, 8)
        at += 2_000 if is_late else 20
        build.kernel("k", at, at + (15 if is_late else 10), launched=(at - 5, at - 4), grid=[8, 1, 1])
        build.kernel("other", at + 20, at + 1_500, launched=(at - 3, at - 2))
        build.kernel("k", at + 1_500, at + 1_600, launched=(at - 2, at - 1), grid=[64, 1, 1])
        at += 1_600
    kernel = next(k for k in diagnosed(tmp_path, build).kernels if k.name == "k")
    assert kernel.after_idle_count == 3
    assert kernel.after_idle_ratio == pytest.approx(1.5)
    assert (kernel.count, kernel.mean_ns, kernel.p99_ns) == (24, 55_625, 100_000)


@pytest.mark.parametrize(("late", "ratio"), [(2, None), (3, 1.5)])
def test_two_kernels_after_idle_times_tell_nothing(tmp_path: Path, late: int, ratio: float | None) -> None:
    build, at = Build(), 0
    for turn in range(8):
        # After the idle time a short one resumes work; the first of the trace follows nothing.
        if 1 <= turn <= late:
            at += 2_000
            build.kernel("other", at, at + 1, launched=(at - 5, at - 4))
        build.kernel("k", at + 2, at + (17 if 1 <= turn <= late else 12), launched=(at - 3, at - 2))
        build.kernel("other", at + 900, at + 1_900, launched=(at - 1, at))
        at += 1_900
    kernel = next(k for k in diagnosed(tmp_path, build).kernels if k.name == "k")
    assert kernel.after_idle_count == (None if ratio is None else late)
    assert kernel.after_idle_ratio == (None if ratio is None else pytest.approx(ratio))


def test_kernels_without_device_arguments_have_no_grid_and_break_nothing(tmp_path: Path) -> None:
    build = Build()
    for turn in range(9):
        at = turn * (100 if turn % 2 else 5_000)
        build.row("kernel", "k", at, at + 10, 0, 7)
    (kernel,) = diagnosed(tmp_path, build).kernels
    assert kernel.count == 9
    assert kernel.launch_latency_ns is None


@pytest.mark.parametrize(
    ("name", "is_own"),
    [
        ("train.py(12): main", True),
        ("/home/someone/my project/train.py(12): main", True),
        ("transformers/models/qwen2/modeling_qwen2.py(218): forward", True),
        ("torch/nn/modules/linear.py(114): forward", False),
        ("/usr/lib/python3/site-packages/torch/utils/data/dataloader.py(5): __next__", False),
        ("<built-in method run_backward>", False),
        ("threading.py(9): run", False),
        ("nn.Module: Linear_3", False),
        ("<frozen importlib._bootstrap>(1): _find", False),
    ],
)
def test_a_line_is_the_user_s_where_no_framework_wrote_it(name: str, is_own: bool) -> None:
    assert is_own_frame(name) is is_own


@pytest.mark.parametrize("has_rows", [True, False], ids=["python rows", "stacks beside ops"])
def test_an_op_is_called_from_the_line_of_most_of_its_time(tmp_path: Path, has_rows: bool) -> None:
    build = Build()
    for at, line, length in ((0, "a.py(1): f", 10), (100, "b.py(2): g", 30), (200, "a.py(1): f", 10)):
        stack = f"torch/nn/functional.py(9): linear;{line};main.py(5): <module>"
        if has_rows:
            build.frame("main.py(5): <module>", at, at + 50).frame(line, at + 1, at + 49)
            build.frame("torch/nn/functional.py(9): linear", at + 2, at + 48)
        build.op("aten::mm", at + 3, at + 9, **({} if has_rows else {"Call stack": stack}))
        build.kernel("gemm", at + 60, at + 60 + length, launched=(at + 4, at + 5))
    assert diagnosed(tmp_path, build).operators[0].called_from == "b.py(2): g"


def test_the_line_of_an_op_is_exported_without_a_name(tmp_path: Path) -> None:
    frame = "/home/msmith/work/train.py(3): main"
    build = Build().frame(frame, 0, 50).frame("nn.Module: Model_0", 1, 49).op("aten::mm", 2, 9)
    build.kernel("gemm", 60, 70, launched=(3, 4))
    made = diagnosed(tmp_path, build)
    line = made.operators[0].called_from
    assert line is not None
    assert "msmith" not in line
    assert line.endswith("work/train.py(3): main")


SHAPE = {"Input type": ["c10::BFloat16", "c10::BFloat16"]}


def test_calls_of_other_shapes_stand_apart(tmp_path: Path) -> None:
    build = Build(deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    for at, size, length in ((0, 1024, 40), (100, 1000, 60), (200, 1024, 50), (300, 1001, 20)):
        build.op("aten::mm", at, at + 9, **SHAPE, **{"Input Dims": [[size, size], [size, 512]]})
        build.kernel("sm90_xmma_gemm_bf16", at + 20, at + 20 + length, launched=(at + 1, at + 2))
    found = {row.shapes: row for row in diagnosed(tmp_path, build).operator_shapes}
    large, thousand, odd = (found[f"[[{n},{n}],[{n},512]]"] for n in (1024, 1000, 1001))
    assert (large.count, large.device_ns, large.mean_ns, large.p99_ns) == (2, 90_000, 45_000, 50_000)
    assert large.share == pytest.approx(90 / 170)
    assert large.flops == 2 * 2 * 1024 * 1024 * 512
    assert large.peak_share == pytest.approx(large.flops / 90e-6 / 989e12)
    # 1000 · 2 bytes are 125 pieces of 16; 1001 · 2 are none, and no strides say which way the matrix lies.
    assert [row.is_aligned for row in (large, thousand, odd)] == [True, True, None]


@pytest.mark.parametrize(
    ("op", "dims", "types", "aligned"),
    [
        ("aten::mm", [[8, 16], [16, 8]], "c10::Half", True),
        ("aten::mm", [[8, 16], [16, 12]], "c10::Half", False),
        ("aten::addmm", [[8], [8, 16], [16, 24]], "c10::BFloat16", True),
        ("aten::bmm", [[3, 8, 16], [3, 16, 8]], "c10::BFloat16", True),
        ("aten::baddbmm", [[3, 8, 4], [3, 8, 16], [3, 16, 4]], "c10::BFloat16", False),
        ("aten::mm", [[16, 32], [32, 16]], "c10::Float8_e4m3fn", True),
        ("aten::mm", [[16, 32], [32, 8]], "c10::Float8_e4m3fn", False),
        # Without strides nobody knows whether an odd inner dimension or number of rows is a step in memory.
        ("aten::mm", [[8, 12], [12, 8]], "c10::Half", None),
        ("aten::mm", [[7, 16], [16, 8]], "c10::Half", None),
        # No narrow type, a vector, no product, shapes that do not fit.
        ("aten::mm", [[7, 7], [7, 7]], "float", None),
        ("aten::mm", [[1, 7], [7, 7]], "c10::Half", None),
        ("aten::add", [[7, 7], [7, 7]], "c10::Half", None),
        ("aten::mm", [[7, 7], [9, 7]], "c10::Half", None),
        ("aten::mm", [[7, 7]], "c10::Half", None),
        ("aten::mm", [[], []], "c10::Half", None),
    ],
)
def test_alignment_is_of_narrow_products(
    op: str, dims: list[list[int]], types: str, aligned: bool | None
) -> None:
    written = str([types] * len(dims)).replace("'", '"')
    assert is_aligned(op, call_of(str(dims), written, "")) is aligned


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=400))
def test_the_99th_percentile_is_a_value_and_numpy_s(values: list[int]) -> None:
    array = np.array(values)
    assert percentile_99(array) in values
    if (len(values) - 1) % 100:  # there numpy's product of floats may miss the place
        assert percentile_99(array) == int(np.percentile(array, 99, method="higher"))
    assert percentile_99(np.arange(101)) == 99


@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 3)), min_size=1, max_size=60))
def test_rows_are_alike_where_all_columns_are(rows: list[tuple[int, int]]) -> None:
    first, kind = alike(*np.array(rows).T)
    assert [rows[at] for at in first.tolist()] == sorted(set(rows))
    assert [rows[first[each]] for each in kind.tolist()] == rows


OP = st.tuples(
    st.sampled_from(["aten::mm", "aten::linear", "aten::add"]),
    st.integers(0, 60),
    st.integers(0, 40),
    st.sampled_from(["[[4, 8], [8, 4]]", "[[8, 8], [8, 8]]", None]),
)


@given(st.lists(OP, max_size=12), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_tables_agree_with_each_other_whatever_the_rows(
    tmp_path: Path, ops: list[tuple[str, int, int, str | None]], kernels: list[tuple[int, int]]
) -> None:
    build = Build()
    for name, start, length, dims in ops:
        build.op(name, start, start + length, **({} if dims is None else {"Input Dims": dims, **SHAPE}))
    for place, (at, length) in enumerate(kernels):
        build.kernel("work", at + 5, at + 5 + length, launched=(at, at), stream=place % 3)
    made = diagnosed(tmp_path, build)
    of_op = {op.name: op for op in made.operators}
    assert sum(op.device_ns for op in made.operators) == sum(kernel.device_ns for kernel in made.kernels)
    for op in made.operators:
        assert op.total_ns is None or op.total_ns >= op.device_ns
        assert op.mean_ns is not None
        assert op.p99_ns is not None
        assert op.mean_ns <= op.p99_ns or op.count > 50
    for name in {row.name for row in made.operator_shapes}:
        shapes = [row for row in made.operator_shapes if row.name == name]
        assert sum(row.device_ns for row in shapes) <= of_op[name].device_ns
        assert sum(row.count for row in shapes) <= of_op[name].count


def test_devices_that_the_trace_does_not_number_have_tables_of_their_own(tmp_path: Path) -> None:
    """Two device tracks named by words: each has its kinds, its phases and its arithmetic."""
    build = Build()
    for place, name in enumerate(("GPU left", "GPU right")):
        at = 100 * place
        build.op("aten::mm", at, at + 9, **SHAPE, **{"Input Dims": [[64, 64], [64, 64]]})
        build.row(
            "kernel", "sm90_xmma_gemm_bf16", at + 20, at + 60, name, f"stream {place}", correlation=place + 1
        )
        build.call("cudaLaunchKernel", at + 1, at + 2, correlation=place + 1)
    made = diagnosed(tmp_path, build)
    assert [row.compute.gemm_ns for row in made.accounting if row.compute is not None] == [40_000, 40_000]
    assert [each.flops for each in made.efficiency] == [2 * 64**3, 2 * 64**3]
