"""Samples of one owner in columns."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.telemetry.table import samples_of
from tests.analyse.telemetry.make import H100, HOST, SECOND, START, series, source


def test_signals_of_one_scrape_share_a_row() -> None:
    (one,) = samples_of([source(series("power_watts", [300, 320]), series("sm_active_ratio", [0.5, 0.6]))])
    assert one.owner == H100
    assert one.column("power_watts").tolist() == [300, 320]
    assert one.column("sm_active_ratio").tolist() == [0.5, 0.6]


def test_a_signal_that_lacks_a_reading_has_nothing_there() -> None:
    late = series("sm_active_ratio", [0.6], start=START + SECOND)
    (one,) = samples_of([source(series("power_watts", [300, 320]), late)])
    assert np.isnan(one.column("sm_active_ratio")[0])
    assert one.column("sm_active_ratio")[1] == 0.6


def test_a_counter_becomes_its_growth_a_second() -> None:
    (one,) = samples_of([source(series("energy_joules_total", [1000, 1600, 2300], every=2.0))])
    assert np.isnan(one.column("energy_joules_total")[0])
    assert one.column("energy_joules_total")[1:].tolist() == [300, 350]
    assert one.grown["energy_joules_total"] == 1300
    assert one.last["energy_joules_total"] == 2300


def test_a_counter_that_falls_was_reset_and_says_nothing_there() -> None:
    (one,) = samples_of([source(series("pcie_replay_total", [9, 10, 2, 3]))])
    rate = one.column("pcie_replay_total")
    assert np.isnan(rate[2])
    assert rate[[1, 3]].tolist() == [1, 1]
    assert one.grown["pcie_replay_total"] == 2


def test_a_second_source_stands_in_the_nearest_row() -> None:
    slow = series("temperature_celsius", [60, 61], start=START + SECOND // 4, every=2.0)
    (one,) = samples_of([source(series("power_watts", [1, 2, 3, 4])), source(slow, name="smi.csv")])
    assert one.column("temperature_celsius").tolist() == [60, 60, 61, 61]


def test_what_a_second_source_does_not_cover_stays_empty() -> None:
    once = series("temperature_celsius", [60, 61], start=START, every=1.0)
    (one,) = samples_of([source(series("power_watts", [1] * 10)), source(once, name="smi.csv")])
    assert np.isnan(one.column("temperature_celsius")[4:]).all()


def test_hosts_and_devices_are_apart() -> None:
    told = source(series("power_watts", [1, 2]), series("cpu_user_ratio", [0.1, 0.2], HOST))
    assert [each.owner.kind for each in samples_of([told])] == ["device", "host"]
    assert [each.owner for each in samples_of([told], ("host",))] == [HOST]


def test_a_reading_is_of_the_time_before_it() -> None:
    (one,) = samples_of([source(series("power_watts", [1, 2, 3]))])
    from dataclasses import replace

    one = replace(one, lag_ns=2 * SECOND, window_ns=SECOND)
    assert one.middle_ns.tolist() == [START - 5 * SECOND // 2 + n * SECOND for n in range(3)]
    assert one.within(START - 2 * SECOND, START).tolist() == [False, True, True]
