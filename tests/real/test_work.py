"""Work of real kernels, by hand from the shapes of the op that launched them, and a peer beside it."""

from __future__ import annotations

import ast
import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import stepscope
from stepscope.analyse.roofline import Works
from stepscope.analyse.work import call_of, work_of
from stepscope.model.trace import Trace
from stepscope.trace.category import Kind, span_kinds
from tests.real.test_answers import TRACES


@pytest.fixture(scope="module")
def traces(shared_data: Path) -> dict[str, Trace]:
    return {name: stepscope.load(shared_data / "traces" / TRACES[name]) for name in HAND}


def op_of(trace: Trace, correlation: int) -> int:
    """Core row of the op that is innermost around the launch of this correlation."""
    kinds, spans = span_kinds(trace), trace.spans
    rows = trace.correlations.row[trace.correlations.correlation == correlation]
    call = next(row for row in rows.tolist() if kinds[row] == Kind.CALL)
    ops = np.flatnonzero((kinds == Kind.OP) & (spans.track_id == spans.track_id[call]))
    start, end = spans.ts_ns[ops], spans.ts_ns[ops] + spans.dur_ns[ops]
    around = ops[(start <= spans.ts_ns[call]) & (end > spans.ts_ns[call])]
    return int(around[np.argmax(spans.ts_ns[around])])


# Trace -> correlation of a kernel -> (its op, floating-point operations of the op's call)
HAND = {
    "qwen": {
        # 2 · 8944 · 1024 · 1024
        683386: ("aten::mm", 18_756_927_488),
        # 2 · 8944 · 2816 · 1024
        683517: ("aten::mm", 51_581_550_592),
        # 2 · 8944 · 1024 · 2816
        683595: ("aten::mm", 51_581_550_592),
        # 2 · 8944 · 1024 · 1024; 8944 · 1024 additions of the bias are not counted
        683059: ("aten::addmm", 18_756_927_488),
        # 16 · 16 heads, causal over 559: 559 · 560 / 2 = 156,520 pairs, 2 · (64 + 64) each
        683329: ("aten::_flash_attention_forward", 10_257_694_720),
        684004: ("aten::_flash_attention_forward", 10_257_694_720),
        684679: ("aten::_flash_attention_forward", 10_257_694_720),
    },
    "mi300": {
        # 256 -> 512 channels, 3×3, stride 2 makes 7×7 of 14×14: 2 · (10 · 512 · 49) · (256 · 9)
        5525: ("aten::miopen_convolution", 1_156_055_040),
        # 512 -> 512 channels, 3×3, 7×7 stay: 2 · (10 · 512 · 49) · (512 · 9)
        5534: ("aten::miopen_convolution", 2_312_110_080),
        # both gradients: twice that
        5590: ("aten::convolution_backward", 4_624_220_160),
        # 2 · 10 · 512 · 1000
        5509: ("aten::mm", 10_240_000),
        5513: ("aten::mm", 10_240_000),
    },
    "timesformer": {
        # patches of 16×16 of 224×224: 14×14 of them; 2 · (128 · 768 · 196) · (3 · 256)
        120989: ("aten::cudnn_convolution", 29_595_009_024),
        # 2 · 96 · 3137 · 3137 · 64
        121544: ("aten::bmm", 120_923_369_472),
        # 2 · 37632 · 8 · 8 · 64
        121222: ("aten::bmm", 308_281_344),
        # 2 · 25088 · 2304 · 768
        121157: ("aten::addmm", 88_785_027_072),
    },
}


@pytest.mark.parametrize(
    ("name", "correlation"), [(name, each) for name, kernels in HAND.items() for each in kernels]
)
def test_a_kernel_s_op_does_this_work(name: str, correlation: int, traces: dict[str, Trace]) -> None:
    trace, (op, flops) = traces[name], HAND[name][correlation]
    row = op_of(trace, correlation)
    assert trace.names[trace.spans.name_id[row]] == op
    works = Works(trace).of(np.array([row]))
    assert works is not None
    assert [work.flops for work, _, _ in works] == [flops]


def published(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    csv.field_size_limit(10**9)
    for file in sorted(folder.glob("*/*.csv")):
        if file.name in ("GEMM.csv", "CONV_fwd.csv", "CONV_bwd.csv", "SDPA_fwd.csv"):
            with file.open(encoding="utf-8", newline="") as rows:
                for row in csv.DictReader(rows):
                    yield f"{file.parent.name}/{file.name}", row


def test_work_is_what_tracelens_published_but_for_bias_and_diagonal(shared_data: Path) -> None:
    """TraceLens counts the addition of a bias, takes half of all pairs as causal, which leaves the diagonal
    out, and counts the gradient of the input of a first convolution, which nobody asks for."""
    num_equal = num_explained = 0
    for where, row in published(shared_data / "peers" / "tracelens"):
        name, dims = row["name"], row["Input Dims_first"]
        types = json.dumps(list(ast.literal_eval(row["Input type_first"])))
        values = json.dumps(list(ast.literal_eval(row["Concrete Inputs_first"])))
        if "..." in dims:
            continue
        work = work_of(name, call_of(dims.replace("(", "[").replace(")", "]"), types, values))
        if work is None:
            continue
        theirs = round(float(row["GFLOPS_first"]) * 1e9)
        if work.flops == theirs:
            num_equal += 1
            continue
        num_explained += 1
        shapes = json.loads(dims)
        if row.get("param: bias") == "True":
            assert theirs - work.flops == int(row["param: M"]) * int(row["param: N"]), (where, name, dims)
        elif "attention" in name:
            batch, heads, queries, size = shapes[0]
            # Their n²/2 of our n(n + 1)/2 pairs, 4 · size operations each.
            assert work.flops - theirs == batch * heads * queries // 2 * 4 * size, (where, dims)
        elif name == "aten::convolution_backward":
            assert "[False, True" in values, (where, dims)
            assert theirs == 2 * work.flops, (where, dims)
        else:
            # The bias of a convolution: one addition for each element of the result.
            result = work.flops // (2 * np.prod(shapes[1][1:]))
            assert theirs - work.flops == result, (where, name, dims)
    assert num_equal >= 20
    assert num_explained >= 5


def test_no_op_of_any_real_trace_is_beyond_its_device(shared_data: Path) -> None:
    for name in ("qwen", "timesformer", "b200", "mi300", "negative_queue", "vllm"):
        made = stepscope.diagnose(shared_data / "traces" / TRACES[name])
        assert not [issue for issue in made.health.issues if issue.code == "impossible_rate"]
        shares = [
            share
            for op in made.operators
            for share in (op.peak_share, op.memory_peak_share)
            if share is not None
        ]
        assert all(0 <= share <= 1 for share in shares), name


def test_a_trace_that_recorded_no_shapes_has_no_work_and_no_share(shared_data: Path) -> None:
    report = stepscope.diagnose(shared_data / "traces" / TRACES["alexnet"])
    assert {"aten::copy_", "aten::addmm"} <= {op.name for op in report.operators}
    assert not [op.name for op in report.operators if op.flops is not None or op.bytes is not None]
    assert not report.efficiency
    assert not report.operator_shapes
