"""What better kernels would save of compute time, worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model.hardware import hardware_of
from tests.analyse.build import Build
from tests.analyse.kernel_run import (
    A100,
    BF16,
    FP32,
    H100,
    V100,
    Op,
    arguments,
    busy_until,
    dense,
    device_of,
    run,
)

US = 1_000
SQUARE = [1024, 1024]
ADD, MUL = (Op(f"aten::{name}", 12, [SQUARE, SQUARE, []]) for name in ("add", "mul"))
GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x4_tn"
SGEMM = "ampere_sgemm_128x64_nn"


def numbers(ops: list[Op], where: Path, device: str | None = H100) -> dict[str, float]:
    return dict(device_of(run(ops, device), where).numbers)


def test_two_ops_in_a_row_need_not_hand_their_tensor_on_through_memory(tmp_path: Path) -> None:
    """Each moves 3 · 4 MiB in 12 µs. Of the first the write, of the second the read can go: 4 µs each.

    At most all but one operand and the result can: two thirds of 24 µs."""
    product = Op("aten::mm", 20, [SQUARE, SQUARE], kernel=SGEMM)
    found = numbers([ADD, MUL, product], tmp_path)
    assert found["fusion_handed_ns"] == pytest.approx(3 * 8 * US)
    assert found["fusion_bound_ns"] == pytest.approx(3 * 16 * US)


@pytest.mark.parametrize(
    "op",
    [Op("aten::copy_", 12, [SQUARE, SQUARE, []]), Op("aten::zero_", 12, [SQUARE]), ADD],
    ids=["copies", "zeros", "sums"],
)
def test_the_same_op_over_a_list_of_tensors_hands_nothing_on(op: Op, tmp_path: Path) -> None:
    found = numbers([op] * 8, tmp_path)
    assert found["fusion_handed_ns"] == found["fusion_bound_ns"] == 0


def test_what_is_only_written_was_not_handed_on(tmp_path: Path) -> None:
    """The copy overwrites a tensor of the shape that the sum wrote, and reads another one."""
    copy = Op("aten::copy_", 12, [SQUARE, [512, 512], []])
    assert numbers([ADD, copy], tmp_path)["fusion_handed_ns"] == 0


def test_kernels_of_unknown_traffic_may_go_whole(tmp_path: Path) -> None:
    """A concatenation between two sums: all of its 10 µs, and at most two thirds of theirs."""
    cat = Op("aten::cat", 10, [], kernel="void at::native::CatArrayBatchedCopy<float>")
    assert numbers([ADD, cat, MUL], tmp_path)["fusion_bound_ns"] == pytest.approx(3 * (10 + 16) * US)


def test_what_the_backward_pass_wants_is_written_all_the_same(tmp_path: Path) -> None:
    """With autograd's rows in the trace the forward ops save the read alone: 4 µs a step."""
    tracked = {"Sequence number": 7, "Fwd thread id": 0}
    ops = [
        Op("aten::add", 12, [SQUARE, SQUARE, []], args=tracked),
        Op("aten::mul", 12, [SQUARE, SQUARE, []], args=tracked),
        Op("autograd::engine::evaluate_function: AddBackward0", 20, args={"Sequence number": 7}),
    ]
    assert numbers(ops, tmp_path)["fusion_handed_ns"] == pytest.approx(3 * 4 * US)


@pytest.mark.parametrize(
    "second",
    [
        Op("aten::add", 12, [[512, 1024], [512, 1024], []]),
        Op("aten::embedding", 12, [[50000, 1024], [1024]], args={}),
        Op("mylib::add", 12, [SQUARE, SQUARE]),
        Op("aten::sum", 12, [[2048, 1024], [], []]),
    ],
    ids=["another shape", "a table", "an unknown op", "a sum of something else"],
)
def test_ops_that_hand_nothing_on_save_nothing(second: Op, tmp_path: Path) -> None:
    assert numbers([ADD, second], tmp_path, None)["fusion_handed_ns"] == 0


