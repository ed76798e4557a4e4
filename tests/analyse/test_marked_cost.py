"""What marks cost, from alternating blocks of marked and shadow steps."""

import numpy as np
import pytest

from stepscope.analyse.marked_cost import LEAST_GROUPS, mark_cost

BLOCK = 10
STEP_NS = 100_000_000


def run(num_blocks, *, cost_ns, noise=0.0, drift=0.0, seed=1):
    """Steps of 100 ms; marked ones cost more, all get slower by `drift` of a step each."""
    step = np.arange(num_blocks * BLOCK)
    is_shadow = (step // BLOCK) % 2 == 1
    random = np.random.default_rng(seed).normal(0.0, noise * STEP_NS, len(step))
    duration = STEP_NS * (1 + drift * step) + np.where(is_shadow, 0, cost_ns) + random
    return step, duration.astype(np.int64), is_shadow, np.zeros(len(step), dtype=bool)


def test_a_cost_of_a_thousandth_of_a_step_is_found_in_noise_of_a_hundredth():
    found = mark_cost(*run(120, cost_ns=100_000, noise=0.01))
    assert found.why is None
    assert found.low_ns < 100_000 < found.high_ns
    assert found.share == pytest.approx(found.cost_ns / STEP_NS, rel=0.01)
    assert found.num_groups == 40


def test_a_run_that_slows_down_evenly_moves_nothing():
    found = mark_cost(*run(60, cost_ns=50_000, drift=0.0005))
    assert found.cost_ns == pytest.approx(50_000, abs=200)


def test_what_noise_hides_is_said_to_be_not_resolvable():
    found = mark_cost(*run(40, cost_ns=100_000, noise=0.2))
    assert (found.cost_ns, found.share) == (None, None)
    assert found.why.startswith("not resolvable: ±")
    assert found.low_ns < found.high_ns


def test_too_few_blocks_say_nothing():
    found = mark_cost(*run(3 * LEAST_GROUPS - 1, cost_ns=100_000))
    assert (found.cost_ns, found.why) == (None, "9 groups of blocks, 10 are needed")
    empty = np.zeros(0, dtype=np.int64)
    assert mark_cost(empty, empty, empty.astype(bool), empty.astype(bool)).why == "no steps"


def test_steps_that_are_left_out_decide_nothing():
    step, duration, is_shadow, left_out = run(60, cost_ns=50_000)
    slow = (step % BLOCK >= 2) & (step % BLOCK <= 6) & ~is_shadow  # more than the median would forgive
    duration = duration + np.where(slow, STEP_NS, 0)
    assert mark_cost(step, duration, is_shadow, slow).cost_ns == pytest.approx(50_000)
    assert mark_cost(step, duration, is_shadow, left_out).cost_ns != pytest.approx(50_000, rel=0.5)


@pytest.mark.parametrize("seed", range(5))
def test_marks_that_cost_nothing_have_zero_in_their_interval_most_of_the_time(seed):
    inside = 0
    for each in range(20):
        found = mark_cost(*run(60, cost_ns=0, noise=0.01, seed=100 * seed + each))
        inside += found.low_ns <= 0 <= found.high_ns
    assert inside >= 16  # of 20 at 95 %: fewer than 16 in one of five series has odds below 1 in 80
