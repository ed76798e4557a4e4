"""Features and clauses."""

from __future__ import annotations

import pytest

from stepscope.model.feature import Clause, Facts, Feature

share = Feature("some_share", "ratio", "A share.", lambda observed: None)
other = Feature("other_share", "ratio", "Another.", lambda observed: None)


def test_comparing_a_feature_makes_a_clause() -> None:
    assert (share >= 0.1) == Clause(share, ">=", 0.1)
    assert (share >= 0.1) == Clause(share, ">=", 0.1)
    assert (share < 1) == Clause(share, "<", 1.0)
    assert str(share > 0.25) == "some_share > 0.25"


def test_a_double_comparison_says_what_to_write_instead() -> None:
    with pytest.raises(TypeError, match=r"write two clauses, \(some_share >= a, some_share <= b\)"):
        0.1 <= share <= 0.2  # noqa: B015


def test_and_or_and_if_on_clauses_are_refused() -> None:
    with pytest.raises(TypeError, match="an `or` is two rules"):
        _ = (share >= 0.1) or (other >= 0.1)
    with pytest.raises(TypeError, match="compare it with a number"):
        bool(share)


@pytest.mark.parametrize("value", [True, "0.1", float("nan"), float("inf"), None])
def test_a_threshold_is_a_finite_number(value: object) -> None:
    with pytest.raises(TypeError, match="finite number"):
        share >= value  # type: ignore[operator] # noqa: B015


def test_two_features_cannot_be_compared() -> None:
    with pytest.raises(TypeError, match="a feature of its own"):
        share >= other  # type: ignore[operator] # noqa: B015


@pytest.mark.parametrize(
    ("clause", "holds"),
    [(share >= 0.1, True), (share <= 0.1, True), (share > 0.1, False), (share < 0.1, False)],
)
def test_a_clause_at_its_threshold(clause: Clause, holds: bool) -> None:
    assert clause.holds(0.1) is holds


def test_a_clause_on_an_absent_fact_is_neither_true_nor_false() -> None:
    assert (share >= 0.1).known(Facts({other: 1.0})) is None
    assert (share >= 0.1).known(Facts({share: 0.0})) is False
