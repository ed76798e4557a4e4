"""How often a source is read and reads, its gaps, and its old values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.align.collect import (
    Cadence,
    collect_interval,
    gaps,
    scrape_interval,
    stale,
    time_faults,
    unheld,
)
from stepscope.model.sample import Owner, Series
from tests.align.telemetry import DEVICE, EPOCH, SECOND, Source, aperiodic

S = SECOND


def series(at_s: list[float], value: list[float], signal: str = "power_watts") -> Series:
    at = np.array([EPOCH + round(each * S) for each in at_s], dtype=np.int64)
    return Series(signal, DEVICE, at, np.array(value, dtype=float))


def test_thirty_equal_values_a_second_apart_are_one_reading_each_30_s() -> None:
    watts = [351.2, 402.7, 398.1, 377.5, 420.0, 333.3, 390.9]
    one = series([float(n) for n in range(210)], [watts[n // 30] for n in range(210)])
    cadence = collect_interval([one])
    assert cadence == Cadence(scrape_ns=S, collect_ns=30 * S, is_bound=False, num_changes=6)
    assert cadence.is_held


def test_a_default_service_monitor_reads_each_value_twice() -> None:
    # 15 s scrapes of a 30 s collect interval: the helm chart's default against the exporter's.
    value = [300.0 + 7.3 * (n // 2) for n in range(40)]
    cadence = collect_interval([series([15.0 * n for n in range(40)], value)])
    assert cadence is not None
    assert (cadence.scrape_ns, cadence.collect_ns) == (15 * S, 30 * S)


def test_new_values_at_every_reading_only_bound_the_interval() -> None:
    value = [300.0 + 1.7 * n for n in range(40)]
    cadence = collect_interval([series([1.0 * n for n in range(40)], value)])
    assert cadence is not None
    assert cadence.is_bound
    assert not cadence.is_held
    assert cadence.collect_ns == S


def test_a_constant_signal_tells_nothing() -> None:
    assert collect_interval([series([1.0 * n for n in range(40)], [100.0] * 40)]) is None


def test_an_idle_device_does_not_hide_the_cadence_of_a_busy_one() -> None:
    idle = Series("power_watts", Owner(uuid="GPU-idle"), EPOCH + S * np.arange(300), np.full(300, 70.0))
    busy = series([1.0 * n for n in range(300)], [300.0 + (n // 10) * 1.1 for n in range(300)])
    cadence = collect_interval([idle, busy])
    assert cadence is not None
    assert cadence.collect_ns == 10 * S


def test_integer_readings_that_agree_by_chance_are_allowed_for() -> None:
    rng = np.random.default_rng(4)
    value = np.repeat(rng.integers(0, 4, 400), 5).astype(float)  # one in four agrees with the one before
    cadence = collect_interval([series([1.0 * n for n in range(2000)], value.tolist())])
    assert cadence is not None
    assert cadence.collect_ns == pytest.approx(5 * S, rel=0.1)


@pytest.mark.parametrize(("scrape", "collect"), [(0.25, 1.0), (1.0, 5.0), (15.0, 20.0), (2.0, 30.0)])
def test_the_interval_is_known_within_a_tenth(scrape: float, collect: float) -> None:
    work = aperiodic(3, 80 * collect, collect / 2, collect / 4)
    source = Source(window=collect, collect=collect, scrape=scrape, quantum=None)
    cadence = collect_interval([source.read(work, 0.0, 80 * collect, 5)])
    assert cadence is not None
    assert cadence.collect_ns == pytest.approx(collect * S, rel=0.1)


def test_a_repeated_reading_is_left_out_and_a_new_one_is_put_where_it_became_new() -> None:
    one = series([0, 1, 2, 3, 4, 5, 6, 7], [9, 9, 9, 5, 5, 5, 7, 7])
    (kept,) = unheld([one], Cadence(S, 3 * S, False, 2))
    assert ((kept.at_ns - EPOCH) / S).tolist() == [2.5, 5.5]
    assert kept.value.tolist() == [5, 7]


def test_a_steady_device_is_read_all_the_same() -> None:
    one = series([float(n) for n in range(12)], [9, 9, 9, 5, 5, 5, 5, 5, 5, 5, 5, 7])
    (kept,) = unheld([one], Cadence(S, 3 * S, False, 2))
    assert kept.value.tolist() == [5, 5, 7]


def test_signals_of_one_device_become_new_together() -> None:
    power = series([0, 1, 2, 3, 4, 5], [1, 1, 2, 2, 3, 3])
    busy = series([0, 1, 2, 3, 4, 5], [1, 1, 1, 1, 1, 1], "compute_busy_ratio")
    kept = unheld([power, busy], Cadence(S, 2 * S, False, 2))
    assert [each.value.tolist() for each in kept] == [[2, 3], [1, 1]]
    assert kept[0].at_ns.tolist() == kept[1].at_ns.tolist()


def test_one_lost_reading_is_no_gap_and_two_are() -> None:
    at = EPOCH + S * np.array([0, 1, 3, 6, 7])
    found = gaps(at, S)
    assert ((found.start - EPOCH) / S).tolist() == [4]
    assert ((found.end - EPOCH) / S).tolist() == [5]


def test_a_reading_that_comes_late_leaves_no_gap() -> None:
    assert len(gaps(EPOCH + S // 10 * np.array([0, 10, 34, 44]), S)) == 0
    assert gaps(EPOCH + S // 10 * np.array([0, 10, 36, 46]), S).total_ns == 6 * S // 10


def test_time_before_the_first_and_after_the_last_reading_is_a_gap() -> None:
    found = gaps(EPOCH + S * np.arange(10, 20), S, EPOCH, EPOCH + 40 * S)
    assert ((found.start - EPOCH) / S).tolist() == [0, 20]
    assert ((found.end - EPOCH) / S).tolist() == [9, 40]


def test_no_reading_at_all_is_a_gap_throughout() -> None:
    found = gaps(np.empty(0, dtype=np.int64), S, EPOCH, EPOCH + 40 * S)
    assert (found.start.tolist(), found.end.tolist()) == ([EPOCH], [EPOCH + 40 * S])


@given(st.lists(st.integers(0, 200), min_size=1, max_size=40, unique=True).map(sorted), st.integers(1, 9))
def test_a_gap_holds_no_reading_and_lies_an_interval_from_each(at: list[int], interval: int) -> None:
    times = np.array(at, dtype=np.int64)
    found = gaps(times, interval, -50, 250)
    for start, end in zip(found.start, found.end, strict=True):
        assert not ((times > start - interval) & (times < end + interval)).any() or (
            start == -50 or end == 250
        )
        assert not ((times >= start) & (times < end)).any()


def test_a_clock_that_was_set_back_is_not_a_lone_late_sample() -> None:
    late = time_faults(np.array([1, 2, 3, 2, 5, 6], dtype=np.int64) * S)
    assert (late.num_late, late.num_steps, late.most_back_ns) == (1, 0, S)
    step = time_faults(np.array([10, 11, 12, 5, 6, 7, 8], dtype=np.int64) * S)
    assert (step.num_late, step.num_steps, step.most_back_ns) == (0, 1, 7 * S)
    same = time_faults(np.array([1, 2, 2, 3], dtype=np.int64))
    assert (same.num_same, same.is_clean) == (1, False)
    assert time_faults(np.array([1, 2, 3], dtype=np.int64)).is_clean


def test_energy_that_stands_still_while_power_flows_is_old() -> None:
    joules = [0, 400, 800, 1200, 1200, 1200, 1200, 1600]
    energy = series([1.0 * n for n in range(8)], [float(each) for each in joules], "energy_joules_total")
    found = stale(energy, series([1.0 * n for n in range(8)], [400.0] * 8), S)
    assert ((found.start - EPOCH) / S).tolist() == [3]
    assert ((found.end - EPOCH) / S).tolist() == [6]
    assert len(stale(energy, series([1.0 * n for n in range(8)], [0.0] * 8), S)) == 0


def test_the_scrape_interval_survives_gaps() -> None:
    assert scrape_interval(EPOCH + S * np.array([0, 1, 2, 60, 61, 62])) == S
    assert scrape_interval(np.array([EPOCH])) is None
