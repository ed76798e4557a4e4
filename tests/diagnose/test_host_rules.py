"""Rules of the host's own work, from a trace to a finding, each beside what looks like its cause and is
not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from stepscope.model.report import encode
from tests.analyse.build import Build
from tests.diagnose.made import costs, finding, said, values

COMPILE = "_compile.compile_inner (dynamo_timed)"
OTHER_THREAD = 99


def loop(
    num: int,
    pauses: Mapping[int, int],
    name: str,
    *,
    cat: str = "user_annotation",
    tid: int | None = None,
    is_hidden: bool = False,
    is_marked: bool = True,
) -> Build:
    """Steps of 100 µs, the first of which 2 are the launch's. `pauses`: step -> how much longer the host is
    busy with `name` after the kernel, which goes on meanwhile where `is_hidden`."""
    build, at = Build(), 0
    for number in range(1, num + 1):
        more = pauses.get(number, 0)
        if is_marked:
            build = build.step(number, at, at + 100 + more)
        build = build.op("aten::mm", at, at + 4)
        end = at + 100 + (more if is_hidden else 0)
        build = build.kernel("gemm", at + 2, end, launched=(at + 1, at + 2))
        if more:
            build = build.row(cat, name, at + 100, at + 100 + more, build.pid, tid or build.pid)
        at += 100 + more
    return build


def test_steps_that_compile_again_and_again_are_part_of_the_job(tmp_path: Path) -> None:
    """Steps 3 and 5 of six take 80 µs more, 1.8 times the median: 160 of 760 µs."""
    answer = said(loop(6, {3: 80, 5: 80}, COMPILE), tmp_path)
    found = finding(answer, "compile-in-window")
    assert costs(answer)["compile-in-window"] == pytest.approx(160 / 760, abs=0.005)
    assert found.title == "The device waits while code is compiled again and again in the steady state"
    assert values(found)["recompiling_steps"] == 2
    assert [step.why for step in answer.steps if step.use == "marked"] == ["compile", "compile"]
    assert not any(open_.rule == "compile-in-window" for open_ in answer.undecided)


@pytest.mark.parametrize("steps", [(1,), (1, 2), (4,)])
def test_a_warm_up_and_a_single_late_compilation_are_left_out(steps: tuple[int, ...], tmp_path: Path) -> None:
    answer = said(loop(6, dict.fromkeys(steps, 80), COMPILE), tmp_path)
    assert "compile-in-window" not in costs(answer)
    assert tuple(step.step for step in answer.steps if step.use == "warm_up") == steps


@pytest.mark.parametrize(
    ("steps", "is_marked"), [((3, 5), False), ((1, 2, 3, 4, 5, 6), True)], ids=["no steps", "every step"]
)
def test_compilation_beside_which_nothing_did_without_stays_open(
    steps: tuple[int, ...], is_marked: bool, tmp_path: Path
) -> None:
    answer = said(loop(6, dict.fromkeys(steps, 80), COMPILE, is_marked=is_marked), tmp_path)
    found = finding(answer, "compile-in-window")
    assert found.confidence == ("medium" if is_marked else "low")
    assert found.title == "The device waits while code is compiled or tuned"
    (open_,) = (each for each in answer.undecided if each.rule == "compile-in-window")
    assert open_.missing == ("steady_state", "recompiling_steps")


PHASES = [
    ("checkpoint-stall", "save_checkpoint", "checkpoint_steps"),
    ("eval-stall", "evaluate", "eval_steps"),
    ("logging-stall", "tensorboard", "logging_steps"),
    ("garbage-collection", "gc.collect", "gc_steps"),
]


@pytest.mark.parametrize(("rule", "name", "count"), PHASES)
def test_a_phase_that_stops_the_loop_is_named_with_its_steps(
    rule: str, name: str, count: str, tmp_path: Path
) -> None:
    """Three of eight steps take 50 µs more: 150 of 950 µs."""
    answer = said(loop(8, {2: 50, 3: 50, 7: 50}, name), tmp_path)
    assert costs(answer) == {rule: pytest.approx(150 / 950, abs=0.005)}
    assert values(finding(answer, rule))[count] == 3
    assert answer.verdict.class_ == "other-stall"


@pytest.mark.parametrize(("rule", "name", "count"), PHASES)
@pytest.mark.parametrize("confuser", ["behind queued work", "on another thread"])
def test_a_phase_that_costs_the_device_nothing_is_none(
    rule: str, name: str, count: str, confuser: str, tmp_path: Path
) -> None:
    """A phase on another thread, and an evaluation that computes on the device: there is nothing to gain."""
    if confuser == "behind queued work":
        build = loop(8, {2: 50, 3: 50, 7: 50}, name, is_hidden=True)
    else:
        build = (
            loop(8, {}, name).note(name, 110, 160, tid=OTHER_THREAD).note(name, 600, 650, tid=OTHER_THREAD)
        )
    answer = said(build, tmp_path)
    assert rule not in costs(answer)
    assert answer.verdict.class_ == "healthy"


def test_activation_checkpoints_are_no_checkpoint(tmp_path: Path) -> None:
    answer = said(loop(8, {2: 50, 3: 50, 7: 50}, "checkpoint_block"), tmp_path)
    assert "checkpoint-stall" not in costs(answer)


def test_the_recorder_s_own_work_is_told_and_blames_no_job(tmp_path: Path) -> None:
    answer = said(loop(8, {2: 50, 3: 50, 7: 50}, "Activity Buffer Request", cat="overhead"), tmp_path)
    assert costs(answer) == {"profiler-overhead": pytest.approx(150 / 950, abs=0.005)}
    assert answer.verdict.class_ == "undecided"
    found = finding(answer, "profiler-overhead")
    assert found.severity == "warning"
    assert all(remedy.gain_share is None for remedy in found.remedies)
    hidden = loop(8, {2: 50, 3: 50, 7: 50}, "Activity Buffer Request", cat="overhead", is_hidden=True)
    assert "profiler-overhead" not in costs(said(hidden, tmp_path))


def test_kernels_that_are_loaded_late_are_compilation_and_no_profiler(tmp_path: Path) -> None:
    answer = said(loop(8, {2: 20, 3: 20, 7: 20}, "Lazy Function Loading", cat="overhead"), tmp_path)
    assert "profiler-overhead" not in costs(answer)
    assert costs(answer)["compile-in-window"] == pytest.approx(60 / 860, abs=0.005)
    found = finding(answer, "compile-in-window")
    assert found.title == "The device waits while kernels are loaded at their first use"
    assert [each.patch.after for each in found.remedies if each.patch] == ["CUDA_MODULE_LOADING=EAGER"]


def test_a_search_for_convolutions_is_told_from_recompilation(tmp_path: Path) -> None:
    answer = said(loop(6, {3: 80, 5: 80}, "cudnnFindConvolutionForwardAlgorithm"), tmp_path)
    patches = [each.patch.after for each in finding(answer, "compile-in-window").remedies if each.patch]
    assert patches == ["torch.backends.cudnn.benchmark = False"]


def python_loop(name: str | None, *, cat: str = "python_function") -> Build:
    """Four steps of 10 ms: a kernel of 7, then 3 in which the thread launches nothing."""
    build = Build()
    for number in range(4):
        at = 10_000 * number
        build = build.step(number, at, at + 10_000).op("aten::mm", at, at + 5)
        build = build.kernel("gemm", at + 2, at + 7_000, launched=(at + 1, at + 2))
        if name is not None:
            build = build.row(cat, name, at + 6_990, at + 9_990, build.pid, build.pid)
    return build


def test_python_that_launches_nothing_is_named_by_its_function(tmp_path: Path) -> None:
    answer = said(python_loop("bookkeeping.py(12): update"), tmp_path)
    found = finding(answer, "python-stall")
    assert costs(answer) == {"python-stall": pytest.approx(0.30, abs=0.005)}
    assert found.culprits[0].name == "bookkeeping.py(12): update"
    assert (found.confidence, found.severity) == ("medium", "critical")
    assert found.title == "The device waits for Python code that launches nothing"
    assert any("out of the loop" in remedy.text for remedy in found.remedies)


def test_the_function_that_is_named_gives_nobody_s_name_away(tmp_path: Path) -> None:
    answer = said(python_loop("/home/wilhelmina/job/bookkeeping.py(12): update"), tmp_path)
    assert finding(answer, "python-stall").culprits[0].name.endswith("/job/bookkeeping.py(12): update")
    assert b"wilhelmina" not in encode(answer)


@pytest.mark.parametrize("name", [None, "part of ours"])
def test_python_that_nothing_names_is_doubted(name: str | None, tmp_path: Path) -> None:
    """An annotation names a part of the step, not what runs in it."""
    answer = said(python_loop(name, cat="user_annotation"), tmp_path)
    found = finding(answer, "python-stall")
    assert (found.confidence, found.severity) == ("low", "warning")
    assert "Python" not in found.title
    assert not any("out of the loop" in remedy.text for remedy in found.remedies)
    assert any(open_.rule == "python-stall" for open_ in answer.undecided)


def test_microseconds_of_python_between_ops_are_no_stall_of_python(tmp_path: Path) -> None:
    """Launches every 20 µs, with 8 µs of Python before each op: four tenths of the time, and no stretch of
    it."""
    build = Build()
    for number in range(4):
        begin = 1_000 * number
        build = build.step(number, begin, begin + 1_000)
        for at in range(begin, begin + 1_000, 20):
            build = build.frame("model.py(3): forward", at, at + 20).op("aten::add", at + 8, at + 18)
            build = build.kernel("add", at + 14, at + 17, launched=(at + 12, at + 13))
    answer = said(build, tmp_path)
    assert "python-stall" not in costs(answer)
    assert "launch-bound" in costs(answer)
    assert answer.accounting[0].idle.python_ns > 0.3 * answer.accounting[0].total_ns


def pausing(holes: tuple[int, ...], *, where: str = "forward") -> Build:
    """Twelve steps of 100 ms in milliseconds: two kernels of the forward pass, one of the backward pass,
    which another thread launches. A hole of 60 in some steps."""
    build, at = Build(), 0
    back = build.pid + 1
    ms = 1_000
    for number in range(12):
        hole = 60 if number in holes else 0
        first, second = (hole, 0) if where == "forward" else (0, hole)
        end = at + 100 + hole
        build = build.step(number, at * ms, end * ms)
        build = build.op("aten::mm", at * ms, at * ms + 5)
        build = build.kernel("gemm", at * ms + 5, (at + 40) * ms, launched=(at * ms + 1, at * ms + 4))
        middle = (at + 40 + first) * ms
        build = build.op("aten::add", middle - 9, middle - 1)
        build = build.kernel("add", middle, middle + 20 * ms, launched=(middle - 6, middle - 3))
        back_at = middle + (20 + second) * ms
        build = build.op(
            "autograd::engine::evaluate_function: MmBackward0", back_at - 9, back_at - 1, tid=back
        )
        build = build.kernel("back", back_at, end * ms, launched=(back_at - 6, back_at - 3), tid=back)
        at = end
    return build


def test_irregular_pauses_of_the_forward_pass_are_a_conjecture(tmp_path: Path) -> None:
    """Three holes of 60 ms in 1,380: 13 %."""
    answer = said(pausing((2, 4, 9)), tmp_path)
    found = finding(answer, "irregular-pauses")
    assert costs(answer)["irregular-pauses"] == pytest.approx(180 / 1380, abs=0.005)
    assert found.confidence == "low"
    assert "conjecture" in found.title
    assert all(remedy.gain_share is None for remedy in found.remedies)
    assert any(open_.rule == "irregular-pauses" and open_.missing for open_ in answer.undecided)


@pytest.mark.parametrize(
    ("holes", "where"),
    [((2, 5, 8), "forward"), ((2, 4, 9), "backward"), ((2, 4), "forward"), ((1, 2, 4, 7, 9), "forward")],
    ids=["at a period", "in the backward pass", "too few", "in nearly half of the steps"],
)
def test_other_pauses_are_not_taken_for_the_collector(
    holes: tuple[int, ...], where: str, tmp_path: Path
) -> None:
    answer = said(pausing(holes, where=where), tmp_path)
    assert "irregular-pauses" not in costs(answer)


def test_where_functions_were_recorded_nobody_guesses(tmp_path: Path) -> None:
    build = pausing((2, 4, 9)).frame("train.py(7): step", 0, 1_380_000)
    assert "irregular-pauses" not in costs(said(build, tmp_path))


def test_graph_replays_without_kernels_are_told(tmp_path: Path) -> None:
    """Four steps of 100 µs: a kernel of 40, then a replay whose work of 60 was not recorded."""

    def replayed(is_recorded: bool) -> Build:
        build = Build()
        for number in range(4):
            at = 100 * number
            build = build.step(number, at, at + 100).op("aten::mm", at, at + 4)
            build = build.kernel("gemm", at + 2, at + 40, launched=(at + 1, at + 2))
            if is_recorded:
                build = build.kernel(
                    "node", at + 40, at + 99, launched=(at + 5, at + 7), by="cudaGraphLaunch"
                )
            else:
                build = build.call("cudaGraphLaunch", at + 5, at + 7)
            build = build.call("cudaStreamSynchronize", at + 8, at + 99)
        return build

    answer = said(replayed(False), tmp_path)
    found = finding(answer, "underrecorded-graphs")
    assert values(found)["unrecorded_graph_share"] == 1.0
    assert values(found)["idle_share"] == pytest.approx(0.62, abs=0.01)
    assert all(remedy.gain_share is None for remedy in found.remedies)
    assert not any(each.rule == "underrecorded-graphs" for each in said(replayed(True), tmp_path).findings)
