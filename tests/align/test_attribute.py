"""What a signal was in steps, groups of steps, intervals and cells: exact sums, and nothing where nothing was
read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.align.attribute import by_step, group_steps, on_grid, over, over_steps, under_load
from stepscope.align.collect import gaps
from stepscope.align.lag import Lag
from stepscope.model.interval import Intervals, overlap_ns, union
from stepscope.model.sample import Series
from tests.align.telemetry import DEVICE, EPOCH, SECOND

S = SECOND


def at(*seconds: float) -> np.ndarray:
    return np.array([EPOCH + round(each * S) for each in seconds], dtype=np.int64)


def series(seconds: list[float], value: list[float], signal: str = "sm_active_ratio") -> Series:
    return Series(signal, DEVICE, at(*seconds), np.array(value, dtype=float))


def intervals(*edges: tuple[float, float]) -> Intervals:
    return union(at(*(a for a, _ in edges)), at(*(b for _, b in edges)))


def test_steps_of_two_windows_are_told_one_by_one() -> None:
    # Readings at 1, 2, 3, 4 s describe [0, 1), [1, 2), [2, 3), [3, 4); steps are [0, 2) and [2, 4).
    told = by_step(
        series([1, 2, 3, 4], [0.2, 0.4, 0.6, 0.8]),
        lag_ns=0, window_ns=S, step_start_ns=at(0, 2), step_end_ns=at(2, 4),
    )  # fmt: skip
    assert told.first.tolist() == told.last.tolist() == [0, 1]
    assert told.value.tolist() == pytest.approx([0.3, 0.7])
    assert told.samples.tolist() == [2, 2]
    assert told.coverage.tolist() == pytest.approx([1.0, 1.0])


def test_shorter_steps_are_told_in_groups_and_the_rest_joins_the_last() -> None:
    start = at(*(0.9 * n for n in range(8)))
    end = at(*(0.9 * (n + 1) for n in range(8)))
    first, last = group_steps(start, end, S)
    assert (first.tolist(), last.tolist()) == ([0, 3], [2, 7])


def test_a_lag_that_is_not_known_well_makes_groups_longer() -> None:
    start, end = at(0, 2, 4, 6), at(2, 4, 6, 8)
    assert group_steps(start, end, S)[0].tolist() == [0, 1, 2, 3]
    assert group_steps(start, end, S, slack_ns=S)[0].tolist() == [0, 2]


def test_a_source_that_reads_each_second_tells_no_step_of_half_a_second() -> None:
    # Utilisation averages over a sixth of a second, and is read once in one.
    told = by_step(
        series([1, 2, 3, 4], [0.2, 0.4, 0.6, 0.8], "compute_busy_ratio"),
        lag_ns=0, window_ns=S // 6, every_ns=S,
        step_start_ns=at(0, 0.5, 1, 1.5), step_end_ns=at(0.5, 1, 1.5, 2),
    )  # fmt: skip
    assert (told.first.tolist(), told.last.tolist(), told.value.tolist()) == ([0], [3], pytest.approx([0.3]))
    assert told.coverage.tolist() == pytest.approx([1 / 6])


def test_of_a_lag_that_is_not_known_the_middle_counts_and_steps_are_told_in_longer_groups() -> None:
    readings = series([1.5, 2.5, 3.5, 4.5], [0.2, 0.4, 0.6, 0.8])
    known = Lag("found", S // 2, (S // 2, S // 2), (), 20, S, "")
    vague = Lag("ambiguous", None, (0, S), (), 20, S, "")
    told = over_steps(readings, known, at(0, 2), at(2, 4))
    assert told is not None
    assert told.value.tolist() == pytest.approx([0.3, 0.7])
    told = over_steps(readings, vague, at(0, 2), at(2, 4))
    assert told is not None
    assert (told.first.tolist(), told.last.tolist(), told.value.tolist()) == ([0], [1], pytest.approx([0.5]))
    assert over_steps(readings, Lag("unknown", None, None, (), 0, None, ""), at(0), at(4)) is None


def test_steps_that_all_together_are_too_short_are_told_by_nothing() -> None:
    told = by_step(series([1], [0.5]), lag_ns=0, window_ns=30 * S, step_start_ns=at(0), step_end_ns=at(3))
    assert len(told) == 0


def test_the_lag_moves_readings_back() -> None:
    told = by_step(
        series([1.5, 2.5, 3.5, 4.5], [0.2, 0.4, 0.6, 0.8]),
        lag_ns=S // 2, window_ns=S, step_start_ns=at(0, 2), step_end_ns=at(2, 4),
    )  # fmt: skip
    assert told.value.tolist() == pytest.approx([0.3, 0.7])


def test_a_reading_counts_by_how_much_of_its_window_lies_in_the_step() -> None:
    # Windows [0.5, 1.5) and [1.5, 2.5); the step is [0, 2): weights 1 and a half.
    told = by_step(
        series([1.5, 2.5], [0.3, 0.9]), lag_ns=0, window_ns=S, step_start_ns=at(0), step_end_ns=at(2)
    )
    assert told.value[0] == pytest.approx((0.3 * 1.0 + 0.9 * 0.5) / 1.5)
    assert told.coverage[0] == pytest.approx(0.75)
    assert told.samples[0] == 1 + 0  # the middle of the second window is at 2.0 s: in the next step


def test_a_step_that_no_reading_tells_of_is_absent_and_not_0() -> None:
    told = by_step(
        series([1, 2, 9, 10], [0.2, 0.4, 0.6, 0.8]),
        lag_ns=0, window_ns=S, step_start_ns=at(0, 4, 8), step_end_ns=at(2, 6, 10),
    )  # fmt: skip
    assert told.first.tolist() == [0, 2]


def test_the_largest_temperature_and_the_last_limit_and_all_reasons_count() -> None:
    steps = {"lag_ns": 0, "window_ns": S, "step_start_ns": at(0), "step_end_ns": at(4)}
    hot = by_step(series([1, 2, 3, 4], [60, 81, 79, 70], "temperature_celsius"), **steps)
    assert hot.value.tolist() == [81]
    limit = by_step(series([1, 2, 3, 4], [700, 700, 500, 600], "power_limit_watts"), **steps)
    assert limit.value.tolist() == [600]
    reasons = by_step(series([1, 2, 3, 4], [0x4, 0x20, 0, 0x4], "clock_event_reasons"), **steps)
    assert reasons.value.tolist() == [0x24]


def test_a_code_has_no_value_over_time() -> None:
    told = series([1, 2, 3, 4], [0, 79, 79, 79], "xid")
    assert len(by_step(told, lag_ns=0, window_ns=S, step_start_ns=at(0), step_end_ns=at(4))) == 0
    assert over(told, intervals((0, 4)), lag_ns=0, window_ns=S) is None
    assert on_grid(told, start_ns=EPOCH, end_ns=EPOCH + S, lag_ns=0, window_ns=S).mask.all()


def test_a_counter_counts_by_what_it_grew_and_a_reset_says_nothing() -> None:
    # 100 J a second; the driver is loaded anew between 4 and 5 s.
    joules = series([0, 1, 2, 3, 4, 5, 6], [900, 1000, 1100, 1200, 1300, 50, 150], "energy_joules_total")
    told = by_step(joules, lag_ns=0, window_ns=S, step_start_ns=at(0, 2, 4), step_end_ns=at(2, 4, 6))
    assert told.value.tolist() == pytest.approx([200, 200, 100])
    assert told.coverage.tolist() == pytest.approx([1.0, 1.0, 0.5])


def test_under_load_only_windows_in_which_the_device_was_busy_count() -> None:
    busy = series([1, 2, 3, 4], [1.0, 0.1, 0.9, 0.0], "compute_busy_ratio")
    clock = series([1, 2, 3, 4], [1.9e9, 0.3e9, 1.7e9, 0.2e9], "sm_clock_hertz")
    load = under_load(busy, lag_ns=0, window_ns=S, least=0.5)
    said = over(clock, load, lag_ns=0, window_ns=S)
    assert said is not None
    assert (said.value, said.samples, said.coverage, said.purity) == pytest.approx((1.8e9, 2, 1.0, 1.0))


def test_intervals_far_shorter_than_a_window_are_told_by_impure_windows() -> None:
    said = over(series([1, 2], [0.4, 0.8]), intervals((0.2, 0.3), (1.2, 1.3)), lag_ns=0, window_ns=S)
    assert said is not None
    assert said.value == pytest.approx(0.6)
    assert said.purity == pytest.approx(0.1)
    assert said.coverage == pytest.approx(1.0)


def test_nothing_was_measured_where_no_window_lies() -> None:
    assert over(series([1, 2], [0.4, 0.8]), intervals((5, 6)), lag_ns=0, window_ns=S) is None


def test_a_gap_on_the_grid_is_masked_and_not_idle() -> None:
    cells = on_grid(
        series([1, 2, 5, 6], [0.5, 0.5, 0.5, 0.5]),
        start_ns=EPOCH, end_ns=EPOCH + 6 * S, lag_ns=0, window_ns=S, cell_ns=S,
    )  # fmt: skip
    assert cells.mask.tolist() == [False, False, True, True, False, False]
    assert cells.compressed().tolist() == pytest.approx([0.5] * 4)


def test_a_counter_on_the_grid_is_a_rate() -> None:
    joules = series([0, 1, 2], [0, 300, 1000], "energy_joules_total")
    cells = on_grid(joules, start_ns=EPOCH, end_ns=EPOCH + 2 * S, lag_ns=0, window_ns=S, cell_ns=S // 2)
    assert cells.tolist() == pytest.approx([300, 300, 700, 700])


def test_a_state_on_the_grid_holds_over_its_window() -> None:
    bits = series([1, 2], [0x4, 0x20], "clock_event_reasons")
    cells = on_grid(bits, start_ns=EPOCH, end_ns=EPOCH + 3 * S, lag_ns=0, window_ns=S, cell_ns=S)
    assert cells.tolist() == [0x4, 0x20, None]


tiles = st.lists(st.integers(1, 40), min_size=1, max_size=25)
values = st.lists(st.integers(0, 100), min_size=25, max_size=25)


@settings(deadline=None)
@given(tiles, values, st.integers(-30, 30))
def test_values_of_steps_that_tile_add_up_to_all(lengths: list[int], value: list[int], lag: int) -> None:
    edges = np.append(0, np.cumsum(lengths)) * 7
    told = Series("sm_active_ratio", DEVICE, 10 * np.arange(1, 26), np.array(value) / 100.0)
    steps = by_step(told, lag_ns=lag, window_ns=10, step_start_ns=edges[:-1], step_end_ns=edges[1:])
    shown = union(told.at_ns - 10 - lag, told.at_ns - lag)
    groups = [(edges[a], edges[b + 1]) for a, b in zip(steps.first, steps.last, strict=True)]
    covered = [int(overlap_ns(np.array([a]), np.array([b]), shown)[0]) for a, b in groups]
    assert steps.coverage.tolist() == pytest.approx(
        [part / (b - a) for part, (a, b) in zip(covered, groups, strict=True)]
    )
    if len(steps):
        begin, end = groups[0][0], groups[-1][1]
        whole = over(told, union(np.array([begin]), np.array([end])), lag_ns=lag, window_ns=10)
        assert whole is not None
        total = sum(v * c for v, c in zip(steps.value, covered, strict=True))
        all_covered = int(overlap_ns(np.array([begin]), np.array([end]), shown)[0])
        assert total == pytest.approx(whole.value * all_covered, abs=1e-6)
        assert steps.samples.sum() == whole.samples


@settings(deadline=None)
@given(tiles, values)
def test_what_a_counter_grew_by_adds_up_over_steps(lengths: list[int], grown: list[int]) -> None:
    edges = np.append(0, np.cumsum(lengths)) * 11
    told = Series("energy_joules_total", DEVICE, 10 * np.arange(25), np.cumsum(grown).astype(float))
    steps = by_step(told, lag_ns=0, window_ns=10, step_start_ns=edges[:-1], step_end_ns=edges[1:])
    if len(steps):
        end = min(int(edges[steps.last[-1] + 1]), int(told.at_ns[-1]))
        expected = np.interp([0, end], told.at_ns, told.value)
        assert steps.value.sum() == pytest.approx(expected[1] - expected[0])


@settings(deadline=None)
@given(values, st.integers(1, 7), st.integers(-40, 40))
def test_coarse_cells_are_the_means_of_fine_ones(value: list[int], times: int, lag: int) -> None:
    told = Series("sm_active_ratio", DEVICE, 12 * np.arange(1, 26), np.array(value) / 100.0)
    told = replace(told, at_ns=np.delete(told.at_ns, [5, 6, 7]), value=np.delete(told.value, [5, 6, 7]))
    end = 3 * times * 20
    fine = on_grid(told, start_ns=0, end_ns=end, lag_ns=lag, window_ns=12, cell_ns=3)
    coarse = on_grid(told, start_ns=0, end_ns=end, lag_ns=lag, window_ns=12, cell_ns=3 * times)
    shown = union(told.at_ns - 12 - lag, told.at_ns - lag)
    weight = overlap_ns(3 * np.arange(len(fine)), 3 * np.arange(1, len(fine) + 1), shown)
    for index, cell in enumerate(coarse):
        part = slice(index * times, (index + 1) * times)
        if weight[part].sum() == 0:
            assert cell is np.ma.masked
        else:
            mean = (fine[part].filled(0.0) * weight[part]).sum() / weight[part].sum()
            assert cell == pytest.approx(mean)


@settings(deadline=None)
@given(values, st.integers(-(10**17), 10**17))
def test_moving_readings_and_steps_together_changes_nothing(value: list[int], shift: int) -> None:
    told = Series("sm_active_ratio", DEVICE, 10 * np.arange(1, 26), np.array(value) / 100.0)
    start, end = np.arange(0, 240, 24), np.arange(24, 264, 24)
    here = by_step(told, lag_ns=3, window_ns=10, step_start_ns=start, step_end_ns=end)
    moved = replace(told, at_ns=told.at_ns + shift)
    there = by_step(moved, lag_ns=3, window_ns=10, step_start_ns=start + shift, step_end_ns=end + shift)
    assert there.value.tolist() == here.value.tolist()
    assert there.samples.tolist() == here.samples.tolist()


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), min_size=1, max_size=30, unique=True).map(sorted))
def test_a_gap_gives_no_cell_a_value(at_: list[int]) -> None:
    told = Series("sm_active_ratio", DEVICE, 10 * np.array(at_, dtype=np.int64), np.ones(len(at_)))
    cells = on_grid(told, start_ns=-20, end_ns=620, lag_ns=0, window_ns=10, cell_ns=10)
    lost = gaps(told.at_ns, 10, -20, 620)
    edges = -20 + 10 * np.arange(len(cells) + 1)
    inside = overlap_ns(edges[:-1], edges[1:], lost) == 10
    assert cells.mask[inside].all()
