"""Steps that grow, and steps that only seem to."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analyse.telemetry.trend import difference_sigmas, growth


def test_the_median_ratio_is_told_of_steps_that_grow() -> None:
    # 300 steps from 6 to 20 ms with pauses of a busy host: quarters have their medians at 7.75 and 18.25 ms.
    random = np.random.default_rng(1)
    steps = np.linspace(6, 20, 300) + random.exponential(1, 300) + 8 * (random.random(300) < 0.1)
    assert growth(steps) == pytest.approx(18.9 / 8.4, rel=0.08)


def test_a_jump_of_a_tenth_is_told_where_steps_scatter_by_less() -> None:
    random = np.random.default_rng(2)
    steps = np.concatenate([random.normal(100, 2, 60), random.normal(110, 2, 60)])
    assert growth(steps) == pytest.approx(1.10, abs=0.01)


def test_steps_that_shrink_are_told_as_shorter() -> None:
    random = np.random.default_rng(3)
    steps = np.concatenate([random.normal(14, 1, 100), random.normal(12, 1, 100)])
    assert growth(steps) == pytest.approx(12 / 14, abs=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_a_median_that_falls_to_the_other_side_of_two_modes_is_no_growth(seed: int) -> None:
    # Two workers: steps of 8 or 40 ms, as often as the other; the old quartiles said +249.5 %.
    random = np.random.default_rng(seed)
    steps = np.where(random.random(200) < 0.5, 8.0, 40.0) + random.normal(0, 0.5, 200)
    assert growth(steps) == 1


def test_pauses_that_come_in_bursts_are_no_growth() -> None:
    # The medians of most of these runs differ by 10 % or more by chance; one in 2,100 may be told.
    told = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        slow = np.repeat(random.random(40) < 0.4, 10)
        told += growth(np.where(slow, 30.0, 10.0) + random.normal(0, 1, 400)) != 1
    assert told <= 3


def test_evaluations_at_intervals_are_no_growth() -> None:
    steps = np.full(300, 10.0) + np.arange(300) % 3 * 0.1
    steps[99::100] = 900.0
    steps[24::25] += 80.0
    assert growth(steps) == 1


def test_the_first_steps_are_left_out() -> None:
    # 8 lines, of which two are warm-up, are six.
    assert growth(np.array([90.0, 30.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0])) is None
    steps = np.array([900.0, 30.0, *np.linspace(10, 15, 40)])
    assert growth(steps) == pytest.approx(14.4 / 10.6, rel=0.01)


def test_of_few_lines_the_quarters_must_be_apart() -> None:
    assert growth(np.linspace(1, 2, 8)) == pytest.approx((1 + 13 / 14) / (1 + 1 / 14))
    assert growth(np.array([1.0, 1.3, 1.0, 1.3, 1.0, 1.3, 1.2, 1.3])) == 1
    assert growth(np.ones(7)) is None


def test_equal_steps_differ_by_nothing() -> None:
    assert difference_sigmas(np.ones(50), np.ones(50)) == 0
    assert growth(np.ones(200)) == 1
