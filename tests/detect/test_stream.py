"""The gates over a stream, by worked examples. A series is 1.00 with a scatter of 2 % unless said."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.detect.array import Judged, judged
from stepscope.detect.kind import EITHER, FEWER, SHARE_DOWN, SLOWER, SeriesKind
from stepscope.detect.stream import Gates
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64

SECOND = 10**9
CYCLE = 0.02 * np.array([0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 0.25, -0.25, 0.75])
"""One scatter, over and over: its median absolute deviation is 0.0125, sigma 0.01853."""


def steady(num: int, level: float = 1.0) -> F64:
    return level * (1 + np.resize(CYCLE, num))


def of(values: F64, kind: SeriesKind = SLOWER, marked: slice | None = None) -> Judged:
    clean = np.ones(len(values), dtype=bool)
    if marked is not None:
        clean[marked] = False
    return judged(values, clean, kind)


def first(flags: np.ndarray) -> int:
    return int(np.argmax(flags)) if flags.any() else -1


def test_nothing_is_said_before_the_normal_is_learned_from_100_points_behind_10() -> None:
    told = of(steady(130))
    assert first(told.is_learned[0]) == 109
    assert told.num_baseline[0, [108, 109, 129]].tolist() == [0, 100, 100]
    assert np.isnan(told.normal[0, 108])
    assert told.normal[0, 109] == pytest.approx(1.0025)
    assert not told.severity.any()
    assert not told.specified.any()
    assert not told.drift.any()
    assert (told.onset == ABSENT_I64).all()


@pytest.mark.parametrize(("effect", "severity"), [(0.07, 1), (0.12, 2), (0.25, 3), (-0.25, 0)])
def test_the_effect_decides_how_severe_it_is_and_the_side_whether_it_is(effect: float, severity: int) -> None:
    values = steady(260)
    values[200:] *= 1 + effect
    told = of(values)
    assert told.severity[0, 259] == severity
    assert told.effect[0, 259] == pytest.approx(effect, abs=0.005)


def test_an_alarm_needs_six_of_eight_points_and_says_with_which_it_began() -> None:
    values = steady(260)
    values[200:] *= 1.3
    told = of(values)
    assert first(told.severity[0] > 0) == 205
    assert told.onset[0, 205] == 200
    assert told.onset_ns[0, 205] == 200 * SECOND
    five = steady(260)
    five[200:205] *= 1.3
    assert not of(five).severity.any()


def test_the_specified_alarm_comes_with_three_in_a_row_on_either_side() -> None:
    values = steady(260)
    values[200:203] *= 0.9
    told = of(values)
    assert np.flatnonzero(told.specified[0]).tolist() == [202]
    values[201] = 1.2
    assert not of(values).specified.any()


def test_three_high_points_are_the_specified_alarm_and_never_the_gate() -> None:
    values = steady(260)
    values[200:203] *= 1.2
    told = of(values)
    assert told.specified.any()
    assert not told.severity.any()


def test_a_drift_of_a_twentieth_percent_a_point_is_found_though_no_point_is_far() -> None:
    values = steady(400)
    values[200:] *= 1 + 0.0005 * np.arange(200)
    told = of(values)
    begin = first(told.drift[0])
    assert 200 < begin < 300
    assert not told.severity[0, begin]
    assert 200 <= told.onset[0, begin] <= begin


def test_effects_of_ratios_are_points_and_a_fall_is_what_counts() -> None:
    values = np.round(steady(300, 0.5), 2)
    values[200:] -= 0.08  # 16 % of 0.5, but eight points
    told = of(values, SHARE_DOWN)
    assert told.severity[0, 299] == 1
    assert told.effect[0, 299] == pytest.approx(-0.08, abs=0.01)
    assert not of(1.0 - values, SHARE_DOWN).severity.any()


def test_a_series_of_two_sides_alarms_on_both() -> None:
    values = steady(400)
    values[200:230] *= 1.3
    values[300:330] *= 0.7
    told = of(values, EITHER)
    assert told.severity[0, 225] == 3
    assert told.severity[0, 325] == 3
    assert told.severity[0, 270] == 0


def test_five_slow_first_steps_do_not_blind() -> None:
    values = steady(260)
    values[:5] *= 8
    values[200:] *= 1.1
    told = of(values)
    assert told.normal[0, -1] == pytest.approx(1.0025)
    assert told.severity[0, -1] >= 1


def test_a_warm_up_of_30_steps_is_left_out_by_evidence_of_both_baselines() -> None:
    values = steady(260)
    values[:30] *= 2
    values[200:203] *= 1.08
    told = of(values)
    assert told.num_baseline[0, -1] == 80
    assert np.flatnonzero(told.specified[0]).tolist() == [202]


@pytest.mark.parametrize(("num_slow", "known"), [(30, 109), (55, 154), (60, 159), (65, 159), (75, 159)])
def test_a_level_that_moves_within_the_first_points_is_not_learned_as_two(num_slow: int, known: int) -> None:
    told = of(np.concatenate((steady(num_slow, 2.0), steady(200))))
    assert first(told.is_learned[0]) == known
    assert told.normal[0, -1] == pytest.approx(1.0, abs=0.003)


def test_a_series_that_always_moves_is_learned_as_that_in_the_end() -> None:
    values = 1 + 0.5 * np.sin(np.arange(600) / 20)
    told = of(values)
    assert first(told.is_learned[0]) == 109 + 5 * 50


def test_missing_points_are_neither_low_nor_zero_and_change_nothing() -> None:
    values = steady(400)
    values[200:230] = np.nan
    told = of(values, FEWER)
    assert not told.severity.any()
    assert not told.specified.any()
    values[300:] *= 0.8
    values[310:320] = np.nan
    told = of(values, FEWER)
    assert (told.severity[0, 306:330] >= 2).all()


def test_marked_steps_are_neither_judged_nor_learned_from() -> None:
    values = steady(400)
    values[40:60] *= 3
    values[200:240] *= 3
    clean = np.ones(400, dtype=bool)
    clean[40:60] = clean[200:240] = False
    told = judged(values, clean, SLOWER)
    assert first(told.is_learned[0]) == 129
    assert not told.severity.any()
    assert not told.specified.any()
    assert not told.drift.any()


def test_a_gap_in_time_ends_what_is_in_a_row() -> None:
    values = steady(260)
    values[200:204] *= 1.3
    values[204:208] *= 1.3
    at = np.arange(260, dtype=np.int64) * SECOND
    assert judged(values, np.ones(260, bool), SLOWER, at).severity[0, 207] == 3
    at[204:] += 31 * SECOND
    told = judged(values, np.ones(260, bool), SLOWER, at)
    assert not told.severity.any()
    assert np.flatnonzero(told.specified[0]).tolist() == [202, 203, 206, 207]


def test_a_slow_series_has_longer_gaps() -> None:
    values = steady(260)
    values[200:] *= 1.3
    at = np.arange(260, dtype=np.int64) * 40 * SECOND
    assert judged(values, np.ones(260, bool), SLOWER, at).severity[0, -1] == 3


def test_of_a_series_that_is_always_nothing_no_share_is_told() -> None:
    values = np.zeros(300)
    values[200:] = 5.0
    told = of(values)
    assert not told.severity.any()
    assert not told.drift.any()
    assert np.isnan(told.effect[0, -1])
    assert of(values / 10, SeriesKind(direction="up", is_ratio=True)).severity[0, -1] == 3


def test_half_the_quantum_is_the_least_scatter() -> None:
    values = np.full(300, 0.40)
    values[200:] = 0.46  # six points: beyond 3 × 0.005, not beyond 3 × 0.05
    fine = SeriesKind(direction="up", is_ratio=True, quantum=0.01)
    coarse = SeriesKind(direction="up", is_ratio=True, quantum=0.10)
    assert of(values, fine).severity[0, -1] == 1
    assert of(values, coarse).severity[0, -1] == 0


def test_rows_that_are_dropped_are_given_to_others_as_new() -> None:
    gates = Gates()
    rows = gates.add([SLOWER, FEWER, SLOWER])
    clean = np.ones(3, dtype=bool)
    for n in range(120):
        gates.push(rows, np.full(3, 1.0 + 0.001 * (n % 7)), clean, n * SECOND)
    gates.drop(rows[1:2])
    again = gates.add([SLOWER, SLOWER])
    assert again.tolist() == [1, 3]
    assert len(gates) == 4
    told = gates.push(np.array([0, 1, 3]), np.ones(3), clean, 120 * SECOND)
    assert told.is_learned.tolist() == [True, False, False]


def test_rows_are_added_one_by_one_and_pushed_in_any_order() -> None:
    gates = Gates()
    for _ in range(5):
        gates.add([SLOWER])
    values = np.arange(1.0, 6.0)
    order = np.array([3, 0, 4, 1])
    for n in range(115):
        told = gates.push(order, values[order] * (1 + 0.01 * (n % 5)), np.ones(4, dtype=bool), n * SECOND)
    assert told.normal.tolist() == pytest.approx([4 * 1.02, 1.02, 5 * 1.02, 2 * 1.02])
