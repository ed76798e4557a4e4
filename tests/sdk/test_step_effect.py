"""How the benchmark of steps tells a difference from noise."""

from __future__ import annotations

import numpy as np

from bench.step import effect


def noisy(num: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sides of equal steps on a machine whose other load doubles some of them."""
    chance = np.random.default_rng(6)
    off, on = (0.01 * np.exp(chance.normal(0, 0.3, num)) for _ in range(2))
    return off, on * np.where(chance.random(num) < 0.05, 4.0, 1.0)


def test_noise_alone_is_no_difference_although_the_mean_of_the_ratios_says_so() -> None:
    off, on = noisy(600)
    assert np.mean(on / off - 1) > 0.15
    found = effect(off, on)
    assert found.low < 0 < found.high
    assert found.told().startswith("not resolvable here: ")


def test_one_percent_is_found_in_noise_of_the_usual_kind_and_is_inside_of_the_interval() -> None:
    chance = np.random.default_rng(6)
    off, on = (0.01 * np.exp(chance.normal(0, 0.01, 400)) for _ in range(2))
    found = effect(off, on * 1.01)
    assert found.low < 0.01 < found.high
    assert found.low > 0.005
    assert not found.told().startswith("not")
