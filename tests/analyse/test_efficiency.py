"""MFU and HFU with numbers worked out by hand: a product of 4096³ in bf16 is 137,438,953,472 operations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.model import report
from tests.analyse.build import Build

FLOPS = 2 * 4096**3
PEAK = 989e12
H100 = [{"id": 0, "name": "NVIDIA H100 80GB HBM3"}]
PRODUCT = {
    "Input Dims": [[4096, 4096], [4096, 4096]],
    "Input type": ["c10::BFloat16", "c10::BFloat16"],
}


def measured(where: Path, build: Build) -> tuple[report.Efficiency, ...]:
    file = where / "t.json"
    file.write_text(build.write())
    return stepscope.diagnose(file).efficiency


def product(
    build: Build, at: int, *, op: str = "aten::mm", tid: int | None = None, name: str = "sm90_gemm_bf16",
    length: int = 500, **args: object,
) -> Build:  # fmt: skip
    build.op(op, at, at + 10, tid, **{**PRODUCT, **args})
    return build.kernel(name, at + 20, at + 20 + length, launched=(at + 2, at + 3), tid=tid)


def test_hfu_is_the_time_at_the_peak_of_all_time(tmp_path: Path) -> None:
    """Two products in the 1,500 µs from the first kernel to the last."""
    (found,) = measured(tmp_path, product(product(Build(deviceProperties=H100), 0), 1000))
    assert found.total_ns == 1_500_000
    assert found.flops == found.model_flops == 2 * FLOPS
    assert found.known_share == 1.0
    assert found.hfu == found.mfu == pytest.approx(2 * FLOPS / PEAK / 1.5e-3)
    assert (found.precision, found.peak_flops_per_second) == ("bf16", PEAK)
    assert found.recomputed_flops is None


def checkpointed(build: Build) -> Build:
    """One product forward, the same again in the backward pass, and one for the gradient."""
    product(build, 0, **{"Sequence number": 5, "Fwd thread id": 0})
    build.op("MmBackward0", 1000, 3000, 2, **{"Sequence number": 5, "Fwd thread id": 1})
    product(build, 1010, tid=2, **{"Sequence number": 1, "Fwd thread id": 0})
    return product(build, 2000, tid=2)


def test_what_is_recomputed_is_in_hfu_and_not_in_mfu(tmp_path: Path) -> None:
    (found,) = measured(tmp_path, checkpointed(Build(deviceProperties=H100)))
    assert (found.flops, found.recomputed_flops, found.model_flops) == (3 * FLOPS, FLOPS, 2 * FLOPS)
    assert found.hfu == pytest.approx(3 * FLOPS / PEAK / 2.5e-3)
    assert found.mfu == pytest.approx(2 * FLOPS / PEAK / 2.5e-3)


@pytest.mark.parametrize(
    ("length", "known", "is_told"), [(50, 10 / 11, True), (100, 5 / 6, False)], ids=["a tenth", "a sixth"]
)
def test_a_call_of_unknown_shape_hides_itself_alone(
    tmp_path: Path, length: int, known: float, is_told: bool
) -> None:
    """One product of 500 µs is known; of `length` µs of the same op the shapes are not."""
    build = product(Build(deviceProperties=H100), 0)
    build.op("aten::mm", 600, 610).kernel("sm90_gemm_bf16", 620, 620 + length, launched=(602, 603))
    (found,) = measured(tmp_path, build)
    assert found.known_share == pytest.approx(known)
    assert found.flops == FLOPS
    assert (found.hfu is not None) is (found.mfu is not None) is (found.model_flops is not None) is is_told


def test_a_product_by_a_transform_is_not_known(tmp_path: Path) -> None:
    build = product(Build(deviceProperties=H100), 0)
    product(build, 1000, name="winograd_fwd_gemm", length=400)
    (found,) = measured(tmp_path, build)
    assert found.known_share == pytest.approx(500 / 900)
    assert found.hfu is found.mfu is None


def test_an_op_around_another_does_its_work_once(tmp_path: Path) -> None:
    """linear launches a kernel of its own beside the product that it calls."""
    build = Build(deviceProperties=H100)
    build.op("aten::linear", 0, 60, **PRODUCT)
    product(build, 5).kernel("sm90_gemm_bf16_bias", 600, 610, launched=(40, 41))
    (found,) = measured(tmp_path, build)
    assert found.flops == FLOPS
    assert found.known_share == 1.0


def test_more_than_the_device_can_do_is_no_figure(tmp_path: Path) -> None:
    """137 GFLOP in 100 µs would be 1,374 of 989 TFLOP/s: in the forward pass alone it would be possible."""
    build = Build(deviceProperties=H100)
    product(build, 0, length=50, **{"Sequence number": 5, "Fwd thread id": 0})
    build.op("MmBackward0", 60, 200, 2, **{"Sequence number": 5, "Fwd thread id": 1})
    product(build, 62, tid=2, length=50, **{"Sequence number": 1, "Fwd thread id": 0})
    product(build, 150, tid=2, length=10)
    (found,) = measured(tmp_path, build)
    assert found.flops == 3 * FLOPS
    assert found.hfu is found.mfu is None


@pytest.mark.parametrize("properties", [[], [{"id": 0, "name": "NVIDIA Unheard-of 9000"}]])
def test_an_unknown_device_has_flops_and_no_shares(
    tmp_path: Path, properties: list[dict[str, object]]
) -> None:
    (found,) = measured(tmp_path, product(Build(deviceProperties=properties), 0))
    assert found.flops == found.model_flops == FLOPS
    assert found.hfu is found.mfu is found.peak_flops_per_second is None


@pytest.mark.parametrize(
    "args",
    [{"Input Dims": [], "Input type": []}, {"Input Dims": [[2**40, 2**40]] * 2}],
    ids=["none", "absurd"],
)
def test_shapes_that_tell_nothing_give_nothing(tmp_path: Path, args: dict[str, object]) -> None:
    assert measured(tmp_path, product(Build(deviceProperties=H100), 0, **args)) == ()


def test_two_devices_are_measured_apart(tmp_path: Path) -> None:
    build = Build(deviceProperties=[*H100, {"id": 1, "name": "NVIDIA H100 80GB HBM3"}])
    product(build, 0)
    build.op("aten::mm", 1000, 1010, **PRODUCT)
    build.kernel("sm90_gemm_bf16", 1020, 1270, launched=(1002, 1003), device=1)
    first, second = measured(tmp_path, build)
    assert (first.device.index, second.device.index) == (0, 1)
    assert (first.total_ns, second.total_ns) == (500_000, 250_000)
    assert first.flops == second.flops == FLOPS
    assert second.mfu == pytest.approx(2 * first.mfu if first.mfu is not None else None)


CALL = st.tuples(
    st.sampled_from(["aten::mm", "aten::linear", "aten::add", "MmBackward0"]),
    st.integers(0, 3000),
    st.integers(1, 900),
    st.sampled_from([64, 1000, 4096, None]),
    st.sampled_from([None, 0, 1]),
)


@given(st.lists(CALL, min_size=1, max_size=12))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mfu_is_no_more_than_hfu_and_both_are_shares(
    tmp_path: Path, calls: list[tuple[str, int, int, int | None, int | None]]
) -> None:
    build = Build(deviceProperties=H100)
    for number, (op, at, length, size, thread) in enumerate(calls):
        args = {} if size is None else {**PRODUCT, "Input Dims": [[size, size], [size, size]]}
        args |= {} if thread is None else {"Sequence number": number, "Fwd thread id": thread}
        build.op(op, at, at + length, **args)
        build.kernel("sm90_gemm_bf16", at + 20, at + 20 + length, launched=(at, at), stream=number % 3)
    for found in measured(tmp_path, build):
        assert found.known_share is not None
        assert 0 <= found.known_share <= 1
        assert (found.hfu is None) == (found.mfu is None)
        if found.hfu is not None and found.mfu is not None:
            assert 0 <= found.mfu <= found.hfu <= 1
        assert found.recomputed_flops is None or found.recomputed_flops <= np.int64(found.flops or 0)


def test_scores_that_fused_attention_makes_again_are_no_model_flops(tmp_path: Path) -> None:
    """Forward two products, backward five of which one repeats the scores: HFU counts seven, MFU six."""
    heads, length, size = 16, 2048, 64
    one = 2 * heads * length * length * size
    tensor = [1, heads, length, size]
    build = Build(deviceProperties=H100)
    forward = {
        "Input Dims": [tensor, tensor, tensor, [], [], []],
        "Input type": ["c10::BFloat16"] * 3 + ["Scalar"] * 3,
        "Concrete Inputs": ["", "", "", "0.", "False", "False"],
        "Sequence number": 3,
        "Fwd thread id": 0,
    }
    build.op("aten::_scaled_dot_product_flash_attention", 0, 10, **forward)
    build.kernel("flash_fwd_kernel<bf16>", 20, 220, launched=(2, 3))
    node = {"Sequence number": 3, "Fwd thread id": 1}
    build.op("autograd::engine::evaluate_function: ScaledDotProductFlashAttentionBackward0", 30, 60, **node)
    backward = {
        "Input Dims": [tensor, tensor, tensor, tensor, tensor, [], [], [], [], [], [], [], [], []],
        "Input type": ["c10::BFloat16"] * 5 + [""] * 9,
        "Concrete Inputs": ["", "", "", "", "", "", "", "", str(length), str(length), "0.", "False", "", ""],
    }
    build.op("aten::_scaled_dot_product_flash_attention_backward", 32, 50, **backward)
    build.kernel("flash_bwd_kernel<bf16>", 220, 720, launched=(34, 35))
    (found,) = measured(tmp_path, build)
    assert found.flops == 7 * one
    assert found.recomputed_flops == one
    assert found.model_flops == 6 * one
    assert found.hfu is not None
    assert found.mfu == pytest.approx(found.hfu * 6 / 7)
