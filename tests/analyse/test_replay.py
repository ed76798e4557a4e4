"""What a replay predicts, against the same run played without the cause."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse.replay.graph import graph, play
from stepscope.analyse.replay.job import replay
from tests.analyse.build import Build
from tests.analyse.replay_run import (
    ADD,
    GEMM,
    LOADER,
    MAIN,
    SIDE,
    Fetch,
    Item,
    Kernel,
    Reduce,
    Run,
    Sync,
    Work,
    faster,
    one,
    predicted_us,
    program,
    replayed,
    together,
    without_input,
)


def test_a_loader_that_the_device_hides_is_worth_nothing():
    # 3 ms of loading while 10 ms of work are queued.
    steps = [[Work(3000, LOADER), *[Kernel(1000)] * 10, Work(200), Sync()]] * 4
    exposed = replayed(one(steps))
    assert exposed.status == "ok"
    hidden = [[*[Kernel(1000)] * 10, Work(3000, LOADER), Sync()]] * 4
    found = replayed(one(hidden))
    assert found.error_share == pytest.approx(0, abs=1e-3)
    assert predicted_us(found, "input") == pytest.approx(one(hidden).step_us(), rel=1e-3)
    assert next(w for w in found.what_if if w.remove == "input").gain_share == 0


def test_an_exposed_loader_is_worth_what_is_exposed_of_it():
    # The queue of 10 ms hides all but 4 ms of 14 ms of loading: nobody waits for the device in a step.
    steps = [[*[Kernel(1000)] * 10, Work(14_000, LOADER), Sync()]] * 4
    found = replayed(one(steps))
    step, free = one(steps).step_us(), one(without_input(steps)).step_us()
    assert step - free == pytest.approx(4000, abs=30)
    assert predicted_us(found, "input") == pytest.approx(free, abs=2)


def test_perfect_overlap_leaves_the_longer_of_computation_and_communication():
    steps = [[*[Kernel(1000)] * 4, Reduce(3000), Kernel(500, ADD, after=SIDE)]] * 6
    run = one(steps)
    found = replayed(run)
    # 4.5 ms of computation behind 3 ms of communication.
    assert found.what_if[0].step_ns == pytest.approx(7_513_000, rel=0.01)
    assert predicted_us(found, "communication") == pytest.approx(4507, rel=0.01)
    longer = [[*[Kernel(1000)] * 4, Reduce(9000), Kernel(500, ADD, after=SIDE)]] * 6
    assert predicted_us(replayed(one(longer)), "communication") == pytest.approx(9010, rel=0.02)


def test_perfect_overlap_of_a_collective_on_the_stream_that_computes():
    steps = [[*[Kernel(1000)] * 4, Reduce(3000, MAIN), Kernel(500, ADD)]] * 6
    assert predicted_us(replayed(one(steps)), "communication") == pytest.approx(4507, rel=0.01)


def test_without_the_straggler_the_run_is_the_balanced_one():
    step = [*[Kernel(1000)] * 4, Work(300), Reduce(500), Kernel(500, ADD, after=SIDE), Sync()]
    late = [*[Kernel(1000)] * 4, Work(300), Work(20_000, "sleep"), Kernel(200), *step[4:]]
    even = [*[Kernel(1000)] * 4, Work(300), Kernel(200), *step[4:]]
    balanced = together([[even] * 4, [even] * 4])
    runs = together([[even] * 4, [late] * 4])
    found = replayed(*runs)
    assert found.status == "ok"
    assert found.error_share < 0.01
    assert runs[0].step_us() == pytest.approx(balanced[0].step_us() + 16_300, rel=0.02)
    assert predicted_us(found, "straggler") == pytest.approx(balanced[0].step_us(), rel=0.01)
    (straggler,) = (each for each in found.what_if if each.remove == "straggler")
    assert straggler.ranks == (1,)
    longest = found.critical_path[0]
    assert (longest.part, longest.rank) == ("python", 1)


def test_a_slow_device_is_brought_down_to_the_median():
    def steps(us: int) -> list[list[Item]]:
        return [[*[Kernel(us)] * 8, Reduce(400), Kernel(us, ADD, after=SIDE), Sync()]] * 4

    runs = together([steps(1000), steps(1500), steps(1000), steps(1000)])
    found = replayed(*runs)
    balanced = together([steps(1000)] * 4)
    assert predicted_us(found, "straggler") == pytest.approx(balanced[0].step_us(), rel=0.01)
    (straggler,) = (each for each in found.what_if if each.remove == "straggler")
    assert straggler.ranks == (1,)


def test_equal_ranks_have_no_straggler():
    steps = [[*[Kernel(1000)] * 4, Reduce(500), Kernel(500, ADD, after=SIDE), Sync()]] * 4
    found = replayed(*together([steps] * 3))
    assert [each for each in found.what_if if each.remove == "straggler"] == []


def test_kernels_twice_as_fast_win_nothing_where_the_host_is_late():
    steps = [[*[Work(100), Kernel(50)] * 40, Sync()]] * 4
    found = replayed(one(steps))
    assert found.error_share < 0.01
    assert predicted_us(found, "compute.gemm") == pytest.approx(one(faster(steps, GEMM)).step_us(), rel=0.002)
    assert predicted_us(found, "compute.gemm") == pytest.approx(one(steps).step_us(), rel=0.01)


def test_kernels_twice_as_fast_win_half_their_time_where_the_device_is_busy():
    steps = [[*[Kernel(1000), Kernel(400, ADD)] * 10, Sync()]] * 4
    found = replayed(one(steps))
    assert predicted_us(found, "compute.gemm") == pytest.approx(one(faster(steps, GEMM)).step_us(), rel=0.001)
    assert predicted_us(found, "compute.gemm") == pytest.approx(9_000, rel=0.01)
    assert predicted_us(found, "compute.elementwise") == pytest.approx(12_000, rel=0.01)


def test_a_blocking_copy_ends_with_the_work_before_it():
    steps = [[*[Kernel(1000)] * 6, Fetch(20), Work(2000, LOADER)]] * 4
    found = replayed(one(steps))
    assert predicted_us(found, "input") == pytest.approx(one(without_input(steps)).step_us(), rel=0.002)
    assert predicted_us(found, "compute.gemm") == pytest.approx(one(faster(steps, GEMM)).step_us(), rel=0.005)


def test_a_full_queue_holds_the_host_back_only_as_long_as_the_device_is_slow():
    # 400 launches of 400 µs a step find room for 300: the device holds the host back from the first step on.
    steps: list[list[Item]] = [[*[Kernel(400)] * 400, Work(1000)]] * 4
    run, half = one(steps, room=300), one(faster(steps, GEMM), room=300)
    assert np.diff(run.bounds).tolist() == [40_707, 160_400, 160_400, 160_400]
    assert np.diff(half.bounds).tolist() == [20_907, 80_400, 80_400, 80_400]
    found = replayed(run)
    assert found.error_share < 0.001
    assert predicted_us(found, "compute.gemm") == pytest.approx(80_400, rel=0.001)
    # The host's own times, which nothing but the queue decides, are those of the faster run.
    made = program(run)
    weight = made.weight()[made.scenarios.index("compute.gemm")]
    value = play(graph(made.num_nodes, made.source, made.target), weight, made.begin)
    assert np.diff(value[0, made.host_node]) / 1000 == pytest.approx(np.diff(half.bounds), abs=5)


def test_a_host_that_runs_ahead_is_no_gain():
    # The loader takes less time than the device's step: only that of the first step was ever waited for,
    # and without it the host runs further ahead.
    steps = [[Work(3000, LOADER), *[Kernel(1000)] * 10]] * 6
    found = replayed(one(steps))
    assert found.what_if[0].step_ns == pytest.approx(10_010_000 + 3_000_000 / 6, rel=0.001)
    assert predicted_us(found, "input") == pytest.approx(10_010, rel=0.001)


def test_the_critical_path_is_made_of_what_decides():
    steps = [[*[Kernel(1000)] * 4, Kernel(500, ADD), Sync(), Work(2500, LOADER)]] * 4
    found = replayed(one(steps))
    share = {part.part: part.share for part in found.critical_path}
    step = one(steps).step_us()
    assert share["compute.gemm"] == pytest.approx(4000 / step, abs=0.01)
    assert share["compute.elementwise"] == pytest.approx(500 / step, abs=0.01)
    assert share["input"] == pytest.approx(2500 / step, abs=0.01)
    assert sum(share.values()) == pytest.approx(1)
    assert all(part.rank is None for part in found.critical_path)


def test_host_work_before_the_first_launch_is_preprocessing_and_no_launch_cost():
    steps = [[Work(3000), *[Kernel(1000)] * 4, Kernel(500, ADD), Sync()]] * 4
    found = replayed(one(steps))
    share = {part.part: part.share for part in found.critical_path}
    assert share["preprocess"] == pytest.approx(3000 / one(steps).step_us(), abs=0.01)
    assert next(each for each in found.what_if if each.remove == "launch").gain_share < 0.005


def test_no_steps_no_replay():
    assert replay([]) is None
    assert replay([None]) is None


PLAIN = (
    st.builds(Work, st.integers(10, 3000), st.sampled_from([None, LOADER, "sleep"])),
    st.builds(Kernel, st.integers(5, 2000), st.sampled_from([GEMM, ADD])),
    st.just(Sync()),
    st.builds(Fetch, st.integers(5, 50)),
)
TALKING = (st.builds(Reduce, st.integers(20, 3000)), st.just(Kernel(300, ADD, MAIN, SIDE)))
ASIDE = (
    st.builds(Kernel, st.integers(5, 2000), st.just(ADD), st.just(SIDE + 1), st.just(MAIN)),
    st.builds(Kernel, st.integers(5, 2000), st.just(GEMM), st.just(MAIN), st.just(SIDE + 1)),
)


def loops(first: Item, *items: st.SearchStrategy[Item]) -> st.SearchStrategy[list[list[Item]]]:
    """Three steps of the same items, with one side stream that has work when somebody waits for it."""
    inner = st.lists(st.one_of(*items), min_size=2, max_size=25)
    return inner.map(lambda found: [[Kernel(100), first, *found, Sync()]] * 3)


LOOPS = st.one_of(
    loops(Kernel(100), *PLAIN),
    loops(Reduce(50), *PLAIN, *TALKING),
    loops(Kernel(50, ADD, SIDE + 1, MAIN), *PLAIN, *ASIDE),
)


@settings(max_examples=60, deadline=None)
@given(LOOPS)
def test_any_loop_is_reproduced_and_removing_time_never_lengthens_it(steps):
    run = one(steps)
    found = replayed(run)
    assert found.status != "withheld"
    assert found.error_share < max(0.02, 10 / one(steps).step_us())
    assert all(each.predicted_ns <= each.step_ns + 1 for each in found.what_if)
    assert all(part.share > 0 for part in found.critical_path)


@settings(max_examples=60, deadline=None)
@given(LOOPS)
def test_any_loop_without_its_loader_is_predicted(steps):
    found = replayed(one(steps))
    removed = {each.remove: each.predicted_ns / 1000 for each in found.what_if}
    truth = one(without_input(steps)).step_us()
    assert removed.get("input", one(steps).step_us()) == pytest.approx(truth, rel=0.02, abs=20)


@settings(max_examples=60, deadline=None)
@given(LOOPS, st.sampled_from([GEMM, ADD]))
def test_any_loop_with_faster_kernels_is_predicted(steps, name):
    found = replayed(one(steps))
    kind = {GEMM: "compute.gemm", ADD: "compute.elementwise"}[name]
    removed = {each.remove: each.predicted_ns / 1000 for each in found.what_if}
    if kind in removed:
        truth = one(faster(steps, name)).step_us()
        assert removed[kind] == pytest.approx(truth, rel=0.02, abs=20)


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_wait_that_hid_behind_another_binds_once_that_is_gone(is_recorded: bool) -> None:
    # The 4 ms copy of one stream ends before the 2 ms kernel of another is launched, because the host loads
    # for 5 ms; and a third stream is the last to finish. Without the loader the kernel waits for the copy.
    b = Build()
    for step in range(3):
        at = 10_000 * step
        b.step(step, at, at + 10_000)
        b.kernel(ADD, at + 10, at + 4010, launched=(at + 2, at + 4), stream=20)
        b.kernel(ADD, at + 20, at + 4500, launched=(at + 8, at + 10), stream=24)
        b.call("cudaEventRecord", at + 5, at + 6, correlation=50 + 10 * step)
        b.call("cudaStreamWaitEvent", at + 11, at + 12, correlation=51 + 10 * step)
        if is_recorded:
            b.row(
                "cuda_sync",
                "Stream Wait Event",
                at + 11,
                at + 12,
                0,
                7,
                stream=7,
                device=0,
                correlation=51 + 10 * step,
                wait_on_stream=20,
                wait_on_cuda_event_record_corr_id=50 + 10 * step,
                wait_on_cuda_event_id=1,
            )
        b.note(LOADER, at + 20, at + 5020)
        b.kernel(GEMM, at + 5030, at + 7030, launched=(at + 5022, at + 5024), stream=7)
        b.call("cudaDeviceSynchronize", at + 7000, at + 7040)
    found = replayed(Run(b))
    # 40 µs of host work and of delays, the copy (or what ended last), the kernel, and 2960 µs after it.
    waited = 4010 if is_recorded else 4500
    assert predicted_us(found, "input") == pytest.approx(waited + 2000 + 10 + 2960, abs=15)