def test_a_product_between_two_ops_keeps_them_apart(tmp_path: Path) -> None:
    product = Op("aten::mm", 20, [SQUARE, SQUARE], kernel=SGEMM)
    assert numbers([ADD, product, MUL, product], tmp_path)["fusion_handed_ns"] == 0


def test_without_shapes_nothing_is_known_of_fusion(tmp_path: Path) -> None:
    found = numbers([Op("aten::add", 12), Op("aten::add", 12)], tmp_path)
    assert "fusion_handed_ns" not in found
    assert found["elementwise_kernel_share"] == 1.0


SCORES = [16, 512, 512]
ATTENTION = [
    Op("aten::bmm", 30, [[16, 512, 64], [16, 64, 512]], BF16, GEMM),
    Op("aten::mul", 10, [SCORES, []], BF16),
    Op("aten::_softmax", 25, [SCORES, [], []], BF16, "softmax_warp_forward"),
    Op("aten::bmm", 30, [[16, 512, 512], [16, 512, 64]], BF16, GEMM),
]


def test_scores_that_a_product_wrote_are_read_in_vain(tmp_path: Path) -> None:
    """10 + 25 µs a step; the products stay."""
    found = numbers(ATTENTION, tmp_path)
    assert found["attention_scores_ns"] == pytest.approx(3 * 35 * US)
    assert found["fusion_handed_ns"] == 0, "no op has two labels"


def test_scores_by_batch_and_head_are_the_same_scores(tmp_path: Path) -> None:
    four = [2, 8, 512, 512]
    ops = [ATTENTION[0], Op("aten::_softmax", 25, [four, [], []], BF16, "softmax_warp_forward"), ATTENTION[3]]
    assert numbers(ops, tmp_path)["attention_scores_ns"] == pytest.approx(3 * 25 * US)


@pytest.mark.parametrize(
    "softmax", [[1, 32, 50000], [16, 512, 128], [16, 8, 8]], ids=["classes", "another table", "a small table"]
)
def test_another_softmax_is_no_attention(softmax: list[int], tmp_path: Path) -> None:
    small = Op("aten::bmm", 30, [[16, 8, 64], [16, 64, 8]], BF16, GEMM)
    ops = [ATTENTION[0], small, Op("aten::_softmax", 25, [softmax, [], []], BF16, "softmax_warp_forward")]
    assert numbers(ops, tmp_path)["attention_scores_ns"] == 0


WIDE = Op("aten::mm", 8000, [[4096, 4096], [4096, 4096]], FP32, SGEMM)


def test_fp32_products_off_the_tensor_cores_could_run_at_the_rate_of_tf32(tmp_path: Path) -> None:
    """On an A100 at 19.5 of 156 TFLOP/s: an eighth of the time, at most seven eighths saved."""
    model = hardware_of(A100)
    assert model is not None
    ratio = model.peak_flops["fp32"] / model.peak_flops["tf32"]
    found = numbers([WIDE], tmp_path, A100)
    assert found["tf32_off_ns"] == pytest.approx(3 * 8000 * US)
    assert found["tf32_off_saving_ns"] == pytest.approx(3 * 8000 * US * (1 - ratio))
    assert found["off_tensor_cores_ns"] == 0


def test_memory_bounds_what_tensor_cores_save(tmp_path: Path) -> None:
    """A product of 64 rows moves 4096² · 4 bytes and little else: no faster than the memory."""
    model = hardware_of(A100)
    assert model is not None
    assert model.memory_bytes_per_second is not None
    num_bytes = 4 * (64 * 4096 + 4096 * 4096 + 64 * 4096)
    least_ns = num_bytes / model.memory_bytes_per_second * 1e9
    thin = Op("aten::mm", 50, [[64, 4096], [4096, 4096]], FP32, SGEMM)
    saved = numbers([thin], tmp_path, A100)["tf32_off_saving_ns"]
    assert saved == pytest.approx(3 * (50 * US - least_ns))


