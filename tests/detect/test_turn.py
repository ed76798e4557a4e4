"""Turns of lateness: who is late changes, or does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.detect.turn import takes_turns


def late(owner: list[int], num_ranks: int) -> np.ndarray:
    """One millisecond of the owner of each step, of nobody where that is -1."""
    return np.array([[float(own == rank) for own in owner] for rank in range(num_ranks)])


@pytest.mark.parametrize(
    ("owner", "num_ranks", "moves"),
    [
        ([0] * 10 + [1] * 10 + [0] * 10 + [1] * 10, 2, True),
        ([0, -1, 1] * 10, 2, True),
        ([n // 10 for n in range(80)], 8, True),
        ([1] * 30 + [-1] * 30, 2, False),
        # One fault after the other, and a hiccup in each.
        ([0] * 20 + [1] + [0] * 10 + [1] * 20 + [0] + [1] * 10, 2, False),
        # One rank at times, and a few steps of the other.
        ([1, -1, 1, -1, 1, 0] * 10, 2, False),
        # Two of eight, now and then: they are the ones.
        ([3, 5] * 30, 8, False),
        ([0, 1], 2, False),
        ([], 2, False),
    ],
)
def test_lateness_takes_turns_where_no_rank_and_no_two_spells_explain_it(
    owner: list[int], num_ranks: int, moves: bool
) -> None:
    assert takes_turns(late(owner, num_ranks)) is moves


def test_ranks_that_are_late_side_by_side_take_no_turns() -> None:
    assert not takes_turns(np.ones((2, 40)))


@given(st.lists(st.integers(-1, 2), max_size=60), st.permutations(range(3)), st.floats(0.1, 1e9))
def test_neither_the_names_of_ranks_nor_the_unit_matter(
    owner: list[int], order: list[int], unit: float
) -> None:
    weight = late(owner, 3)
    assert takes_turns(weight) is takes_turns(weight[order] * unit)
