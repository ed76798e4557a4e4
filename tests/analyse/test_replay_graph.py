"""Longest paths: worked examples, and a brute-force check on random graphs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.replay.graph import CycleError, critical_edges, graph, play


def test_an_event_happens_when_the_last_of_what_it_waits_for_has():
    made = graph(4, [0, 0, 1, 2], [1, 2, 3, 3])
    weights = np.array([[10, 20, 5, 1], [10, 2, 5, 1]])
    assert play(made, weights).tolist() == [[0, 10, 20, 21], [0, 10, 2, 15]]
    value = play(made, weights)
    assert critical_edges(made, weights[0], value[0], 3).tolist() == [1, 3]
    assert critical_edges(made, weights[1], value[1], 3).tolist() == [0, 2]


def test_a_node_may_begin_by_itself():
    made = graph(2, [0], [1])
    value = play(made, [3], [0, 100])
    assert value.tolist() == [[0, 100]]
    assert critical_edges(made, np.array([3]), value[0], 1).tolist() == []


def test_a_circle_is_refused():
    with pytest.raises(CycleError, match="2 of 3"):
        graph(3, [0, 1, 2], [1, 2, 1])


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(0, 50)), max_size=40),
)
def test_it_equals_the_longest_path_by_hand(num, edges):
    edges = [(a % num, b % num, w) for a, b, w in edges if a % num < b % num]
    made = graph(num, [a for a, _, _ in edges], [b for _, b, _ in edges])
    got = play(made, np.array([[w for _, _, w in edges]], dtype=np.int64))[0]
    by_hand = [0] * num
    for node in range(num):
        incoming = [by_hand[a] + w for a, b, w in edges if b == node]
        by_hand[node] = max(incoming, default=0)
    assert got.tolist() == by_hand
