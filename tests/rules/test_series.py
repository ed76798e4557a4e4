"""The series notation."""

from __future__ import annotations

import pytest

from tests.rules.series import outcomes, series


def test_a_series_repeats_values_and_marks_what_is_missing() -> None:
    assert series("0.95x2 _x3 0.5") == [0.95, 0.95, None, None, None, 0.5]


def test_outcomes_are_words_in_the_same_notation() -> None:
    assert outcomes("clearx2 finding") == ["clear", "clear", "finding"]


@pytest.mark.parametrize("bad", ["0.5x0", "x3", "0,5", "0.5 x3"])
def test_what_is_no_series_is_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="is wanted"):
        series(bad)
