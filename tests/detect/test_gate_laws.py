"""Laws: what must hold of the gates for any series."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.detect.array import Judged, judged
from stepscope.detect.kind import EITHER, FEWER, SHARE_DOWN, SLOWER, SeriesKind
from stepscope.detect.series import Verdicts
from stepscope.detect.stream import Gates
from stepscope.model.sample import F64

KINDS = (SLOWER, FEWER, SHARE_DOWN, EITHER)
NUM = 200


@st.composite
def runs(draw: st.DrawFn) -> tuple[F64, np.ndarray]:
    """Four series of one seed with a fault, plateaus, missing and marked points somewhere."""
    random = np.random.default_rng(draw(st.integers(0, 10_000)))
    values = 0.6 * (1 + draw(st.sampled_from((0.002, 0.02, 0.05))) * random.standard_normal((4, NUM)))
    begin, length = draw(st.integers(100, NUM - 20)), draw(st.integers(1, 60))
    values[:, begin : begin + length] *= draw(st.sampled_from((0.5, 0.85, 1.15, 2.0)))
    for first in range(draw(st.integers(0, 40)), NUM, draw(st.integers(40, 60))):
        values[:, first : first + draw(st.integers(1, 10))] *= 1.4
    values[random.random(values.shape) < draw(st.sampled_from((0.0, 0.05)))] = np.nan
    is_clean = random.random(values.shape) >= draw(st.sampled_from((0.0, 0.05)))
    return values, is_clean


def same(one: Verdicts, other: Verdicts, places: tuple[slice | np.ndarray, ...]) -> None:
    for each in fields(Verdicts):
        left, right = getattr(one, each.name)[places], getattr(other, each.name)
        np.testing.assert_array_equal(left, right, err_msg=each.name)


@settings(max_examples=8, deadline=None)
@given(runs(), st.integers(0, 10_000))
def test_pushed_in_any_pieces_a_series_gets_the_verdicts_of_the_whole(
    run: tuple[F64, np.ndarray], seed: int
) -> None:
    values, is_clean = run
    whole = judged(values, is_clean, KINDS)
    random, gates = np.random.default_rng(seed), Gates()
    rows = gates.add(KINDS)
    place = np.zeros(4, dtype=int)
    while (place < NUM).any():
        # Some of the rows, in some order: one series may be far ahead of another.
        some = random.permutation(np.flatnonzero(place < NUM))[: random.integers(1, 5)]
        at = place[some]
        told = gates.push(rows[some], values[some, at], is_clean[some, at], at * 10**9)
        same(whole, told, (some, at))
        place[some] += 1


@settings(max_examples=8, deadline=None)
@given(runs(), st.sampled_from((2.0**-20, 0.5, 4.0, 2.0**30)))
def test_the_unit_does_not_matter(run: tuple[F64, np.ndarray], scale: float) -> None:
    values, is_clean = run
    one, other = judged(values, is_clean, SLOWER), judged(scale * values, is_clean, SLOWER)
    for name in ("severity", "drift", "specified", "is_masked", "onset", "is_new_normal", "effect"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(scale * one.normal, other.normal)


@settings(max_examples=8, deadline=None)
@given(runs())
def test_slower_upside_down_is_fewer(run: tuple[F64, np.ndarray]) -> None:
    values, is_clean = run
    up, down = judged(values, is_clean, SLOWER), judged(-values, is_clean, FEWER)
    for name in ("severity", "drift", "specified", "is_masked", "onset", "is_new_normal"):
        np.testing.assert_array_equal(getattr(up, name), getattr(down, name), err_msg=name)
    np.testing.assert_array_equal(up.effect, -down.effect)


@settings(max_examples=6, deadline=None)
@given(runs(), st.permutations(range(4)))
def test_the_order_of_rows_does_not_matter(run: tuple[F64, np.ndarray], order: list[int]) -> None:
    values, is_clean = run
    plain: Judged = judged(values, is_clean, KINDS)
    kinds: list[SeriesKind] = [KINDS[n] for n in order]
    same(plain, judged(values[order], is_clean[order], kinds), (np.array(order),))
