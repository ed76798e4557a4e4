"""Verified change points."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.detect.bocd import ChangePoints, changes
from stepscope.model.sample import F64


def levels(*pieces: tuple[int, float], sigma: float = 0.02, seed: int = 3) -> F64:
    draw = np.random.default_rng(seed)
    return np.concatenate([level * (1 + sigma * draw.standard_normal(num)) for num, level in pieces])


def test_two_changes_are_found_where_they_are() -> None:
    found = changes(levels((200, 1.0), (100, 1.3), (100, 1.04)))
    assert [each.place for each in found] == [200, 300]
    assert [each.before for each in found] == pytest.approx([1.0, 1.3], abs=0.01)
    assert [each.after for each in found] == pytest.approx([1.3, 1.04], abs=0.01)


def test_a_change_of_5_percent_is_told_and_not_verified() -> None:
    values = levels((200, 1.0), (60, 1.05), sigma=0.005)
    points = ChangePoints(1)
    told, verified = np.array([points.push(values[n : n + 1]) for n in range(260)])[:, :, 0].T
    assert told[200:210].any()
    assert not verified.any()
    assert changes(values) == ()


def test_200_healthy_series_have_none() -> None:
    values = 5 + 0.1 * np.random.default_rng(8).standard_normal((200, 200))
    points = ChangePoints(200)
    assert not any(points.push(values[:, n])[1].any() for n in range(200))


def test_missing_values_are_no_change() -> None:
    values = levels((200, 1.0), (60, 1.3))
    values[100:130] = np.nan
    assert [each.place for each in changes(values)] == [200]
