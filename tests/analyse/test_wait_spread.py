"""How unevenly ranks come to their collectives, against what a made job truly did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stepscope.analyse.joined import join
from stepscope.analyse.wait_spread import wait_spread_ns
from stepscope.model.peer import StepTable
from tests.align.made import Job, make


def test_it_is_the_sum_of_what_lies_between_the_first_and_the_last_coming() -> None:
    made = make(Job(4, seed=1, late_rank=2, late_ns=3_000_000, offset_ns=0))
    joined = join(made.tables)
    true = sum(skew for _, skew in made.waits.values())
    for place in range(4):
        found = wait_spread_ns(joined, place)
        assert found == pytest.approx(true, rel=0.02)


@pytest.mark.parametrize("late_rank", [0, 3])
def test_clocks_that_differ_by_milliseconds_change_nothing(late_rank: int) -> None:
    made = make(Job(4, seed=1, late_rank=late_rank, late_ns=3_000_000, offset_ns=5_000_000))
    joined = join(made.tables)
    true = sum(skew for _, skew in made.waits.values())
    for place in range(4):
        assert wait_spread_ns(joined, place) == pytest.approx(true, rel=0.02)


def test_only_the_windows_count_and_they_are_on_the_ranks_own_clock() -> None:
    """Steps 3 to 5 of a rank whose clock is 4 s ahead of the others'."""
    job = Job(3, seed=8, late_rank=1, late_ns=3_000_000, offset_ns=4_000_000_000)
    made = make(job)
    tables = [
        replace(
            table,
            steps=StepTable(
                table.steps.number[3:6],
                table.steps.start_ns[3:6],
                table.steps.end_ns[3:6],
                table.steps.window_start_ns[3:6],
                table.steps.window_end_ns[3:6],
                table.steps.is_counted[3:6],
            ),
        )
        for table in made.tables
    ]
    true = sum(skew for at, (_, skew) in made.waits.items() if 3 <= at // job.per_step < 6)
    joined = join(tables)
    for place in range(3):
        assert wait_spread_ns(joined, place) == pytest.approx(true, rel=0.02)


def test_even_ranks_have_next_to_none() -> None:
    job = Job(4, seed=2, jitter=0.0)
    joined = join(make(job).tables)
    found = wait_spread_ns(joined, 0)
    assert found is not None
    assert found < 0.01 * job.num_steps * job.step_ns


def test_it_is_unknown_without_steps_without_calls_and_where_a_rank_lacks() -> None:
    stepless = join(make(Job(3, seed=3, steps=False)).tables)
    assert wait_spread_ns(stepless, 0) is None
    tables = make(Job(4, seed=4)).tables
    partial = join(tables[:3])
    assert wait_spread_ns(partial, 0) is None
    assert len(np.unique([table.rank for table in tables])) == 4


def test_it_is_never_more_than_the_windows() -> None:
    for seed in range(5):
        made = make(Job(6, seed=seed, groups=[[0, 1, 2], [3, 4, 5], [0, 3]], jitter=0.3, drop=0.02))
        joined = join(made.tables)
        for place, table in enumerate(made.tables):
            found = wait_spread_ns(joined, place)
            whole = int((table.steps.window_end_ns - table.steps.window_start_ns).sum())
            assert found is None or 0 <= found <= whole
