"""Spells: where a series is high for some steps in a row."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.detect.spell import spells


def series(num: int = 400, level: float = 0.05, noise: float = 0.003, seed: int = 0) -> np.ndarray:
    return level + noise * np.random.default_rng(seed).standard_normal(num)


def test_the_steps_in_which_a_cause_held_are_found_to_the_step():
    x = series()
    x[120:181] += 0.5
    (found,) = spells(x, 0.05)
    assert (found.first, found.last) == (120, 180)
    assert found.excess == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("seed", range(20))
def test_noise_alone_has_no_spell(seed):
    assert spells(series(seed=seed), 0.05) == ()
    assert spells(series(noise=0.05, seed=seed), 0.05) == ()


def test_single_steps_far_above_the_others_are_no_spell():
    x = series()
    x[::20] += 5.0
    assert spells(x, 0.05) == ()


def test_a_cause_of_every_step_is_no_spell():
    assert spells(series(level=0.6), 0.05) == ()


def test_a_cause_of_the_later_half_is_not_learnt_as_ordinary():
    x = series()
    x[200:] += 0.3
    (found,) = spells(x, 0.05)
    assert (found.first, found.last) == (200, 399)


def test_two_spells_are_two_and_a_short_break_is_none():
    x = series()
    x[50:70] += 0.4
    x[60] -= 0.4
    x[300:330] += 0.4
    assert [(s.first, s.last) for s in spells(x, 0.05)] == [(50, 69), (300, 329)]


def test_five_steps_in_a_row_are_too_few_and_six_are_enough():
    for length, number in ((5, 0), (6, 1)):
        x = series()
        x[100 : 100 + length] += 0.5
        assert len(spells(x, 0.05)) == number


def test_of_few_steps_nothing_is_said():
    x = series(20)
    x[5:15] += 1.0
    assert spells(x, 0.05) == ()


def test_what_does_not_reach_the_least_is_none():
    x = series()
    x[100:200] += 0.04
    assert spells(x, 0.05) == ()
