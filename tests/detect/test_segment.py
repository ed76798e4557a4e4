"""Segments of an hour, whole and as a stream."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.detect.segment import HOUR_NS, Hours, segments

MINUTE = 60 * 10**9


def test_three_points_15_percent_off_their_hours_median_are_a_segment() -> None:
    at = np.arange(60, dtype=np.int64) * MINUTE
    values = np.full(60, 100.0)
    values[10:13] = [116.0, 130.0, 117.0]
    values[20:22] = 200.0  # two only
    values[30:34] = 114.0  # 14 %
    values[40:44] = 80.0
    high, low = segments(at, values)
    assert (high.start_ns, high.end_ns, high.num_points) == (10 * MINUTE, 12 * MINUTE, 3)
    assert (high.median, high.extreme, high.effect) == (100.0, 130.0, pytest.approx(0.17))
    assert (low.num_points, low.effect) == (4, pytest.approx(-0.2))


def test_points_on_two_sides_are_no_segment_and_missing_ones_no_break() -> None:
    at = np.arange(60, dtype=np.int64) * MINUTE
    values = np.full(60, 100.0)
    values[10:13] = [130.0, 70.0, 130.0]
    values[20:25] = [130.0, np.nan, 130.0, np.nan, 130.0]
    (found,) = segments(at, values)
    assert (found.start_ns, found.end_ns, found.num_points) == (20 * MINUTE, 24 * MINUTE, 3)


def test_every_hour_has_its_own_median() -> None:
    at = np.arange(120, dtype=np.int64) * MINUTE
    values = np.repeat([100.0, 150.0], 60)
    assert segments(at, values) == ()
    values[58:62] = 300.0
    assert segments(at, values) == ()  # two in each hour


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from([1.0, 1.1, 1.2, 0.8, 2.0, float("nan")]), min_size=1, max_size=80))
def test_a_stream_tells_what_the_whole_series_tells(values: list[float]) -> None:
    at = [n * 7 * MINUTE for n in range(len(values))]
    hours, told = Hours(), []
    for each, value in zip(at, values, strict=True):
        told += hours.push(each, value)
    told += hours.so_far()
    assert told == list(segments(np.array(at), np.array(values)))
    assert all(each.start_ns // HOUR_NS == each.end_ns // HOUR_NS for each in told)