def test_a_device_without_tf32_has_its_own_label(tmp_path: Path) -> None:
    found = numbers([WIDE], tmp_path, V100)
    assert found["off_tensor_cores_ns"] == pytest.approx(3 * 8000 * US)
    assert found["tf32_off_ns"] == 0


@pytest.mark.parametrize(
    ("op", "device"),
    [
        (Op("aten::mm", 100, [[4096, 4096], [4096, 4096]], "double", "ampere_dgemm_64x64_nn"), A100),
        (Op("aten::mv", 100, [[4096, 4096], [4096]], FP32, "gemv2T_kernel_val"), A100),
        (Op("aten::mm", 100, [[4096, 4096], [4096, 4096]], BF16, GEMM), A100),
        (WIDE, "AMD Instinct MI300X"),
    ],
    ids=["fp64", "a vector", "tensor cores", "matrix units of AMD"],
)
def test_what_no_tensor_core_would_do_faster_is_not_counted(op: Op, device: str, tmp_path: Path) -> None:
    found = numbers([op], tmp_path, device)
    assert found["tf32_off_ns"] == found["off_tensor_cores_ns"] == 0


def test_of_a_device_that_is_not_known_nobody_knows(tmp_path: Path) -> None:
    assert not {"tf32_off_ns", "off_tensor_cores_ns"} & set(numbers([WIDE], tmp_path, None))


def product(columns: int, us: float, rows: int = 4096, inner: int = 4096) -> Op:
    left, right = [rows, inner], [inner, columns]
    return Op("aten::mm", us, [left, right], BF16, GEMM, strides=[dense(left), dense(right)])


def test_odd_rows_are_held_against_even_ones_of_the_same_size(tmp_path: Path) -> None:
    """4,095 columns take 150 µs, 4,096 take 100: a third more than their share of the arithmetic."""
    found = numbers([product(4096, 100), product(4095, 150)], tmp_path)
    assert found["misaligned_ns"] == pytest.approx(3 * 150 * US)
    assert found["misaligned_saving_ns"] == pytest.approx(3 * US * (150 - 100 * 4095 / 4096))


def test_without_a_product_to_compare_with_half_the_peak_stands_in(tmp_path: Path) -> None:
    """2 · 4096² · 4095 operations at half of 989 TFLOP/s take 278 µs: what takes 150 saves nothing."""
    usual_us = 2 * 4096 * 4096 * 4095 / (0.5 * 989e12) * 1e6
    quick = numbers([product(4095, 150), product(64, 10)], tmp_path)
    assert quick["misaligned_ns"] == pytest.approx(3 * 150 * US)
    assert quick["misaligned_saving_ns"] == 0
    (tmp_path / "slow").mkdir()
    slow = numbers([product(4095, 900), product(64, 10)], tmp_path / "slow")
    assert slow["misaligned_saving_ns"] == pytest.approx(3 * US * (900 - usual_us), rel=1e-3)


def test_a_short_product_without_one_to_compare_with_saves_nobody_knows_what(tmp_path: Path) -> None:
    found = numbers([product(4095, 40, rows=64), product(8, 10)], tmp_path)
    assert found["misaligned_ns"] == pytest.approx(3 * 40 * US)
    assert "misaligned_saving_ns" not in found


@pytest.mark.parametrize(
    "even",
    [
        product(4096, 100, rows=4095),
        Op("aten::mm", 100, [[4096, 4095], [4095, 4096]], BF16, GEMM, strides=[[1, 4096], [4096, 1]]),
        Op("aten::mm", 100, [[4095, 4095], [4095, 4095]], FP32, GEMM),
        Op("aten::mm", 100, [[1, 4095], [4095, 4095]], BF16, GEMM),
    ],
    ids=["odd number of rows", "a transposed view", "a wide type", "one row"],
)
def test_a_dimension_that_is_no_row_in_memory_may_be_odd(even: Op, tmp_path: Path) -> None:
    assert numbers([even, product(4096, 100)], tmp_path)["misaligned_ns"] == 0


