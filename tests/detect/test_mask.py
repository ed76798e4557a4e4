"""Plateaus that come round and that nobody marked: what is learned, and what is found all the same."""

from __future__ import annotations

import numpy as np

from stepscope.detect.array import Judged, judged
from stepscope.detect.gate import Flags
from stepscope.detect.kind import SLOWER
from stepscope.model.sample import F64


def noisy(num: int, seed: int = 1) -> F64:
    return 1 + 0.02 * np.random.default_rng(seed).standard_normal(num)


def with_plateaus(
    num: int, *, begin: int = 150, every: int = 200, length: int = 20, height: float = 1.5
) -> F64:
    values = noisy(num)
    for first in range(begin, num, every):
        values[first : first + length] *= height
    return values


def of(values: F64) -> Judged:
    return judged(values, np.ones(values.shape, dtype=bool), SLOWER)


def alarms(flags: Flags) -> list[int]:
    """Where they begin."""
    return np.flatnonzero(flags & ~np.concatenate(([False], flags[:-1]))).tolist()


def test_the_third_plateau_of_20_steps_in_200_alarms_no_more() -> None:
    told = of(with_plateaus(1600))
    assert alarms(told.severity[0] > 0) == [155, 355]
    assert alarms(told.drift[0])[-1] < 380
    assert told.is_masked[0, 550:570].all()
    assert told.is_masked[0, 1350:1370].all()
    assert not told.is_masked[0, 580:740].any()


def test_a_plateau_within_the_baseline_counts_as_the_first() -> None:
    assert alarms(of(with_plateaus(1000, begin=50)).severity[0] > 0) == [255]


def test_a_plateau_that_goes_on_out_of_the_baseline_counts_as_the_first() -> None:
    told = of(with_plateaus(1000, begin=100))
    assert len(alarms(told.severity[0] > 0)) <= 2
    assert not told.severity[0, 340:].any()


def test_the_period_may_drift() -> None:
    values, first = noisy(1800), 150
    for n in range(8):
        values[first : first + 20] *= 1.5
        first += 200 + 3 * n
    told = of(values)
    assert len(alarms(told.severity[0] > 0)) == 2


def test_two_rhythms_at_once_are_both_learned() -> None:
    values = with_plateaus(2200)
    for first in range(210, 2200, 500):
        values[first : first + 12] *= 1.3
    told = of(values)
    assert not told.severity[0, 1300:].any()
    assert len(alarms(told.severity[0] > 0)) == 4


def test_a_fault_that_begins_inside_or_beside_a_masked_plateau_is_found() -> None:
    begins = (950, 960, 969, 940, 980, 1050)
    values = np.repeat(with_plateaus(1150)[None, :], len(begins), axis=0)
    for row, begin in enumerate(begins):
        values[row, begin:] *= 1.12
    told = of(values)
    for row, begin in enumerate(begins):
        assert not told.severity[row, 600:begin].any(), begin
        found = alarms(told.severity[row, begin:] > 0)
        assert 0 <= found[0] <= 40, begin
        assert (told.severity[row, begin + 45 :] >= 1).all(), begin


def test_a_plateau_that_becomes_much_longer_or_higher_is_none() -> None:
    values = np.stack([with_plateaus(1000), with_plateaus(1000)])
    values[0, 950:1000] = 1.5
    values[1, 950:970] = 2.6
    told = of(values)
    assert told.severity[0, 990] == 3
    assert told.severity[1, 969] == 3


def test_a_small_fault_where_a_high_plateau_is_due_is_found_at_once() -> None:
    values = with_plateaus(945)
    values[930:] *= 1.12
    assert alarms(of(values).severity[0] > 0)[-1] <= 940


def test_single_spikes_have_no_rhythm() -> None:
    values = noisy(1000)
    values[::50] *= 1.5
    told = of(values)
    assert not told.severity.any()
    assert not told.is_masked.any()
