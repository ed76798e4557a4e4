"""Changes that become the rule, and how late."""

from __future__ import annotations

import numpy as np

from stepscope.detect.array import judged
from stepscope.detect.kind import SLOWER
from stepscope.detect.regime import LASTING, LASTING_NS, SETTLED
from stepscope.detect.stream import Gates
from stepscope.model.sample import F64

SECOND = 10**9


def noisy(num: int) -> F64:
    return 1 + 0.02 * np.random.default_rng(4).standard_normal(num)


def test_a_change_for_the_better_is_learned_and_a_fault_of_what_was_won_is_found() -> None:
    values = noisy(1000)
    values[200:] *= 0.7
    values[800:] *= 1.15  # still below the first normal
    told = judged(values, np.ones(1000, dtype=bool), SLOWER)
    new = np.flatnonzero(told.is_new_normal[0])
    assert new.tolist() == [200 + SETTLED + 3] or (len(new) == 1 and 200 + SETTLED <= new[0] <= 460)
    assert abs(told.normal[0, 700] - 0.7) < 0.01
    assert not told.severity[0, :800].any()
    assert told.severity[0, 850] == 2


def test_a_short_change_for_the_better_is_no_new_normal() -> None:
    values = noisy(600)
    values[200 : 200 + SETTLED // 2] *= 0.7
    assert not judged(values, np.ones(600, dtype=bool), SLOWER).is_new_normal.any()


def test_a_change_for_the_worse_is_an_alarm_for_two_hours_before_it_is_the_rule() -> None:
    values = noisy(1600)
    values[200:] *= 1.2
    values[1300:] *= 1.2
    at = np.arange(1600, dtype=np.int64) * 10 * SECOND
    told = judged(values, np.ones(1600, dtype=bool), SLOWER, at)
    new = int(np.flatnonzero(told.is_new_normal[0])[0])
    assert at[new] - at[205] >= LASTING_NS
    assert new - 205 >= LASTING
    assert (told.severity[0, 210:new] >= 2).all()
    assert told.severity[0, new] == 0
    assert abs(told.normal[0, 1250] - 1.2) < 0.02
    assert told.severity[0, 1350] == 2


def test_reset_learns_anew_with_its_own_warm_up_and_numbers_go_on() -> None:
    gates = Gates()
    rows = gates.add([SLOWER, SLOWER])
    clean = np.ones(2, dtype=bool)
    values = noisy(400)
    for n in range(200):
        gates.push(rows, np.full(2, values[n]), clean, n * SECOND)
    gates.reset(rows[1:])
    for n in range(200, 400):
        told = gates.push(rows, np.full(2, 1.4 * values[n]), clean, n * SECOND)
        if n == 308:
            assert told.is_learned.tolist() == [True, False]
    assert told.severity.tolist() == [3, 0]
    assert told.onset[0] == 200
