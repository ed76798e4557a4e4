"""The five minutes whose low use is to be explained."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.telemetry import rest
from stepscope.analyse.telemetry.device import least_five_minutes
from stepscope.analyse.telemetry.table import Samples, samples_of
from tests.analyse.telemetry.make import series, source


def read(*parts: tuple[int, float]) -> Samples:
    """(seconds, busy) one after another, read each second."""
    busy = [value for seconds, value in parts for _ in range(seconds)]
    (samples,) = samples_of([source(series("compute_busy_ratio", busy))])
    return samples


def chosen(samples: Samples, num_before: int) -> tuple[int, int, float]:
    """(first, last) reading of the rest where the first `num_before` are before the first step, and how much
    of it is quiet."""
    before = np.arange(len(samples)) < num_before
    rows = rest.rest(samples, ~before, before)
    places = np.flatnonzero(rows)
    return int(places[0]), int(places[-1]), rest.quiet_share(samples, rows)


def test_a_minute_of_work_and_four_of_rest_are_four_fifths_quiet() -> None:
    samples = read((60, 0.92), (240, 0.0))
    assert rest.numbers(samples) == {"quiet_five_minutes": pytest.approx(0.8)}
    assert rest.numbers(samples.take(np.arange(300) < 2)) == {}  # two readings are no share


def test_a_start_counts_where_the_device_worked_ever_since() -> None:
    assert chosen(read((240, 0.0), (480, 0.92)), 240) == (0, 299, 0.8)


def test_a_start_hides_no_later_rest_that_is_less_quiet() -> None:
    """A foreign process takes 4 % of a device whose job is dead; in the start nothing ran at all."""
    assert chosen(read((400, 0.0), (60, 0.92), (400, 0.04)), 400) == (559, 858, 1.0)


def test_a_start_that_is_a_small_part_of_the_run_is_no_answer() -> None:
    first, _, quiet = chosen(read((240, 0.0), (960, 0.92)), 240)
    assert (first, quiet) == (0, 0.8)  # exactly a fifth
    first, _, quiet = chosen(read((240, 0.0), (970, 0.92)), 240)
    assert first >= 240
    assert quiet == 0.0


@given(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from((0.0, 0.04, 0.3, 0.92))), min_size=1, max_size=6),
    st.integers(0, 600),
)
def test_the_start_is_taken_only_for_more_rest(parts: list[tuple[int, float]], num_before: int) -> None:
    samples = read(*parts)
    before = np.arange(len(samples)) < num_before
    least = least_five_minutes(samples, ~before)
    found = rest.rest(samples, ~before, before)
    assert rest.quiet_share(samples, found) >= rest.quiet_share(samples, least)
    if not np.array_equal(found, least):
        assert rest.quiet_share(samples, least) < rest.RESTED_SHARE <= rest.quiet_share(samples, found)
