"""A late rank that moves, by worked marks of two ranks with ordinary noise and a third of the steps free."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from stepscope.model import report
from tests.analyse.marked.made import job, judged


def told(late: Callable[[int], int], base_ms: float, seed: int, num: int = 120) -> report.Report:
    """50 ms of the rank that is late in a step, before forward, in two of three steps."""
    random = np.random.default_rng(seed)
    lines: list[list[str]] = [[], []]
    for step in range(num):
        is_free = random.random() < 1 / 3
        for rank, mine in enumerate(lines):
            forward = max(random.normal(0.4 * base_ms, 0.03 * base_ms), 1.0)
            other = random.lognormal(0, 0.3) + (base_ms if random.random() < 0.03 else 0.0)
            other += 50.0 if late(step) == rank and not is_free else 0.0
            mine.append(f"d1 _{other:.2f} f{forward:.2f} b{0.4 * base_ms:.2f} o{0.1 * base_ms:.2f}")
    return judged(job(lines, jitter_ns=100_000, seed=seed))


@pytest.mark.parametrize("base_ms", [25, 60])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("every", [1, 10])
def test_lateness_that_goes_round_is_called_moving(every: int, seed: int, base_ms: float) -> None:
    found = told(lambda step: step // every % 2, base_ms, seed)
    assert {(row.rank, row.persistence) for row in found.stragglers} == {(0, "moving"), (1, "moving")}
    titles = {each.title for each in found.findings if each.rule == "slow-rank" and each.severity != "info"}
    assert titles == {"Another rank comes late in each step, and the others wait for it"}


@pytest.mark.parametrize("base_ms", [25, 60])
@pytest.mark.parametrize("seed", range(2))
def test_a_rank_that_is_late_in_some_steps_in_a_row_stays_the_one(seed: int, base_ms: float) -> None:
    found = told(lambda step: 1 if 30 <= step < 60 else -1, base_ms, seed)
    assert [(row.rank, row.persistence) for row in found.stragglers] == [(1, "persistent")]


@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_names_nobody(seed: int) -> None:
    assert told(lambda step: -1, 60, seed).stragglers == ()
