"""Phases of the step: loops recorded with PyTorch, whose notes say what is true, and rows by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.analyse.phase import Phase
from stepscope.analyse.rank import analyse_rank
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from tests.analyse.build import Build
from tests.analyse.recorded import built, on_two_threads, recorded

FIELDS = {
    Phase.FORWARD: "forward_ns",
    Phase.BACKWARD: "backward_ns",
    Phase.RECOMPUTE: "recompute_ns",
    Phase.OPTIMIZER: "optimizer_ns",
    Phase.OTHER: "other_ns",
}
# Loop -> how many kernels of 1 µs are of each phase, in the order of FIELDS.
LOOPS = {
    "plain": (36, 50, 0, 24, 0),
    # The first pass through a checkpointed region records nothing, the second one does.
    "reentrant": (28, 50, 20, 24, 0),
    "non_reentrant": (36, 50, 20, 24, 0),
    "compiled": (24, 50, 0, 24, 0),
    "frozen": (36, 16, 0, 4, 0),
    # Three passes each way, then gradients are cleared and clipped outside every phase.
    "accumulated": (108, 210, 0, 24, 124),
    "in_backward": (36, 50, 0, 24, 0),
    "closure": (36, 50, 0, 24, 0),
    # Graphs of the backward pass itself: recorded, and nothing is done again.
    "double": (66, 278, 0, 24, 0),
    "double_linear": (26, 94, 0, 8, 0),
    "evaluated": (36, 50, 0, 24, 36),
    "evaluated_with_autograd": (36, 50, 0, 24, 60),
    "evaluated_function": (16, 28, 0, 6, 16),
}


def analysed(where: Path, build: Build) -> RankAnalysis:
    file = where / "t.json"
    file.write_text(build.write())
    (analysis,) = analyse_rank(stepscope.load(file))
    return analysis


def phases_of(analysis: RankAnalysis) -> report.Phases | None:
    """Of all devices together, in the rows that decide."""
    found = [each for device in analysis.devices if (each := device.accounting.phases) is not None]
    sums = {field: sum(getattr(each, field) for each in found) for field in FIELDS.values()}
    return report.Phases(**sums) if found else None


def microseconds(phases: report.Phases | None) -> tuple[int, ...]:
    assert phases is not None
    return tuple(getattr(phases, field) // 1000 for field in FIELDS.values())


@pytest.mark.parametrize("is_apart", [False, True], ids=["one thread", "two threads"])
@pytest.mark.parametrize("name", LOOPS)
def test_a_recorded_loop_has_the_phases_that_its_notes_say(tmp_path: Path, name: str, is_apart: bool) -> None:
    rows = on_two_threads(recorded(name)) if is_apart else recorded(name)
    analysis = analysed(tmp_path, built(rows))
    assert microseconds(phases_of(analysis)) == LOOPS[name]
    truth = Counter((row.name, row.truth) for row in rows if row.is_leaf)
    found = Counter(
        {
            (op.name, phase): getattr(op.phases, field) // 1000
            for op in analysis.operators
            for phase, field in FIELDS.items()
        }
    )
    assert +found == truth


def backward(build: Build, at: int, node: str, *, engine: bool = True, tid: int = 2, **args: object) -> Build:
    """A node of 10 µs with one op and one kernel of 4 µs in it."""
    if engine:
        build.op(f"autograd::engine::evaluate_function: {node}", at, at + 10, tid, **args)
    build.op(node, at + 1, at + 9, tid, **args).op("aten::mm", at + 2, at + 8, tid)
    return build.kernel("gemm", at + 4, at + 8, launched=(at + 3, at + 4), tid=tid)


def forward(build: Build, at: int, op: str = "aten::mm", tid: int | None = None, **args: object) -> Build:
    """An op of 10 µs with one kernel of 2 µs in it."""
    return build.op(op, at, at + 10, tid, **args).kernel(
        "gemm", at + 4, at + 6, launched=(at + 3, at + 4), tid=tid
    )


OLD_NODES = [
    "AddmmBackward",
    "ReluBackward1",
    "MaxPool2DWithIndicesBackward",
    "UpsampleBilinear2DBackward0",
    "torch::autograd::AccumulateGrad",
    "torch::autograd::CopyBackwards",
    "torch::autograd::CppNode<SplitLookupFunction_sgd_Op>",
    "torch::jit::(anonymous namespace)::DifferentiableGraphBackward",
    "All2All_Pooled_WaitBackward",
    "_Log1PBackward0",
]


@pytest.mark.parametrize("engine", [True, False], ids=["with engine rows", "as before 2022"])
@pytest.mark.parametrize("node", OLD_NODES)
def test_a_node_is_backward_whatever_it_is_called(tmp_path: Path, node: str, engine: bool) -> None:
    build = forward(Build(), 0, **{"Sequence number": 5, "Fwd thread id": 0})
    numbers = {"Sequence number": 5, "Fwd thread id": 1}
    build = backward(build, 100, node, engine=engine, **numbers)
    assert microseconds(phases_of(analysed(tmp_path, build))) == (2, 4, 0, 0, 0)


@pytest.mark.parametrize(
    "op", ["aten::softmax_backward", "aten::_softmax_backward_data", "Backwards", "Backward"]
)
def test_other_names_are_no_nodes(tmp_path: Path, op: str) -> None:
    assert phases_of(analysed(tmp_path, forward(Build(), 0, op))) is None


def test_a_trace_that_marks_nothing_has_no_phases(tmp_path: Path) -> None:
    build = forward(Build(), 0, **{"Sequence number": 5, "Fwd thread id": 0})
    analysis = analysed(tmp_path, build)
    assert phases_of(analysis) is None
    assert all(op.phases is None for op in analysis.operators)


def test_the_backward_passes_of_two_devices_have_a_thread_each(tmp_path: Path) -> None:
    """Forward ops of both devices on the main thread; recomputation on the second device alone."""
    build = Build()
    for device, tid in ((0, 2), (1, 3)):
        at, number = 20 * device, 5 + device
        build.op("aten::mm", at, at + 10, **{"Sequence number": number, "Fwd thread id": 0})
        build.kernel("gemm", at + 4, at + 6, launched=(at + 3, at + 4), device=device)
        node = {"Sequence number": number, "Fwd thread id": 1}
        build.op("autograd::engine::evaluate_function: MmBackward0", 100, 150, tid, **node)
        build.op("MmBackward0", 101, 149, tid, **node)
        if device == 1:
            build.op("aten::mm", 105, 115, tid, **{"Sequence number": 5, "Fwd thread id": 0})
            build.kernel("gemm", 110, 118, launched=(106, 107), tid=tid, device=device)
        build.op("aten::mm", 120, 130, tid)
        build.kernel("gemm", 125, 129, launched=(121, 122), tid=tid, device=device)
    assert microseconds(phases_of(analysed(tmp_path, build))) == (4, 8, 8, 0, 0)


def test_a_forward_pass_without_its_backward_pass_is_none_where_nodes_name_their_ops(tmp_path: Path) -> None:
    def steps(*, is_numbered: bool) -> Build:
        build = Build()
        for at, number in ((0, 5), (500, 6)):
            forward(build, at, **{"Sequence number": number, "Fwd thread id": 0})
            if at == 0:
                numbers = {"Sequence number": number, "Fwd thread id": 1} if is_numbered else {}
                backward(build, at + 100, "MmBackward0", **numbers)
        return build

    assert microseconds(phases_of(analysed(tmp_path, steps(is_numbered=True)))) == (2, 4, 0, 0, 2)
    # Where no node names its op the last ops may well be a forward pass that was cut.
    assert microseconds(phases_of(analysed(tmp_path, steps(is_numbered=False)))) == (4, 4, 0, 0, 0)


def test_clipping_between_backward_pass_and_optimizer_is_in_neither(tmp_path: Path) -> None:
    """Written before clipping was `no_grad`: its ops carry the number of the next forward op."""
    build = Build()
    for at, number in ((0, 5), (1000, 6)):
        forward(build, at, **{"Sequence number": number, "Fwd thread id": 0})
        backward(build, at + 100, "MmBackward0", **{"Sequence number": number, "Fwd thread id": 1})
        forward(build, at + 200, "aten::norm", **{"Sequence number": number + 1, "Fwd thread id": 0})
        build.note("Optimizer.step#SGD.step", at + 300, at + 320)
        forward(build, at + 305, "aten::add_")
    assert microseconds(phases_of(analysed(tmp_path, build))) == (4, 8, 0, 4, 4)


@pytest.mark.parametrize("place", [50, 400], ids=["before the backward pass", "after the step"])
def test_clearing_gradients_parts_no_forward_pass_from_its_backward_pass(tmp_path: Path, place: int) -> None:
    build = Build()
    for at, number in ((0, 5), (1000, 6)):
        forward(build, at, **{"Sequence number": number, "Fwd thread id": 0})
        build.note("Optimizer.zero_grad#SGD.zero_grad", at + place, at + place + 20)
        forward(build, at + place + 5, "aten::zero_", **{"Sequence number": number + 1, "Fwd thread id": 0})
        backward(build, at + 100, "MmBackward0", **{"Sequence number": number, "Fwd thread id": 1})
        build.note("Optimizer.step#SGD.step", at + 300, at + 320)
    assert microseconds(phases_of(analysed(tmp_path, build))) == (4, 8, 0, 0, 4)


ROW = st.tuples(
    st.sampled_from(
        [
            "aten::mm",
            "aten::mul_backward",
            "MulBackward0",
            "FunctionBackward",
            "Function",
            "autograd::engine::evaluate_function: MulBackward0",
            "Optimizer.step#SGD.step",
            "Optimizer.zero_grad#SGD.zero_grad",
            "enumerate(DataLoader)#_Iter.__next__",
        ]
    ),
    st.integers(0, 60),
    st.integers(0, 60),
    st.sampled_from([1, 2]),
    st.sampled_from([None, 0, 3, 4]),
    st.sampled_from([0, 0, 1, 2]),
)


@given(st.lists(ROW, max_size=14), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_phases_sum_to_device_time_whatever_the_rows(
    tmp_path: Path, rows: list[tuple[str, int, int, int, int | None, int]], kernels: list[tuple[int, int]]
) -> None:
    build = Build()
    for name, start, length, tid, number, thread in rows:
        args: Mapping[str, object] = (
            {} if number is None else {"Sequence number": number, "Fwd thread id": thread}
        )
        build.op(name, start, start + length, tid, **args)
    for place, (at, length) in enumerate(kernels):
        build.kernel("work", at + 5, at + 5 + length, launched=(at, at), tid=1 + place % 2, stream=place % 3)
    analysis = analysed(tmp_path, build)
    total = sum(length for _, length in kernels)
    if phases_of(analysis) is not None:
        assert sum(microseconds(phases_of(analysis))) == total
    for op in analysis.operators:
        assert op.phases is None or sum(getattr(op.phases, each) for each in FIELDS.values()) == op.device_ns
        assert op.total_ns is None or op.total_ns >= op.device_ns
