"""What is learned from 100 points."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.detect.baseline import learned
from stepscope.detect.gate import Flags

RATIO, SHARE = np.array([False]), np.array([True])
UNKNOWN = np.array([np.nan])


def test_median_and_mad_of_1_to_100_are_worked_by_hand() -> None:
    points = np.arange(1.0, 101.0)[None, ::-1].copy()
    normal = learned(points, RATIO, UNKNOWN)
    assert normal.median[0] == 50.5
    assert normal.sigma[0] == pytest.approx(1.4826 * 25)
    assert normal.mean[0] == 50.5
    assert normal.deviation[0] == pytest.approx(29.0115, abs=1e-4)


@pytest.mark.parametrize(
    ("is_ratio", "quantum", "sigma"),
    [(RATIO, UNKNOWN, 0.0081), (RATIO, np.array([0.1]), 0.05), (SHARE, UNKNOWN, 0.0081)],
)
def test_the_least_scatter_is_1_percent_of_the_median_or_half_the_quantum(
    is_ratio: Flags, quantum: np.ndarray, sigma: float
) -> None:
    assert learned(np.full((1, 100), 0.81), is_ratio, quantum).sigma[0] == pytest.approx(sigma)


def test_the_quantum_is_found_where_nobody_states_it() -> None:
    points = np.where(np.arange(100) % 50 == 0, 0.1, 0.0)[None, :]
    assert learned(points, RATIO, UNKNOWN).sigma[0] == pytest.approx(0.05)


def test_spikes_move_mean_and_deviation_and_not_what_decides() -> None:
    points = 1 + 0.02 * np.random.default_rng(2).standard_normal((1, 100))
    spiky = points.copy()
    spiky[0, ::33] = 5.0
    plain, normal = learned(points, RATIO, UNKNOWN), learned(spiky, RATIO, UNKNOWN)
    assert normal.deviation[0] > 20 * plain.deviation[0]
    assert normal.median[0] == pytest.approx(plain.median[0], abs=0.003)
    assert normal.sigma[0] == pytest.approx(plain.sigma[0], rel=0.1)


def test_a_slow_beginning_and_a_plateau_are_left_out_and_two_levels_are_said() -> None:
    points = 1 + 0.02 * np.random.default_rng(2).standard_normal((3, 100))
    points[0, :7] = 3.0
    points[1, 40:60] = 2.0
    points[2, 10:62] = 2.0
    normal = learned(points, np.repeat(RATIO, 3), np.repeat(UNKNOWN, 3))
    assert normal.num[:2].tolist() == [93, 80]
    assert normal.is_moving.tolist() == [False, False, True]
    assert normal.median[:2].tolist() == pytest.approx([1.0, 1.0], abs=0.01)


def test_a_beginning_of_45_slow_points_asks_for_more_points() -> None:
    points = 1 + 0.01 * np.random.default_rng(2).standard_normal((1, 100))
    points[0, :45] = 9.0
    normal = learned(points, RATIO, UNKNOWN)
    assert normal.num[0] == 0
    assert normal.num_slow[0] == 45
