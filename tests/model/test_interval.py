"""Laws of interval sets, against sets of integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.model.interval import (
    Intervals,
    gaps,
    intersect,
    join,
    overlap_ns,
    pairs,
    subtract,
    union,
)

raw = st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 12)), max_size=12)


def columns(items: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    start = np.array([s for s, _ in items], dtype=np.int64)
    return start, start + np.array([d for _, d in items], dtype=np.int64)


def as_set(i: Intervals) -> set[int]:
    return {t for a, b in zip(i.start.tolist(), i.end.tolist(), strict=True) for t in range(a, b)}


def points(items: list[tuple[int, int]]) -> set[int]:
    return {t for s, d in items for t in range(s, s + d)}


def is_proper(i: Intervals) -> bool:
    """Sorted, disjoint, never empty."""
    return bool((i.end > i.start).all() and (i.start[1:] >= i.end[:-1]).all())


@given(raw)
def test_union_covers_what_its_parts_cover(items: list[tuple[int, int]]) -> None:
    found = union(*columns(items))
    assert is_proper(found)
    assert as_set(found) == points(items)
    assert found.total_ns == len(points(items))


@given(raw, raw)
def test_set_operations_are_set_operations(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    x, y = union(*columns(a)), union(*columns(b))
    for found, expected in (
        (intersect(x, y), points(a) & points(b)),
        (subtract(x, y), points(a) - points(b)),
        (join(x, y), points(a) | points(b)),
        (gaps(x, 5, 40), set(range(5, 40)) - points(a)),
    ):
        assert is_proper(found)
        assert as_set(found) == expected


@given(raw, raw)
def test_overlap_of_each_interval_is_counted_alone(
    a: list[tuple[int, int]], b: list[tuple[int, int]]
) -> None:
    start, end = columns(a)
    found = overlap_ns(start, end, union(*columns(b)))
    assert found.tolist() == [len(points([item]) & points(b)) for item in a]


@given(raw, raw)
def test_pairs_are_all_overlaps_in_order(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    start, end = columns(a)
    other = union(*columns(b))
    first, second, low, high = pairs(start, end, other.start, other.end)
    expected = [
        (i, j, max(s, os), min(e, oe))
        for i, (s, e) in enumerate(zip(start.tolist(), end.tolist(), strict=True))
        for j, (os, oe) in enumerate(zip(other.start.tolist(), other.end.tolist(), strict=True))
        if e > s and max(s, os) < min(e, oe)
    ]
    assert list(zip(first.tolist(), second.tolist(), low.tolist(), high.tolist(), strict=True)) == expected


def test_touching_intervals_are_one() -> None:
    found = union(np.array([0, 10]), np.array([10, 20]))
    assert (found.start.tolist(), found.end.tolist()) == ([0], [20])
