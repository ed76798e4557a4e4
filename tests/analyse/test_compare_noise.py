"""The noise band of two series of step times: how often it is wrong, and how wide it is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.analyse.compare import noise
from stepscope.analyse.compare.noise import band, block_length, correlation_time, difference_noise
from stepscope.analyse.compare.student import student
from stepscope.diagnose.compare import judged, of_series

MS = 1e6


def series(random: np.random.Generator, num: int, rho: float, sigma: float, mean_ns: float = 100 * MS):
    """AR(1): neighbours resemble each other by `rho`."""
    drawn = random.normal(size=num + 100) * np.sqrt(1 - rho**2)
    values = np.empty(num + 100)
    values[0] = drawn[0]
    for n in range(1, num + 100):
        values[n] = rho * values[n - 1] + drawn[n]
    return mean_ns * (1 + sigma * values[100:])


def classes(random: np.random.Generator, pairs: int, num: int, rho: float, sigma: float, by: float = 0.0):
    found = []
    for _ in range(pairs):
        base, new = series(random, num, rho, sigma), (1 + by) * series(random, num, rho, sigma)
        times = [of_series(base, new, measure=measure) for measure in ("median", "mean")]
        found.append(judged([each for each in times if each is not None])[0])
    return found


@pytest.mark.parametrize(
    ("num", "rho", "sigma"),
    [(60, 0.6, 0.08), (10, 0.5, 0.04), (20, 0.3, 0.05)],
)
def test_healthy_pairs_are_called_better_or_worse_in_a_twentieth_at_most(
    num: int, rho: float, sigma: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "NUM_DRAWS", 120)  # the same law, in an eighth of the time
    found = classes(np.random.default_rng(1), 400, num, rho, sigma)
    wrong = sum(each in ("better", "worse") for each in found)
    assert wrong <= 0.05 * 400


def test_single_steps_drawn_again_would_be_wrong_far_more_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "NUM_DRAWS", 120)
    monkeypatch.setattr(noise, "correlation_time", lambda _: 1.0)
    monkeypatch.setattr(noise, "block_length", lambda _: 1)
    found = classes(np.random.default_rng(1), 200, 60, 0.6, 0.08)
    assert sum(each in ("better", "worse") for each in found) > 0.15 * 200


def test_pauses_that_one_side_met_by_chance_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "NUM_DRAWS", 120)
    random = np.random.default_rng(6)
    wrong = 0
    for _ in range(200):
        pair = [series(random, 16, 0.3, 0.01) * np.where(random.random(16) < 0.1, 21, 1) for _ in range(2)]
        times = [of_series(*pair, measure=measure) for measure in ("median", "mean")]
        wrong += judged([each for each in times if each is not None])[0] in ("better", "worse")
    assert wrong <= 0.05 * 200  # 0.08 where each side has only its own scatter


def test_a_regression_of_a_tenth_is_found_at_two_percent_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "NUM_DRAWS", 120)
    found = classes(np.random.default_rng(2), 100, 60, 0.6, 0.02, by=0.10)
    assert found.count("worse") >= 98


def test_a_sure_difference_below_two_percent_is_no_change() -> None:
    random = np.random.default_rng(3)
    base, new = series(random, 500, 0.0, 0.002), 1.015 * series(random, 500, 0.0, 0.002)
    found = of_series(base, new)
    assert found is not None
    assert found.low is not None
    assert found.low > 0
    assert not found.is_beyond


def test_the_band_holds_the_difference_and_is_centred_on_it() -> None:
    random = np.random.default_rng(4)
    found = band(series(random, 100, 0.3, 0.02), 1.2 * series(random, 100, 0.3, 0.02))
    assert found is not None
    assert found.low < found.share < found.high
    assert found.share == pytest.approx(0.2, abs=0.02)
    assert found.noise < 0.03


def test_neighbours_that_resemble_make_steps_worth_less() -> None:
    random = np.random.default_rng(5)
    plain, alike = series(random, 2000, 0.0, 0.02), series(random, 2000, 0.8, 0.02)
    assert correlation_time(plain) == pytest.approx(1.0, abs=0.2)
    assert correlation_time(alike) == pytest.approx(9.0, rel=0.3)  # (1 + 0.8) / (1 - 0.8)
    assert block_length(alike) > block_length(plain)


def test_one_step_takes_the_noise_of_the_other_side_and_a_wide_band() -> None:
    base = series(np.random.default_rng(6), 40, 0.0, 0.02)
    one, many = band(base, np.array([110 * MS])), band(base, np.full(40, 110 * MS) + base - 100 * MS)
    assert one is not None
    assert many is not None
    assert one.source == "base"
    assert many.source == "both"
    assert one.noise > 3 * many.noise


def test_without_three_steps_on_a_side_there_is_no_band() -> None:
    assert band(np.array([1.0, 2.0]), np.array([1.0])) is None
    assert band(np.array([]), np.array([1.0, 1.0, 1.0])) is None


def test_windows_of_the_job_that_differ_more_than_steps_widen_the_band() -> None:
    random = np.random.default_rng(7)
    base, new = series(random, 200, 0.0, 0.01), 1.06 * series(random, 200, 0.0, 0.01)
    alone = band(base, new)
    told = band(base, new, history_ns=[96 * MS, 104 * MS, 99 * MS, 107 * MS, 93 * MS])
    assert alone is not None
    assert told is not None
    assert alone.low > 0.02
    assert told.source == "history"
    assert told.low < 0 < told.high


def test_quantiles_of_student_are_those_of_the_tables() -> None:
    for freedom, wanted in ((1, 12.706), (2, 4.303), (5, 2.571), (30, 2.042), (1e7, 1.960)):
        assert student(freedom, 0.975) == pytest.approx(wanted, abs=1e-3)


def test_a_long_series_costs_bounded_memory() -> None:
    random = np.random.default_rng(8)
    found = band(random.normal(100, 1, 60_000) * MS, random.normal(100, 1, 60_000) * MS)
    assert found is not None
    assert found.noise < 0.002


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(1e3, 1e12), min_size=3, max_size=40),
    st.lists(st.floats(1e3, 1e12), min_size=3, max_size=40),
    st.floats(1e-3, 1e3),
)
def test_the_unit_of_time_does_not_matter_and_a_series_equals_itself(
    base: list[float], new: list[float], scale: float
) -> None:
    mine, other = np.array(base), np.array(new)
    plain, scaled = band(mine, other), band(mine * scale, other * scale)
    assert plain is not None
    assert scaled is not None
    assert scaled.share == pytest.approx(plain.share, rel=1e-6)
    assert plain.low <= plain.share <= plain.high
    same = band(mine, mine)
    assert same is not None
    assert same.low <= 0 <= same.high


def test_a_part_that_is_always_the_same_has_no_noise() -> None:
    assert difference_noise(np.zeros(10), np.zeros(10)) == 0.0
    assert difference_noise(np.zeros(2), np.zeros(10)) is None
    wide = difference_noise(np.array([0.0, 0, 0, 90, 0, 0]), np.zeros(6))
    assert wide is not None
    assert wide > 15
