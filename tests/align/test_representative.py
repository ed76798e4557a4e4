"""Whether a traced window is called like the rest, and how often wrongly."""

from __future__ import annotations

import numpy as np
import pytest

from stepscope.align.representative import representative
from stepscope.model.interval import single
from stepscope.model.sample import Series
from tests.align.telemetry import DEVICE, EPOCH, SECOND

HOUR = 3600
WINDOW = (EPOCH + 1800 * SECOND, EPOCH + 1860 * SECOND)


def hour(seed: int, level: float, inside: float, noise: float, signal: str, every: int = 1) -> Series:
    """An hour of readings with another level in the window of a minute in its middle."""
    rng = np.random.default_rng(seed)
    at = EPOCH + SECOND * np.arange(0, HOUR, every, dtype=np.int64)
    is_in = (at >= WINDOW[0]) & (at < WINDOW[1])
    return Series(signal, DEVICE, at, np.where(is_in, inside, level) + rng.normal(0.0, noise, len(at)))


def test_a_window_like_the_rest_is_representative() -> None:
    said = representative({"sm_active_ratio": hour(1, 0.8, 0.8, 0.05, "sm_active_ratio")}, WINDOW)
    assert said.status == "yes"
    assert said.why == "As in the rest of the run: sm_active_ratio."
    (one,) = said.signals
    assert (one.samples, one.windows) == (60, 59)
    assert one.inside == pytest.approx(0.8, abs=0.02)


def test_a_window_that_is_twenty_points_lower_is_not() -> None:
    said = representative({"sm_active_ratio": hour(1, 0.8, 0.6, 0.05, "sm_active_ratio")}, WINDOW)
    assert said.status == "no"
    assert said.why.startswith("sm_active_ratio 6")
    assert "in the rest" in said.why


def test_a_difference_that_is_sure_and_small_is_no_matter() -> None:
    said = representative({"sm_active_ratio": hour(1, 0.80, 0.75, 0.005, "sm_active_ratio")}, WINDOW)
    assert said.status == "yes"


@pytest.mark.parametrize(("inside", "status"), [(470.0, "yes"), (380.0, "no"), (590.0, "no")])
def test_ten_percent_of_power_matters(inside: float, status: str) -> None:
    said = representative({"power_watts": hour(2, 500.0, inside, 10.0, "power_watts")}, WINDOW)
    assert said.status == status


def test_tokens_per_second_of_a_log_count_too() -> None:
    rate = hour(3, 41_000.0, 30_000.0, 500.0, "tokens_per_second", every=7)
    said = representative({"tokens_per_second": rate}, WINDOW)
    assert said.status == "no"
    assert said.why.startswith("tokens_per_second 30,")


def test_two_readings_in_the_window_tell_nothing() -> None:
    said = representative({"sm_active_ratio": hour(1, 0.8, 0.2, 0.05, "sm_active_ratio", every=30)}, WINDOW)
    assert (said.status, said.why) == ("unknown", "2 readings lie in the window; 3 are needed.")


def test_a_window_of_most_of_what_there_is_has_no_rest() -> None:
    series = {"sm_active_ratio": hour(1, 0.8, 0.8, 0.05, "sm_active_ratio")}
    said = representative(series, (EPOCH + 600 * SECOND, EPOCH + 3000 * SECOND))
    assert said.status == "unknown"
    assert "windows of equal length lie outside; 10 are needed" in said.why


def test_a_gap_outside_is_no_idle_window() -> None:
    whole = hour(1, 0.8, 0.8, 0.02, "sm_active_ratio")
    kept = (whole.at_ns < EPOCH + 100 * SECOND) | (whole.at_ns > EPOCH + 1500 * SECOND)
    holed = Series(whole.signal, DEVICE, whole.at_ns[kept], whole.value[kept])
    said = representative({"sm_active_ratio": holed}, WINDOW)
    assert said.status == "yes"
    assert said.signals[0].low == pytest.approx(0.8, abs=0.02)


def test_time_before_the_job_is_not_the_rest_of_the_run() -> None:
    late = hour(1, 0.8, 0.8, 0.02, "sm_active_ratio")
    value = np.where(late.at_ns < EPOCH + 1790 * SECOND, 0.0, late.value)
    value[late.at_ns > EPOCH + 1870 * SECOND] = 0.0
    series = {"sm_active_ratio": Series(late.signal, DEVICE, late.at_ns, value)}
    assert representative(series, WINDOW).status == "no"
    run = single(EPOCH + 1790 * SECOND, EPOCH + 1870 * SECOND)
    assert representative(series, WINDOW, during=run).status == "unknown"


def test_a_mask_or_a_temperature_is_not_compared() -> None:
    said = representative({"xid": hour(1, 0.0, 79.0, 0.0, "xid")}, WINDOW)
    assert (said.status, said.signals) == ("unknown", ())


def test_of_windows_that_are_alike_about_one_in_twenty_is_called_different() -> None:
    called = 0
    for seed in range(200):
        # Swings of thirty points that last minutes: effects are there, and they are ordinary.
        rng = np.random.default_rng(seed)
        at = EPOCH + SECOND * np.arange(0, HOUR, dtype=np.int64)
        level = np.repeat(rng.uniform(0.5, 0.8, HOUR // 90), 90)
        series = {
            f"gpu {n}": Series("sm_active_ratio", DEVICE, at, level + rng.normal(0, 0.03, HOUR))
            for n in range(4)
        }
        start = EPOCH + int(rng.integers(600, 3000)) * SECOND
        called += representative(series, (start, start + 60 * SECOND)).status == "no"
    assert called / 200 < 0.08
