"""Links that take turns: correlation and periods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.telemetry.jitter import cycles, numbers
from stepscope.analyse.telemetry.table import Samples
from stepscope.model.sample import Owner

SECOND = 1_000_000_000


def samples(**columns: np.ndarray) -> Samples:
    count = len(next(iter(columns.values())))
    return Samples(Owner(index=0), np.arange(count, dtype=np.int64) * SECOND, columns)


def square(periods: int, high: float, low: float, width: int = 6) -> np.ndarray:
    return np.tile(np.repeat([high, low], [width - 2, 2]), periods).astype(np.float64)


def test_nvlink_that_gives_way_to_pcie_every_six_seconds() -> None:
    link, bus = square(10, 180e9, 20e9), square(10, 1e9, 24e9)
    noise = np.random.default_rng(3).normal(0, 4e9, len(link))
    found = numbers(samples(nvlink_tx_bytes_per_second=link + noise, pcie_rx_bytes_per_second=bus))
    assert found["nvlink_cycles"] == 10
    assert found["nvlink_with_pcie"] < -0.95


def test_a_steady_link_has_no_cycles() -> None:
    noise = np.random.default_rng(5).normal(0, 3e9, 120)
    assert cycles(np.arange(120) * SECOND, 180e9 + noise) == 0
    assert cycles(np.arange(120) * SECOND, np.zeros(120)) == 0


def test_falls_at_uneven_times_are_not_periodic() -> None:
    value = np.full(200, 100.0)
    for start in (3, 9, 70, 78, 160):
        value[start : start + 4] = 0.0
    at = np.arange(200, dtype=np.int64) * SECOND
    uneven = cycles(at, value)
    even = np.full(200, 100.0)
    even[5::20] = even[6::20] = 0.0
    assert (uneven, cycles(at, even)) == (1, 10)


def test_both_directions_together_serve_and_what_is_missing_is_absent() -> None:
    link = square(8, 90e9, 10e9)
    assert numbers(samples(nvlink_bytes_per_second=link)) == {"nvlink_cycles": 8.0}
    assert numbers(samples(power_watts=link)) == {}


def test_busy_and_power_that_fall_together() -> None:
    busy = square(6, 0.98, 0.02)
    assert numbers(samples(compute_busy_ratio=busy, power_watts=100 + 500 * busy))["busy_with_power"] == (
        pytest.approx(1.0)
    )


@given(st.lists(st.floats(0, 1e12), min_size=8, max_size=60))
def test_cycles_do_not_depend_on_the_unit(values: list[float]) -> None:
    at = np.arange(len(values), dtype=np.int64) * SECOND
    value = np.round(np.array(values))
    assert cycles(at, value) == cycles(at, value * 1024.0)
    assert 0 <= cycles(at, value) <= len(values) / 2
