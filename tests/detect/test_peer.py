"""The peer gate: who differs, who does not, and what two ranks can tell. Seeds are fixed, so are answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.detect.peer import DEFAULT, F64, against_peers, by_lateness, by_ratio, quantum

SEEDS = 200
MS = 1_000_000


def equal_ranks(seed: int, num_ranks: int, num_steps: int, jitter: float = 0.01, scale: float = 100.0) -> F64:
    draw = np.random.default_rng([seed, num_ranks, num_steps])
    return scale * (1 + jitter * draw.standard_normal((num_ranks, num_steps)))


def heavy(x: F64, seed: int) -> F64:
    """1 % of the cells take half as long again."""
    x[np.random.default_rng([seed, 1]).random(x.shape) < 0.01] *= 1.5
    return x


SHAPES = ((2, 20), (2, 500), (3, 60), (4, 20), (8, 100), (16, 40), (64, 20))


@pytest.mark.parametrize(("num_ranks", "num_steps"), SHAPES)
@pytest.mark.parametrize("is_heavy", [False, True])
def test_equal_ranks_have_no_straggler_in_200_seeds(num_ranks: int, num_steps: int, is_heavy: bool) -> None:
    for seed in range(SEEDS):
        x = equal_ranks(seed, num_ranks, num_steps)
        assert by_ratio(heavy(x, seed) if is_heavy else x).deviants == (), seed


@pytest.mark.parametrize(("num_ranks", "num_steps"), [(4, 300), (8, 100), (16, 100)])
def test_steps_that_resemble_their_neighbours_make_no_straggler(num_ranks: int, num_steps: int) -> None:
    for seed in range(60):
        noise = np.random.default_rng([seed, 3]).standard_normal((num_ranks, num_steps))
        for step in range(1, num_steps):
            noise[:, step] = 0.6 * noise[:, step - 1] + 0.8 * noise[:, step]
        assert by_ratio(100 * (1 + 0.02 * noise)).deviants == (), seed


@pytest.mark.parametrize("is_heavy", [False, True])
def test_64_equal_ranks_over_500_steps_have_none(is_heavy: bool) -> None:
    for seed in range(25):
        x = equal_ranks(seed, 64, 500)
        assert by_ratio(heavy(x, seed) if is_heavy else x).deviants == (), seed


@pytest.mark.parametrize(("num_ranks", "least"), [(2, 0.65), (3, 0.9), (4, 0.9), (8, 0.9), (64, 0.9)])
def test_a_rank_3_percent_slower_is_named_within_20_steps(num_ranks: int, least: float) -> None:
    named = 0
    for seed in range(SEEDS):
        x = equal_ranks(seed, num_ranks, 20)
        slow = seed % num_ranks
        x[slow] *= 1.03
        found = [each.rank for each in by_ratio(x).deviants]
        assert set(found) <= {slow}, seed
        named += found == [slow]
    assert named >= least * SEEDS


def test_steps_that_are_slow_for_everybody_are_no_news() -> None:
    x = equal_ranks(1, 8, 100)
    x[:, 40:60] *= 3
    assert by_ratio(x).deviants == ()


def test_an_episode_is_named_with_its_steps() -> None:
    x = equal_ranks(2, 8, 200)
    x[5, 120:130] *= 1.3
    gate = by_ratio(x)
    assert [each.rank for each in gate.deviants] == [5]
    assert gate.deviants[0].steps == tuple(range(120, 130))
    assert gate.deviants[0].excess == pytest.approx(np.log(1.3), abs=0.02)
    assert gate.persistence == "persistent"
    assert gate.noise == pytest.approx(0.0105, abs=0.002)


def test_a_small_shift_in_the_second_half_is_found_by_its_sum() -> None:
    x = equal_ranks(3, 8, 100)
    x[2, 70:] *= 1.035
    (found,) = by_ratio(x).deviants
    assert (found.rank, "change" in found.found_by) == (2, True)
    assert 65 <= min(found.steps) <= 76


@pytest.mark.parametrize("num_ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("num_steps", [16, 31, 60])
def test_lateness_that_takes_turns_is_moving_and_names_both(num_ranks: int, num_steps: int) -> None:
    for seed in range(20):
        draw = np.random.default_rng([seed, num_ranks])
        late = 0.2 * MS * draw.standard_normal((num_ranks, num_steps))
        late[np.arange(num_steps) % 2, np.arange(num_steps)] += 50 * MS
        gate = by_lateness(late, 50_000)
        assert sorted(each.rank for each in gate.deviants) == [0, 1]
        assert gate.persistence == "moving"
        assert all(each.excess == pytest.approx(50 * MS, rel=0.05) for each in gate.deviants)


def test_lateness_below_what_clocks_tell_is_nobodys() -> None:
    late = np.zeros((4, 50))
    late[1] = 30_000
    assert by_lateness(late, 50_000).deviants == ()
    assert [each.rank for each in by_lateness(late, 5_000).deviants] == [1]


def test_of_two_ranks_the_slower_is_named_with_the_doubt() -> None:
    x = equal_ranks(4, 2, 60)
    x[1] *= 1.1
    gate = by_ratio(x)
    assert [each.rank for each in gate.deviants] == [1]
    assert gate.why == "of two ranks it shows only that one is slower than the other"


def test_ranks_that_are_a_little_slower_together_are_a_kind_and_not_stragglers() -> None:
    x = equal_ranks(5, 8, 100)
    x[:3] *= 1.06
    gate = by_ratio(x)
    assert (gate.deviants, gate.slower_kind) == ((), (0, 1, 2))


def test_several_ranks_that_are_much_slower_are_each_named() -> None:
    x = equal_ranks(6, 8, 100)
    x[[1, 6]] *= 1.3
    assert sorted(each.rank for each in by_ratio(x).deviants) == [1, 6]


def test_with_most_ranks_changed_nobody_is_ordinary() -> None:
    x = equal_ranks(7, 4, 60)
    x[0] *= 1.5
    x[1] *= 2
    x[2] *= 2.5
    gate = by_ratio(x)
    assert len(gate.deviants) <= 2


@pytest.mark.parametrize(
    ("shape", "why"), [((1, 50), "one rank has no peers"), ((4, 5), "fewer than 6 steps")]
)
def test_what_cannot_be_compared_says_so(shape: tuple[int, int], why: str) -> None:
    gate = by_ratio(np.ones(shape))
    assert (gate.deviants, gate.persistence) == ((), "unknown")
    assert gate.why is not None
    assert gate.why.startswith(why)


@given(
    seed=st.integers(0, 10_000),
    scale=st.floats(1e-3, 1e12),
    num_ranks=st.integers(2, 20),
    step=st.sampled_from([0.0, 0.01, 0.05]),
    missing=st.floats(0, 0.4),
)
@settings(max_examples=60, deadline=None)
def test_scale_rounding_and_missing_cells_make_no_straggler(
    seed: int, scale: float, num_ranks: int, step: float, missing: float
) -> None:
    x = equal_ranks(seed, num_ranks, 60, scale=scale)
    if step:
        x = np.round(x / (step * scale)) * step * scale
    x[np.random.default_rng(seed).random(x.shape) < missing] = np.nan
    assert by_ratio(x).deviants == ()


@given(seed=st.integers(0, 10_000), num_ranks=st.integers(4, 16), missing=st.floats(0, 0.3))
@settings(max_examples=40, deadline=None)
def test_the_order_of_ranks_and_the_unit_do_not_matter(seed: int, num_ranks: int, missing: float) -> None:
    draw = np.random.default_rng(seed)
    x = equal_ranks(seed, num_ranks, 50)
    x[0] *= 1.2
    x[draw.random(x.shape) < missing] = np.nan
    order = draw.permutation(num_ranks)
    named = {each.rank for each in by_ratio(x).deviants}
    assert named == {0}
    assert {int(order[each.rank]) for each in by_ratio(1e6 * x[order]).deviants} == named


def test_the_median_of_peers_leaves_the_rank_out() -> None:
    x = np.array([[1.0, 1.0], [2.0, np.nan], [4.0, 4.0], [9.0, np.nan]])
    assert against_peers(x)[:, 0].tolist() == [4.0, 4.0, 2.0, 2.0]
    assert against_peers(x)[[0, 2], 1].tolist() == [4.0, 1.0]
    assert np.isnan(against_peers(x)[1, 1])


def test_the_quantum_is_the_least_difference() -> None:
    assert quantum(np.array([[1.0, 1.25], [2.0, np.nan]])) == 0.25
    assert quantum(np.array([[3.0, 3.0]])) == 0.0


def test_zero_negative_and_infinite_durations_are_missing() -> None:
    x = equal_ranks(8, 4, 40)
    x[0, :5] = [0, -1, np.inf, -np.inf, np.nan]
    gate = by_ratio(x)
    assert gate.deviants == ()
    assert np.isnan(gate.excess[0, :5]).all()
    assert DEFAULT.late_ratio == 0.05
