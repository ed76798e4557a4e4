"""Step times: slow steps and periods."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analyse.variation import periodic_excess_ns, variation


def series(
    slow: dict[int, int], num: int = 60, typical: int = 100
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    number = np.arange(1, num + 1)
    duration = np.array([slow.get(n, typical) for n in number.tolist()])
    return number, duration, np.ones(num, dtype=bool)


def test_a_period_needs_three_slow_steps_at_equal_distances() -> None:
    assert variation(*series({20: 300, 40: 300})).period_steps is None
    assert variation(*series({20: 300, 40: 300, 60: 300})).period_steps == 20
    assert variation(*series({20: 300, 40: 300, 59: 300})).period_steps is None
    assert variation(*series({20: 300, 21: 300, 22: 300})).period_steps is None


def test_a_stall_that_goes_on_in_the_next_step_comes_once() -> None:
    """Steps of 58 ms, and a stall of 200 ms every tenth that leaves some of itself to the step after."""
    spills = {24: 244, 25: 78, 34: 254, 44: 239, 45: 75, 54: 258}
    found = series(spills, typical=58)
    assert variation(*found).period_steps == 10
    assert variation(*found).slow_steps == (24, 25, 34, 44, 45, 54)
    assert periodic_excess_ns(*found, np.full(60, 50)) == 186 + 20 + 196 + 181 + 17 + 200
    assert variation(*series({24: 244, 25: 78, 35: 254, 44: 239}, typical=58)).period_steps is None


def test_excess_is_what_lies_above_the_median() -> None:
    slow = series({20: 300, 40: 350, 60: 300})
    same = np.full(len(slow[0]), 80)
    assert periodic_excess_ns(*slow, same) == 200 + 250 + 200
    assert periodic_excess_ns(*series({20: 300, 41: 350}), same) == 0
    # Steps that compute as much longer are no stalls; of one that computes 150 longer the rest is.
    more = np.where(slow[1] > 100, 280, 80)
    assert periodic_excess_ns(*slow, more) == 0 + 50 + 0


def test_a_marked_step_is_slow_at_its_period_but_does_not_move_the_median() -> None:
    number, duration, is_counted = series({20: 900, 40: 900, 60: 900})
    is_counted[[19, 39, 59]] = False
    found = variation(number, duration, is_counted)
    assert found.median_ns == 100
    assert found.p95_ns == 100
    assert found.slow_steps == (20, 40, 60)
    assert found.period_steps == 20


@pytest.mark.parametrize(("percent", "is_slow"), [(119, False), (121, True)])
def test_a_step_is_slow_from_a_fifth_above_the_median(percent: int, is_slow: bool) -> None:
    assert bool(variation(*series({7: percent})).slow_steps) is is_slow


def test_no_counted_step_has_no_variation() -> None:
    number, duration, is_counted = series({})
    assert variation(number, duration, is_counted & False) is None


def test_pauses_keep_their_period_beside_steps_that_other_load_made_slow() -> None:
    number = np.arange(70)
    took = np.full(70, 25)
    took[[3, 8, 17, 33, 34, 52]] = 40  # other load
    took[[20, 40, 60]] = 1025
    found = variation(number, took, np.ones(70, dtype=bool))
    assert found is not None
    assert found.period_steps == 20
    assert len(found.slow_steps) == 9
    assert periodic_excess_ns(number, took, np.ones(70, dtype=bool), np.zeros(70, dtype=np.int64)) == 3000
