"""Phases, kinds, FLOPs and modules of real traces against figures from their JSON alone."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import stepscope
from stepscope.analyse.rank import analyse_rank
from stepscope.model.analysis import RankAnalysis
from stepscope.model.hardware import hardware_of
from stepscope.model.report import COMPUTE_KINDS
from tests.real.raw import activities, matrix_flops, phases_ns
from tests.real.test_answers import TRACES

NORMALIZATION = "tracelens/perf_model/normalization/normalization_layer_test.json.gz"


@cache
def analysed(path: Path) -> RankAnalysis:
    (analysis,) = analyse_rank(stepscope.load(path))
    return analysis


# Trace -> backward, recomputation, optimizer; and forward of what lies in none of them. All in nanoseconds.
PHASES = {
    # Recomputation is 4.2 of 9.9 ms forward work. Of the rest 882 µs are the copies of buffers with which
    # DistributedDataParallel begins, 832 µs copies out of its buckets, 14 µs the gradient of the loss.
    "mi300": (56_695_997, 4_209_958, 90_756, 5_671_267, 7_398_956),
    "ns_resolution": (313_693_168, 0, 5_532_802, 149_467_723, 153_228_471),
}


@pytest.mark.parametrize("name", PHASES)
def test_phases_are_those_of_the_rows_around_each_launch(shared_data: Path, name: str) -> None:
    path = shared_data / "traces" / TRACES[name]
    backward, recompute, optimizer, forward, rest = PHASES[name]
    raw = phases_ns(path)
    assert (raw["backward"], raw["recompute"], raw["optimizer"], raw["rest"]) == (
        backward,
        recompute,
        optimizer,
        rest,
    )
    found = analysed(path).accounting[0].phases
    assert found is not None
    assert (found.backward_ns, found.recompute_ns, found.optimizer_ns) == (backward, recompute, optimizer)
    assert (found.forward_ns, found.forward_ns + found.other_ns) == (forward, rest)


# Trace -> matrix operations, recomputed ones, and the share of the peak over the row.
FLOPS = {
    # A quarter of the arithmetic is done again.
    "mi300": (421_185_208_320, 101_732_843_520, 0.0057018),
    "qwen": (5_760_721_390_528, 0, 0.1655554),
}


@pytest.mark.parametrize("name", FLOPS)
def test_flops_are_those_of_the_shapes_and_hfu_their_time_at_the_peak(shared_data: Path, name: str) -> None:
    path = shared_data / "traces" / TRACES[name]
    flops, again, hfu = FLOPS[name]
    raw = matrix_flops(path)
    assert (raw["all"], raw["again"]) == (flops, again)
    (found,) = analysed(path).efficiency
    assert (found.flops, found.recomputed_flops or 0, found.known_share) == (flops, again, 1.0)
    assert found.model_flops == flops - again
    assert found.hfu == pytest.approx(hfu, abs=1e-7)
    model = hardware_of(found.device.name)
    assert model is not None
    if name == "qwen":  # all of it in bf16
        assert found.hfu == pytest.approx(flops / model.peak_flops["bf16"] / (found.total_ns / 1e9))
        assert found.mfu == found.hfu
    assert found.mfu is not None
    assert found.mfu < found.hfu or again == 0


def test_24_layers_of_qwen_by_hand(shared_data: Path) -> None:
    """16 sequences of 559 tokens, width 1024, 2816 in the feed-forward part, 16 causal heads of 64; and once
    the angles of 559 places in 32 frequencies."""
    tokens, width, inner = 16 * 559, 1024, 2816
    products = 4 * 2 * tokens * width * width + 3 * 2 * tokens * width * inner
    attention = 16 * 16 * (559 * 560 // 2) * 4 * 64
    (found,) = analysed(shared_data / "traces" / TRACES["qwen"]).efficiency
    assert found.flops == 24 * (products + attention) + 2 * 32 * 559


def test_elementwise_work_of_qwen_by_class_and_by_kind(shared_data: Path) -> None:
    """54.7 % of kernel time in the step is of the class elementwise, copies and casts among it.

    As kinds that is 46.0 % elementwise and 8.7 % layout: `aten::copy_` between operands of one shape and type
    and other strides, the transposed heads before attention. Concatenation moves what it is given: it is a
    copy. One stream: exclusive times are the durations.
    """
    analysis = analysed(shared_data / "traces" / TRACES["qwen"])
    by_class = Counter[str | None]()
    for kernel in analysis.kernels:
        by_class[kernel.class_] += kernel.device_ns
    assert by_class == {
        "elementwise": 17_362_113,
        "copy": 2_017_782,
        "gemm": 8_858_227,
        "attention": 2_722_705,
        "reduction": 747_455,
        "embedding": 51_776,
    }
    row = analysis.accounting[0]
    assert row.compute is not None
    kinds = {kind: ns for kind in COMPUTE_KINDS if (ns := getattr(row.compute, f"{kind}_ns"))}
    assert kinds == {
        "elementwise": 14_595_846,
        "copy": 2_017_782,
        "layout": 2_766_267,
        "gemm": 8_858_227,
        "attention": 2_722_705,
        "reduction": 747_455,
        "embedding": 51_776,
    }
    assert kinds["elementwise"] + kinds["layout"] == by_class["elementwise"]
    assert by_class["elementwise"] / row.compute_ns == pytest.approx(0.5467, abs=1e-4)


# Trace -> module -> own device time and that of all inside, in nanoseconds.
MODULES = {
    "qwen": {"Qwen2Model_0": (9_856, 31_905_473), "Qwen2Model_0/Qwen2DecoderLayer_13": (36_255, 1_328_634)},
    "b200": {"GptOssForCausalLM_0": (None, 11_575_199)},
    # What DistributedDataParallel launches itself are its buffers' copies.
    "mi300": {
        "DistributedDataParallel_0": (882_122, 19_788_308),
        "DistributedDataParallel_0/ResNet_0": (0, 18_906_186),
    },
}


@pytest.mark.parametrize("name", MODULES)
def test_modules_have_the_time_of_what_they_launched(shared_data: Path, name: str) -> None:
    found = {module.path: module for module in analysed(shared_data / "traces" / TRACES[name]).modules}
    for path, (own, whole) in MODULES[name].items():
        assert found[path].total_ns == whole
        assert own is None or found[path].device_ns == own
    for path, module in found.items():
        outer = found.get(path.rpartition("/")[0])
        assert outer is None or module.total_ns <= outer.total_ns


def test_a_module_s_backward_pass_holds_the_recomputation(shared_data: Path) -> None:
    """All that is recomputed belongs to a checkpointed block, and every block to the network."""
    analysis = analysed(shared_data / "traces" / TRACES["mi300"])
    whole = next(module for module in analysis.modules if module.path == "DistributedDataParallel_0/ResNet_0")
    assert whole.backward_ns is not None
    assert whole.forward_ns is not None
    assert (whole.forward_ns, whole.backward_ns) == (5_633_473, 13_272_713)
    # Not of the network are the reductions of gradients, in hooks of the backward pass.
    path = shared_data / "traces" / TRACES["mi300"]
    linked = sum(
        event["end"] - event["ts"]
        for event, _, around in activities(path)
        if any("::engine" in h["name"] and "AccumulateGrad" not in h["name"] for h in around)
        and not any("MseLoss" in h["name"] for h in around)
    )
    assert whole.backward_ns == linked


# Node -> the modules whose backward pass it is.
NORMALIZATIONS = {
    "NativeLayerNormBackward0": ("LayerNorm_0", "LayerNorm_1"),
    "NativeGroupNormBackward0": ("GroupNorm_0", "GroupNorm_1"),
    "MseLossBackward0": ("MSELoss_0",),
}


def test_layers_of_the_normalization_test_have_their_own_backward_pass(shared_data: Path) -> None:
    path = shared_data / "traces" / NORMALIZATION
    found = {module.path: module for module in analysed(path).modules}
    for node, names in NORMALIZATIONS.items():
        raw = sum(
            event["end"] - event["ts"]
            for event, _, around in activities(path)
            if any(h["name"] == f"autograd::engine::evaluate_function: {node}" for h in around)
        )
        modules = [found.get(f"Net_0/{name}") or found[name] for name in names]
        assert sum(module.backward_ns or 0 for module in modules) == raw > 0
    layers = [module for path, module in found.items() if path.startswith("Net_0/")]
    net = found["Net_0"]
    assert net.total_ns == net.device_ns + sum(module.total_ns for module in layers) == 881_186
    assert (net.forward_ns, net.backward_ns) == (425_048, 456_138)