def test_a_copy_into_another_order_of_dimensions_is_layout(tmp_path: Path) -> None:
    shape = [32, 64, 56, 56]
    last = [64 * 56 * 56, 1, 56 * 64, 64]
    turned = Op("aten::copy_", 40, [shape, shape, []], strides=[dense(shape), last, []])
    plain = Op("aten::copy_", 40, [shape, shape, []], strides=[dense(shape), dense(shape), []])
    device = device_of(run([turned, plain, Op("aten::conv", 5, kernel="nchwToNhwcKernel")]), tmp_path)
    assert device.accounting.compute is not None
    assert device.accounting.compute.layout_ns == 3 * (40 + 5) * US


def test_a_broadcast_copy_and_a_cast_are_no_change_of_layout(tmp_path: Path) -> None:
    shape = [64, 64]
    spread = Op("aten::copy_", 40, [shape, shape, []], strides=[dense(shape), [0, 1], []])
    cast = Op(
        "aten::copy_",
        40,
        [shape, shape, []],
        strides=[dense(shape), [1, 64], []],
        args={"Input type": ["c10::BFloat16", "float", "Scalar"]},
    )
    device = device_of(run([spread, cast]), tmp_path)
    assert device.accounting.compute is not None
    assert device.accounting.compute.layout_ns == 0


def optimizer(kernel: str, num: int, us: float, name: str = "AdamW") -> Build:
    """Three steps: a product of 500 µs, then the optimizer's kernels."""
    build = Build(deviceProperties=[{"id": 0, "name": H100}])
    length = 500 + num * us
    build = busy_until(build, 1000)
    for number in range(3):
        host, at = number * length, 1000 + number * length
        build = build.step(number, host, host + length)
        build = build.op("aten::mm", host + 1, host + 1.4, **arguments(product(4096, 500)))
        build = build.kernel(GEMM, at, at + 500, launched=(host + 1.1, host + 1.2))
        build = build.note(f"Optimizer.step#{name}.step", host + 2, host + 3 + num)
        for k in range(num):
            begin = at + 500 + k * us
            build = build.op("aten::add_", host + 3 + k, host + 3.5 + k)
            build = build.kernel(kernel, begin, begin + us, launched=(host + 3.1 + k, host + 3.2 + k))
    return build


def test_an_optimizer_s_kernels_are_counted_by_what_launched_them(tmp_path: Path) -> None:
    found = device_of(
        optimizer("void at::native::vectorized_elementwise_kernel<4>", 120, 2), tmp_path
    ).numbers
    assert found["optimizer_ns"] == 3 * 240 * US
    assert found["optimizer_kernels_per_step"] == 120
    assert found["optimizer_loop_share"] == 1
    assert found["optimizer_has_fused"] == 1
    assert "fusion_handed_ns" not in found or found["fusion_handed_ns"] == 0


def test_a_multi_tensor_step_is_told_by_its_kernels(tmp_path: Path) -> None:
    found = device_of(
        optimizer("void multi_tensor_apply_kernel<FusedAdamMathFunctor>", 4, 60), tmp_path
    ).numbers
    assert found["optimizer_kernels_per_step"] == 0
    assert found["optimizer_loop_share"] == 0


@pytest.mark.parametrize("kernel", [GEMM, "kOptimizerStatic8bit2StateBlockwise<float>"])
def test_products_and_kernels_of_an_optimizer_s_own_are_no_loop_over_tensors(
    kernel: str, tmp_path: Path
) -> None:
    found = device_of(optimizer(kernel, 120, 2, "Muon"), tmp_path).numbers
    assert found["optimizer_ns"] == 3 * 240 * US
    assert found["optimizer_loop_ns"] == found["optimizer_has_fused"] == 0


def test_a_product_over_scores_is_found_by_the_kernel_that_follows(tmp_path: Path) -> None:
    """Megatron's softmax is an op of another name: its kernel's class tells."""
    ops = [
        Op("aten::baddbmm", 30, [SCORES, [16, 512, 64], [16, 64, 512]], BF16, GEMM),
        Op(
            "ScaledUpperTriangMaskedSoftmax",
            25,
            [SCORES],
            BF16,
            "scaled_upper_triang_masked_softmax_warp_forward",
        ),
        ATTENTION[3],
    ]
    assert numbers(ops, tmp_path)["attention_scores_ns"] == pytest.approx(3 * 25 * US)


