"""When no prediction is given, and what is said instead."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stepscope.analyse.rank import analyse_rank
from stepscope.analyse.replay.job import replay
from stepscope.analyse.replay.program import Program
from stepscope.trace.load import load_bytes
from tests.analyse.generate import generate
from tests.analyse.replay_run import (
    ADD,
    LOADER,
    SIDE,
    Item,
    Kernel,
    Reduce,
    Run,
    Sync,
    Work,
    one,
    program,
    replayed,
    together,
)

STEP: list[Item] = [*[Kernel(1000)] * 4, Reduce(500), Kernel(500, ADD, after=SIDE), Work(900, LOADER), Sync()]


def spans(*runs: Run) -> tuple[list[np.ndarray], list[np.ndarray]]:
    base = 1_700_000_000_000_000_000 + 10_000_000
    return (
        [base + 1000 * np.array(run.started) for run in runs],
        [base + 1000 * np.array(run.ended) for run in runs],
    )


def test_a_replay_that_misses_its_steps_predicts_nothing():
    made = program(one([STEP] * 4))
    scale = made.host_ns[0] + (made.host_ns - made.host_ns[0]) * 108 // 100
    found = replay([replace(made, host_ns=scale, window="host")])
    assert found is not None
    assert (found.status, found.why) == ("withheld", "the untouched replay misses a step by 7 %")
    assert found.error_share == pytest.approx(1 - 1 / 1.08, rel=0.01)
    assert (found.what_if, found.critical_path) == ((), ())


def test_a_small_miss_is_said():
    made = program(one([STEP] * 4))
    scale = made.host_ns[0] + (made.host_ns - made.host_ns[0]) * 103 // 100
    found = replay([replace(made, host_ns=scale, window="host")])
    assert found is not None
    assert (found.status, found.why) == ("degraded", "the untouched replay misses a step by 3.0 %")
    assert found.what_if


@pytest.mark.parametrize("share", [0.2, 0.6])
def test_time_that_nobody_explains_is_no_ground_for_a_prediction(share: float) -> None:
    found = replay([replace(program(one([STEP] * 4)), unexplained_share=share)])
    assert found is not None
    assert found.status == ("withheld" if share > 0.5 else "degraded")
    assert f"for {100 * share:.0f} % of the time the device waited" in str(found.why)
    assert bool(found.what_if) == (share < 0.5)


def test_where_the_accounting_withholds_its_causes_nothing_is_predicted():
    made = program(one([STEP] * 4))
    for status in ("withheld", "degraded"):
        found = replay([replace(made, status=status)])
        assert found is not None
        assert found.status == status


def test_a_delay_without_a_reason_stays_whatever_is_removed():
    # In every step work that had been issued long before starts 3 ms after the work before it.
    run = Run(one([STEP] * 3).build)
    run.build.events.clear()
    b = run.build
    for step in range(3):
        at = 10_000 * step
        b.step(step, at, at + 10_000)
        b.kernel("gemm", at + 20, at + 3020, launched=(at + 5, at + 9))
        b.kernel("gemm", at + 6020, at + 9000, launched=(at + 12, at + 16))
        b.call("cudaDeviceSynchronize", at + 20, at + 9990)
    found = replayed(run)
    assert found.status == "degraded"
    assert "for 30 % of the time" in str(found.why)
    faster = next(each for each in found.what_if if each.remove == "compute.gemm")
    assert faster.step_ns - faster.predicted_ns == pytest.approx(2_990_000, rel=0.01)
    assert {part.part: round(part.share, 2) for part in found.critical_path}["queued"] == 0.3


def test_matches_that_contradict_each_other_are_refused():
    runs = together([[STEP] * 3, [STEP] * 3])
    start, end = spans(*runs)
    found = replay([program(run) for run in runs], [np.array([0, 1, 2]), np.array([2, 1, 0])], start, end)
    assert found is not None
    assert found.status == "withheld"
    assert "wait for each other in a circle" in str(found.why)


def test_only_steps_that_all_ranks_have_are_measured():
    runs = together([[STEP] * 4, [STEP] * 4])
    # The second rank's first step was not recorded, though its work was.
    first = runs[1].build.events
    first[:] = [each for each in first if each["name"] != "ProfilerStep#0"]
    start, end = spans(*runs)
    programs = [program(run) for run in runs]
    assert [each.step.tolist() for each in programs] == [[0, 1, 2, 3], [1, 2, 3]]
    found = replay(programs, [np.arange(4)] * 2, start, end)
    assert found is not None
    assert (found.status, found.num_steps) == ("ok", 3)
    assert found.what_if[0].step_ns == pytest.approx(1000 * runs[0].step_us(), rel=0.01)


def test_ranks_that_nothing_matches_are_played_side_by_side():
    slow: list[Item] = [Kernel(3000), *STEP]
    runs = [one([STEP] * 4), one([slow] * 4)]
    found = replay([program(run) for run in runs])
    assert found is not None
    mean = (runs[0].step_us() + runs[1].step_us()) / 2
    assert found.what_if[0].step_ns == pytest.approx(1000 * mean, rel=0.01)
    assert [each for each in found.what_if if each.remove == "straggler"] == []


def test_a_file_that_is_cut_is_not_played():
    data = one([STEP] * 4).build.bytes()
    (analysis,) = analyse_rank(load_bytes(data[: len(data) * 9 // 10], "t.json"))
    assert analysis.is_cut
    assert [each.program for each in analysis.devices] == [None]


@pytest.mark.parametrize("seed", range(12))
def test_any_trace_is_played_or_withheld(seed: int) -> None:
    for analysis in analyse_rank(load_bytes(generate(seed).bytes(), "t.json")):
        for device in analysis.devices:
            found = replay([device.program])
            assert (found is None) == (not isinstance(device.program, Program))
            if found is not None:
                assert all(each.predicted_ns <= each.step_ns + 1 for each in found.what_if)
                assert all(each.time_ns > 0 for each in found.critical_path)
