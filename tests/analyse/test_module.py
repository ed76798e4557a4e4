"""Device time by module: forward by frames, backward by the op that made a node."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stepscope
from stepscope.model import report
from tests.analyse.build import Build
from tests.analyse.recorded import built, on_two_threads, recorded

# Kernels of 1 µs in two iterations by module: own, with inner modules, forward, backward with recomputation.
# A linear layer launches 2 forward and 3 backward (two products and a sum; the first needs no gradient of
# its input), a block one each way for its ReLU. Checkpointed, a block's forward work is in its backward pass
# again. Of the reentrant way the first pass has no numbers, and views without one are not in the tables.
OUTER = {"Model_0/Linear_5": (10, 10, 4, 6), "Model_0/Linear_0": (8, 8, 4, 4)}
LAYERS = ("Block_0/Linear_1", "Block_0/Linear_2", "Block_1/Linear_3", "Block_1/Linear_4")
MODELS = {
    "plain": ((0, 66, 28, 38), (4, 24, 10, 14), (10, 10, 4, 6)),
    "non_reentrant": ((0, 86, 28, 58), (6, 34, 10, 24), (14, 14, 4, 10)),
    "reentrant": ((0, 78, 20, 58), (6, 30, 6, 24), (12, 12, 2, 10)),
}


def modules(where: Path, build: Build) -> dict[str, report.Module]:
    file = where / "t.json"
    file.write_text(build.write())
    return {module.path: module for module in stepscope.diagnose(file).modules}


def numbers(module: report.Module) -> tuple[int | None, ...]:
    return tuple(
        None if ns is None else ns // 1000
        for ns in (module.device_ns, module.total_ns, module.forward_ns, module.backward_ns)
    )


@pytest.mark.parametrize("is_apart", [False, True], ids=["one thread", "two threads"])
@pytest.mark.parametrize("name", MODELS)
def test_every_layer_has_its_backward_pass_and_its_recomputation(
    tmp_path: Path, name: str, is_apart: bool
) -> None:
    """On two threads both count from the same number: a node finds its op by the thread that made it."""
    rows = on_two_threads(recorded(name)) if is_apart else recorded(name)
    model, block, layer = MODELS[name]
    wanted = {"Model_0": model, "Model_0/Block_0": block, "Model_0/Block_1": block, **OUTER}
    wanted |= {f"Model_0/{path}": layer for path in LAYERS}
    found = modules(tmp_path, built(rows))
    assert {path: numbers(module) for path, module in found.items()} == wanted


def test_an_op_before_the_maker_shares_its_number_and_is_not_taken_for_it(tmp_path: Path) -> None:
    """A frozen layer makes no node: its op carries the number of the next layer's."""
    build = Build().frame("nn.Module: Model_0", 0, 90)
    for at, layer in ((0, "Frozen_0"), (40, "Linear_0")):
        build.frame(f"nn.Module: {layer}", at + 1, at + 30)
        build.op("aten::mm", at + 2, at + 20, **{"Sequence number": 7, "Fwd thread id": 0})
        build.kernel("gemm", at + 10, at + 15, launched=(at + 3, at + 4))
    build.op("MmBackward0", 100, 120, 2, **{"Sequence number": 7, "Fwd thread id": 1})
    build.op("aten::mm", 101, 110, 2).kernel("gemm", 110, 117, launched=(102, 103), tid=2)
    found = modules(tmp_path, build)
    assert numbers(found["Model_0/Linear_0"]) == (12, 12, 5, 7)
    assert numbers(found["Model_0/Frozen_0"]) == (5, 5, 5, 0)
    assert numbers(found["Model_0"]) == (0, 17, 10, 7)


def test_without_phases_there_is_no_forward_and_no_backward(tmp_path: Path) -> None:
    build = Build().frame("nn.Module: Model_0", 0, 90).frame("nn.Module: Linear_0", 1, 80)
    build.op("aten::mm", 2, 20).kernel("gemm", 10, 15, launched=(3, 4))
    build.kernel("gemm", 100, 120, launched=(95, 96))
    found = modules(tmp_path, build)
    assert {path: numbers(each) for path, each in found.items()} == {
        "Model_0": (0, 5, None, None),
        "Model_0/Linear_0": (5, 5, None, None),
    }
    # What belongs to no module is in no row, and in the whole.
    assert found["Model_0"].share == pytest.approx(5 / 25)


FRAME = st.tuples(st.sampled_from("ABC"), st.integers(0, 60), st.integers(1, 60), st.sampled_from([1, 2]))


@given(st.lists(FRAME, max_size=10), st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)), min_size=1))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_inner_module_has_no_more_than_the_outer_one(
    tmp_path: Path, frames: list[tuple[str, int, int, int]], kernels: list[tuple[int, int]]
) -> None:
    build = Build()
    for name, start, length, tid in frames:
        build.frame(f"nn.Module: {name}_0", start, start + length, tid)
    for place, (at, length) in enumerate(kernels):
        build.kernel("work", at + 5, at + 5 + length, launched=(at, at), tid=1 + place % 2, stream=place % 3)
    found = modules(tmp_path, build)
    for path, module in found.items():
        outer = found.get(path.rpartition("/")[0])
        assert outer is None or module.total_ns <= outer.total_ns
        inner = [each for other, each in found.items() if other.rpartition("/")[0] == path]
        assert module.total_ns == module.device_ns + sum(each.total_ns for each in inner)
    roots = sum(module.total_ns for path, module in found.items() if "/" not in path)
    assert roots <= 1000 * sum(length for _, length in kernels)
