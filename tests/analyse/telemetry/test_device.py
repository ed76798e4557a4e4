"""Numbers of one device, from its counters alone."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.analyse.telemetry.device import least_five_minutes, numbers
from stepscope.analyse.telemetry.table import samples_of
from stepscope.model.sample import Series
from tests.analyse.telemetry.make import series, source

MHZ, GB = 1e6, 1e9


def of(*each: Series) -> dict[str, float]:
    (samples,) = samples_of([source(*each)])
    return numbers(samples, np.ones(len(samples), dtype=bool))


def test_busy_is_told_beside_power_and_memory_as_shares() -> None:
    """The published triple: busy 96 %, 320 of 700 W, 62 of 80 GB."""
    found = of(
        series("compute_busy_ratio", [0.96] * 10),
        series("power_watts", [320] * 10),
        series("power_limit_watts", [700] * 10),
        series("memory_used_bytes", [62 * GB] * 10),
        series("memory_total_bytes", [80 * GB] * 10),
    )
    assert found["compute_busy_mean"] == pytest.approx(0.96)
    assert found["power_limit_share"] == pytest.approx(0.457, abs=5e-4)
    assert found["memory_used_share"] == pytest.approx(0.775)


def test_without_a_limit_the_rated_power_of_the_model_stands_in() -> None:
    assert of(series("power_watts", [350] * 4))["power_limit_share"] == pytest.approx(0.5)


def test_what_was_not_measured_is_absent() -> None:
    found = of(series("power_watts", [350] * 4))
    assert set(found) == {"telemetry_samples", "power_watts_mean", "power_limit_share"}


def test_hot_without_a_reason_is_not_throttled() -> None:
    found = of(
        series("compute_busy_ratio", [1.0] * 10),
        series("temperature_celsius", [88] * 10),
        series("slowdown_temperature_celsius", [90] * 10),
        series("clock_event_reasons", [0x4] * 5 + [0x0] * 5),
        series("sm_clock_hertz", [1980 * MHZ] * 10),
        series("sm_clock_max_hertz", [1980 * MHZ] * 10),
    )
    assert found["thermal_throttled_share"] == 0
    assert found["power_capped_share"] == 0.5
    assert found["temperature_margin_celsius"] == 2
    assert found["clock_drop_share"] == 0


def test_a_clock_that_falls_with_a_thermal_reason_is_counted_under_load_only() -> None:
    found = of(
        series("compute_busy_ratio", [1.0] * 8 + [0.0] * 8),
        series("clock_event_reasons", [0, 0, 0, 0, 0x20, 0x20, 0x40, 0x20] + [0x1] * 8),
        series("sm_clock_hertz", [1980 * MHZ] * 4 + [1386 * MHZ] * 4 + [345 * MHZ] * 8),
        series("sm_clock_max_hertz", [1980 * MHZ] * 16),
    )
    assert found["thermal_throttled_share"] == 0.5
    assert found["clock_drop_share"] == pytest.approx(0.3)
    assert found["clock_loss_share"] == pytest.approx(0.15)
    assert found["power_capped_share"] == 0


def test_time_counters_of_reasons_count_more_than_bits_that_missed_them() -> None:
    found = of(
        series("compute_busy_ratio", [1.0] * 10),
        series("clock_event_reasons", [0] * 10),
        series("throttle_thermal_seconds_total", [0.4 * n for n in range(10)]),
    )
    assert found["thermal_throttled_share"] == pytest.approx(0.4)


def test_a_locked_clock_is_flat_and_low() -> None:
    found = of(
        series("compute_busy_ratio", [1.0] * 10),
        series("sm_clock_hertz", [1410 * MHZ] * 10),
        series("sm_clock_max_hertz", [1980 * MHZ] * 10),
    )
    assert found["sm_clock_share"] == pytest.approx(0.712, abs=1e-3)
    assert found["clock_spread_share"] == 0


def test_a_clock_that_ramps_after_rest_is_told() -> None:
    found = of(
        series("compute_busy_ratio", [0.0, 1.0, 1.0, 1.0] * 5),
        series("sm_clock_hertz", [345 * MHZ, 990 * MHZ, 1980 * MHZ, 1980 * MHZ] * 5),
    )
    assert found["clock_ramp_share"] == pytest.approx(0.5)


def test_links_are_told_by_the_busier_direction() -> None:
    """NVLink of an H100 carries 450 GB/s one way: peak 90 %, mean 55 %."""
    sent = [0.2 * 450 * GB, 0.9 * 450 * GB]
    found = of(
        series("nvlink_tx_bytes_per_second", sent * 5),
        series("nvlink_rx_bytes_per_second", [0.1 * 450 * GB] * 10),
        series("pcie_rx_bytes_per_second", [6.4 * GB] * 10),
    )
    assert found["nvlink_link_share"] == pytest.approx(0.55)
    assert found["nvlink_peak_link_share"] == pytest.approx(0.9)
    assert found["pcie_receive_link_share"] == pytest.approx(0.1)


def test_a_lower_generation_at_rest_is_no_loss() -> None:
    at_rest = of(
        series("compute_busy_ratio", [0.0] * 10),
        series("pcie_link_gen", [1] * 10),
        series("pcie_link_gen_max", [5] * 10),
    )
    under_load = of(
        series("compute_busy_ratio", [1.0] * 10),
        series("pcie_link_gen", [4] * 10),
        series("pcie_link_gen_max", [5] * 10),
        series("pcie_link_width", [8] * 10),
        series("pcie_link_width_max", [16] * 10),
    )
    assert "pcie_rate_lost_share" not in at_rest
    assert under_load["pcie_rate_lost_share"] == pytest.approx(0.75)


def test_memory_that_grows_steadily_is_told_apart_from_memory_that_swings() -> None:
    total = series("memory_total_bytes", [80 * GB] * 40)
    grows = of(series("memory_used_bytes", [(40 + n * 0.5) * GB for n in range(40)]), total)
    swings = of(series("memory_used_bytes", [40 * GB, 60 * GB] * 20), total)
    assert grows["memory_growth_share"] == pytest.approx(18 / 80, abs=1e-3)
    assert grows["memory_growth_steadiness"] == 1
    assert swings["memory_growth_share"] == pytest.approx(0, abs=1e-9)
    assert swings["memory_jump_share"] == pytest.approx(0.25)


def test_five_minutes_at_the_least_busy_count() -> None:
    found = of(series("compute_busy_ratio", [0.9] * 60 + [0.04] * 300 + [0.9] * 60))
    assert found["compute_busy_five_minutes"] == pytest.approx(0.04)
    assert found["compute_busy_mean"] == pytest.approx((120 * 0.9 + 300 * 0.04) / 420)


def test_bits_and_codes_are_never_averaged() -> None:
    found = of(series("clock_event_reasons", [0x4, 0x20]), series("xid", [79, 79]))
    assert not any("reason" in name or "xid" in name for name in found)


def test_the_five_minutes_of_least_use_are_the_last_of_those_alike() -> None:
    """400 s of rest, 400 s of work, 400 s of rest: the last 300 of them."""
    (samples,) = samples_of([source(series("compute_busy_ratio", [0.04] * 400 + [0.9] * 400 + [0.04] * 400))])
    every = np.ones(len(samples), dtype=bool)
    rows = np.flatnonzero(least_five_minutes(samples, every))
    assert (rows[0], rows[-1], len(rows)) == (899, 1198, 300)
    found = numbers(samples, every)
    assert found["compute_busy_five_minutes"] == pytest.approx(0.04)
    # Of readings that are asked for only those are looked at; fewer than five minutes are all of it.
    assert np.flatnonzero(least_five_minutes(samples, np.arange(len(samples)) < 200)).tolist() == list(
        range(200)
    )
