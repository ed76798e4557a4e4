"""Slices on lanes: each is kept once, and what is on one lane nests."""

from __future__ import annotations

from array import array

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.views.perfetto.lane import MAX_NESTED, placed


def lanes(*slices: tuple[int, int]) -> list[list[int]]:
    start, end = (np.array(column, dtype=np.int64) for column in zip(*slices, strict=True))
    return [lane.tolist() for lane in placed(start, end)]


def test_nested_slices_share_a_lane_and_the_longer_is_outside() -> None:
    assert lanes((0, 4), (0, 10), (5, 9)) == [[1, 0, ~0, 2, ~2, ~1]]


def test_an_end_comes_before_a_begin_of_the_same_time() -> None:
    assert lanes((0, 10), (10, 20)) == [[0, ~0, 1, ~1]]


def test_an_overlap_without_nesting_takes_a_second_lane() -> None:
    assert lanes((0, 10), (5, 15), (10, 20)) == [[0, ~0, 2, ~2], [1, ~1]]


def test_slices_without_length_nest_where_one_is_open_and_follow_where_it_has_ended() -> None:
    assert lanes((0, 10), (0, 0), (10, 10), (10, 10)) == [[0, 1, ~1, ~0, 2, ~2, 3, ~3]]


def test_nothing_takes_no_lane() -> None:
    assert placed(np.zeros(0, np.int64), np.zeros(0, np.int64)) == []


def test_a_staircase_of_overlaps_takes_few_comparisons() -> None:
    """40,000 slices that all overlap their neighbours: quadratic work would not end in a day."""
    start = np.arange(40_000, dtype=np.int64)
    found = placed(start, start + 20_000)
    assert len(found) == 20_000
    assert sum(map(len, found)) == 80_000


SLICES = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 30)).map(lambda s: (s[0], s[0] + s[1])), max_size=60
)


@given(SLICES)
def test_every_slice_is_on_one_lane_and_each_lane_nests(slices: list[tuple[int, int]]) -> None:
    start = np.array([a for a, _ in slices], dtype=np.int64)
    end = np.array([b for _, b in slices], dtype=np.int64)
    found = placed(start, end)
    begun = sorted(i for lane in found for i in lane if i >= 0)
    assert begun == list(range(len(slices)))
    for lane in found:
        check_lane(lane, slices)
    assert len(found) <= max(len(slices), MAX_NESTED)


def check_lane(lane: array[int], slices: list[tuple[int, int]]) -> None:
    now, stack = -1, []
    for event in lane:
        at = slices[event][0] if event >= 0 else slices[~event][1]
        assert at >= now
        now = at
        if event >= 0:
            assert not stack or slices[event][1] <= slices[stack[-1]][1]
            stack.append(event)
        else:
            assert stack.pop() == ~event
    assert not stack