def test_tensors_of_the_same_shape_outside_attention_are_not_its_scores(tmp_path: Path) -> None:
    """One head as wide as it is long: residuals and activations have the shape of the scores."""
    same = [8, 512, 512]
    ops = [
        Op("aten::add", 40, [same, same, []], BF16),
        Op("aten::bmm", 30, [[8, 512, 512], [8, 512, 512]], BF16, GEMM),
        Op("aten::_softmax", 25, [same, [], []], BF16, "softmax_warp_forward"),
        Op("aten::bmm", 30, [[8, 512, 512], [8, 512, 512]], BF16, GEMM),
        Op("aten::gelu", 40, [same], BF16),
    ]
    assert numbers(ops, tmp_path)["attention_scores_ns"] == pytest.approx(3 * 25 * US)


def test_without_shapes_a_softmax_leaves_attention_open(tmp_path: Path) -> None:
    assert "attention_scores_ns" not in numbers(
        [Op("aten::_softmax", 9, kernel="softmax_warp_forward")], tmp_path
    )


@pytest.mark.parametrize(
    "dims",
    [
        [[1, None, 3], [1, 3, None]],
        [["a", 1, 2], [1, 2, 3]],
        [[[1], 2, 3], [1, 2, 3]],
        [[10**30, 64, 64]] * 2,
    ],
    ids=["null", "text", "nested", "no memory holds it"],
)
def test_shapes_that_are_none_are_passed_over(dims: list[list[object]], tmp_path: Path) -> None:
    ops = [
        Op("aten::bmm", 30, dims, BF16, GEMM),
        Op("aten::_softmax", 25, dims[:1], BF16, "softmax_warp_forward"),
        Op("aten::bmm", 30, dims, BF16, GEMM),
    ]
    assert numbers(ops, tmp_path).get("attention_scores_ns", 0) == 0


def test_half_precision_off_the_tensor_cores_is_not_fp32(tmp_path: Path) -> None:
    for kernel in ("volta_fp16_sgemm_fp16_128x64_nn", "ampere_fp16_sgemm_fp16_64x64_nn"):
        found = numbers([Op("aten::mm", 100, kernel=kernel)], tmp_path, A100)
        assert found["tf32_off_ns"] == found["off_tensor_cores_ns"] == 0


def test_no_product_gets_faster_than_the_memory_lets_it(tmp_path: Path) -> None:
    """16 × 768 times 768 × 50257 must move 79 MB: 23.6 µs of the 25 it takes."""
    model = hardware_of(H100)
    assert model is not None
    assert model.memory_bytes_per_second is not None
    odd, even = product(50257, 25, rows=16, inner=768), product(1024, 4, rows=768, inner=768)
    num_bytes = 2 * (16 * 768 + 768 * 50257 + 16 * 50257)
    saving = numbers([odd, even], tmp_path)["misaligned_saving_ns"]
    assert saving == pytest.approx(3 * (25 * US - num_bytes / model.memory_bytes_per_second * 1e9), rel=1e-3)


def test_kernels_of_a_graph_are_told_by_their_launch(tmp_path: Path) -> None:
    build = busy_until(Build(), 100)
    for number in range(3):
        host, at = number * 300, 100 + number * 300
        build = build.step(number, host, host + 300).call(
            "cudaGraphLaunch", host + 1, host + 2, correlation=number + 1
        )
        for k in range(60):
            build = build.kernel("void short_one()", at + 5 * k, at + 5 * k + 3, correlation=number + 1)
    found = device_of(build, tmp_path).numbers
    assert found["batched_launch_share"] == pytest.approx(180 / 181)
    assert numbers([ADD, MUL], tmp_path)["batched_launch_share"] == 0
