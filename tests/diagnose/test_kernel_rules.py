"""Rules of kernels from a trace to a finding, each beside the case that looks like it and is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from stepscope.model import report
from tests.analyse.build import Build
from tests.analyse.kernel_run import A100, BF16, FP32, H100, V100, Op, busy_until, dense, report_of, run
from tests.analyse.test_recoverable import ATTENTION, GEMM, SGEMM, SQUARE, optimizer, product

FAST = Op("aten::mm", 20, [[4096, 4096], [4096, 4096]], BF16, GEMM)
CHAIN = [Op(f"aten::{name}", 12, [SQUARE, SQUARE, []]) for name in ("add", "mul", "sub", "div", "where")]
ALONE = [Op("aten::add", 12, [SQUARE, SQUARE, []]), FAST] * 5
TURN = Op(
    "aten::copy_",
    10,
    [[64, 64, 56, 56], [64, 64, 56, 56], []],
    strides=[dense([64, 64, 56, 56]), [200704, 1, 3584, 64], []],
)
SHORT = Op("aten::add", 4, [[64], [64], []], times=40)
LOOP = "void at::native::vectorized_elementwise_kernel<4>"


def recomputed(share: float) -> Build:
    """Three steps of 1 ms: forward 300 µs, backward the rest, of which a share repeats the forward."""
    again = 1000 * share
    build = busy_until(Build(deviceProperties=[{"id": 0, "name": H100}]), 2000)
    for number in range(3):
        host, at = number * 1000, 2000 + number * 1000
        build = build.step(number, host, host + 1000)
        own = {"Sequence number": 5, "Fwd thread id": 0}
        build = build.op("aten::relu", host + 1, host + 2, **own)
        build = build.kernel(LOOP, at, at + 300, launched=(host + 1.2, host + 1.4))
        build = build.op("autograd::engine::evaluate_function: ReluBackward0", host + 3, host + 9)
        if again:
            build = build.op("aten::relu", host + 4, host + 5, **{"Sequence number": 6, "Fwd thread id": 0})
            build = build.kernel(LOOP, at + 300, at + 300 + again, launched=(host + 4.2, host + 4.4))
        build = build.op("aten::threshold_backward", host + 6, host + 7)
        build = build.kernel(LOOP, at + 300 + again, at + 1000, launched=(host + 6.2, host + 6.4))
    return build


CASES = {
    # Five ops in a row move 15 tensors in 60 µs; at most all but one operand and the result can go.
    "unfused-elementwise": (run([*CHAIN, FAST]), 60 * 13 / 15 / 80, run(ALONE)),
    "unfused-attention": (run(ATTENTION), 35 / 95, run([ATTENTION[0], FAST, ATTENTION[3]])),
    "tf32-off": (
        run([Op("aten::mm", 8000, [[4096, 4096], [4096, 4096]], FP32, SGEMM)], A100),
        1 - 19.5 / 156,
        run([Op("aten::mm", 400, [[4096, 4096], [4096, 4096]], FP32, "ampere_tf32_s1688gemm_tn")], A100),
    ),
    "tensor-cores-unused": (
        run([Op("aten::mm", 900, [[4096, 4096], [4096, 4096]], FP32, "volta_sgemm_128x64_nn")], V100),
        None,
        run([Op("aten::mm", 400, [[4096, 4096], [4096, 4096]], "c10::Half", "volta_h884gemm_nn")], V100),
    ),
    "misaligned-shapes": (
        run([product(4096, 300), product(4095, 700)]),
        (700 - 300 * 4095 / 4096) / 1000,
        run([product(4096, 300), product(4096, 700, rows=4095)]),
    ),
    "layout-transposes": (run([TURN, FAST]), 10 / 30, run([FAST, FAST])),
    "unfused-optimizer": (
        optimizer(LOOP, 120, 2),
        240 / 740,
        optimizer("void multi_tensor_apply_kernel<FusedAdamMathFunctor>", 4, 60),
    ),
    "recomputation": (recomputed(0.2), 0.2, recomputed(0)),
    # Each kernel of 4 µs is followed by a pause of 3 µs that nobody on the host is to blame for.
    "small-kernels": (run([SHORT], pause_us=3), 3 / 7, run([Op("aten::add", 40, times=20)], pause_us=3)),
}


def of_rule(answer: report.Report, rule: str) -> report.Finding | None:
    return next((finding for finding in answer.findings if finding.rule == rule), None)


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_of_kernels_is_found_with_its_cost(rule: str, tmp_path: Path) -> None:
    build, cost, _ = CASES[rule]
    found = of_rule(report_of(build, tmp_path), rule)
    assert found is not None
    if cost is None:
        assert found.cost is None
        assert found.severity == "info"
        return
    assert found.cost is not None
    assert found.cost.share == pytest.approx(cost, rel=0.02)
    assert sum(each.share for each in found.culprits) <= 1.001
    for remedy in found.remedies:
        assert remedy.gain_share is None or remedy.gain_share[1] <= found.cost.share + 1e-6


@pytest.mark.parametrize("rule", CASES)
def test_what_only_looks_like_it_is_ruled_out(rule: str, tmp_path: Path) -> None:
    answer = report_of(CASES[rule][2], tmp_path)
    assert of_rule(answer, rule) is None
    assert rule in {out.rule for out in answer.ruled_out}


def test_the_verdict_says_that_a_bound_is_one(tmp_path: Path) -> None:
    answer = report_of(CASES["unfused-attention"][0], tmp_path)
    assert answer.verdict.class_ == "computing-slowly"
    assert answer.verdict.text.startswith("Computing slowly; at most 36.8 % of the step")
    found = of_rule(answer, "unfused-attention")
    assert found is not None
    assert found.cost is not None
    assert found.cost.is_bound is True
    assert found.remedies[0].gain_share == (0.0, pytest.approx(35 / 95, abs=1e-3))


def test_two_rules_never_win_the_same_time(tmp_path: Path) -> None:
    """Attention, odd products, adds in a row and a loop: together no more than there is to compute."""
    ops = [*ATTENTION, product(4096, 30), product(4095, 60), *CHAIN, *[TURN] * 3]
    answer = report_of(run(ops), tmp_path)
    costs = {f.rule: f.cost.time_ns for f in answer.findings if f.cost is not None}
    assert set(costs) >= {"unfused-attention", "misaligned-shapes", "layout-transposes"}
    assert sum(costs.values()) <= answer.accounting[0].compute_ns


def remedies(answer: report.Report, rule: str) -> list[str]:
    found = of_rule(answer, rule)
    assert found is not None
    return [remedy.text for remedy in found.remedies]


def test_attention_that_is_called_already_is_not_advised(tmp_path: Path) -> None:
    inside = Op("aten::_scaled_dot_product_attention_math", 0.1, kernel="void nothing()")
    (text,) = remedies(report_of(run([inside, *ATTENTION]), tmp_path), "unfused-attention")
    assert text.startswith("scaled_dot_product_attention is called")


def test_an_optimizer_without_a_fused_version_gets_no_patch_of_another(tmp_path: Path) -> None:
    (text,) = remedies(report_of(optimizer(LOOP, 120, 2, "Muon"), tmp_path), "unfused-optimizer")
    assert text.startswith("Update many tensors in one launch")
    (text,) = remedies(report_of(optimizer(LOOP, 120, 2, "SGD"), tmp_path), "unfused-optimizer")
    assert text.startswith("Use the fused optimizer")


def test_graphs_are_not_advised_to_a_run_that_replays_them(tmp_path: Path) -> None:
    build = busy_until(Build(), 300)
    for number in range(3):
        host, at = number * 700, 300 + number * 700
        build = build.step(number, host, host + 700)
        build = build.call("cudaGraphLaunch", host + 1, host + 2, correlation=number + 1)
        for k in range(140):
            build = build.kernel("void short_one()", at + 5 * k, at + 5 * k + 3, correlation=number + 1)
    texts = remedies(report_of(build, tmp_path), "small-kernels")
    assert texts[0].startswith("The kernels come out of a graph already")
    assert not any(text.startswith("Compile with CUDA graphs") for text in texts)
