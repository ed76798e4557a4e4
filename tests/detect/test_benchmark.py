"""A small part of `bench.detection`, and what its figures mean."""

from __future__ import annotations

import numpy as np
import pytest

from bench.detection import begins, bounds, figures, most_events
from bench.noise import NOISES

RUNS = 60


@pytest.mark.parametrize(
    "name", ["autocorrelated (0.6) 2 %", "5 slow first steps", "integer percent, 2.5 points"]
)
def test_the_gate_keeps_what_is_promised_of_60_runs(name: str) -> None:
    noise = next(each for each in NOISES if each.name == name)
    told = figures(noise, RUNS, 777, with_bocd=False)
    gate = told["robust gate"]
    assert gate.num_false / gate.num_points <= 1e-4
    assert bounds(gate.found[1], RUNS)[0] >= 0.92
    if name == "5 slow first steps":
        assert told["specified, as written"].found == (0, 0, 0)
        assert bounds(told["specified, our baseline"].found[1], RUNS)[0] >= 0.9
    if name.startswith("autocorrelated"):
        assert told["specified, as written"].num_false / gate.num_points > 1e-3


def test_an_unmarked_plateau_alarms_twice_at_most_and_faults_are_found() -> None:
    noise = next(each for each in NOISES if each.name.startswith("unmarked"))
    gate = figures(noise, RUNS, 777, with_bocd=False)["robust gate"]
    assert gate.per_run.max() <= 2
    assert gate.late == 0
    assert bounds(gate.found[1], RUNS)[0] >= 0.92


def test_an_alarm_that_was_off_for_less_than_8_points_has_not_begun_again() -> None:
    holds = np.zeros((1, 40), dtype=bool)
    holds[0, [3, 4, 10, 30]] = True
    assert np.flatnonzero(begins(holds)[0]).tolist() == [3, 30]


@pytest.mark.parametrize(
    ("num", "of", "low", "high"),
    [(0, 10, 0.0, 0.3085), (5, 10, 0.1871, 0.8129), (400, 400, 0.9908, 1.0)],
)
def test_bounds_are_those_of_clopper_and_pearson(num: int, of: int, low: float, high: float) -> None:
    assert bounds(num, of) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(("num", "most"), [(0, 3.689), (3, 8.767), (100, 121.63)])
def test_the_upper_bound_of_a_count_is_poissons(num: int, most: float) -> None:
    assert most_events(num, 10_000) == pytest.approx(most, abs=0.01)
