"""Which causes explain which alarms."""

from __future__ import annotations

import pytest

from stepscope.rules import load_catalog
from stepscope.server.judge.relation import FAMILIES, explains, family_of

CATALOG = load_catalog()


@pytest.mark.parametrize(
    ("rule", "condition", "level", "is_so"),
    [
        ("thermal-throttle", "clock-thermal", "resource", True),
        ("thermal-throttle", "rank-slow", "performance", True),
        ("thermal-throttle", "step-slow", "performance", True),
        ("input-starvation", "data-wait-up", "performance", True),
        ("input-starvation", "communication-up", "performance", False),
        ("input-starvation", "clock-thermal", "resource", False),
        ("slow-rank", "data-wait-up", "performance", False),
        ("device-fault", "hang", "task", True),
        ("device-fault", "xid", "resource", True),
        ("compute-bound", "step-slow", "performance", False),
        ("memory-leak", "memory-growing", "resource", True),
    ],
)
def test_a_cause_explains_what_follows_from_it_alone(
    rule: str, condition: str, level: str, is_so: bool
) -> None:
    assert explains(rule, CATALOG[rule].verdict, condition, level) is is_so  # type: ignore[arg-type]


def test_no_condition_is_of_two_families() -> None:
    named = [condition for family in FAMILIES for condition in family.conditions]
    assert len(named) == len(set(named))


def test_a_condition_that_is_not_in_the_table_is_taken_by_its_level() -> None:
    assert family_of("new-one", "performance").name == "steps"
    assert family_of("new-one", "task").asks == "stacks"
    assert family_of("new-one", "resource").asks == "nothing"


def test_every_condition_of_the_table_of_alerts_has_its_family() -> None:
    table = pytest.importorskip("stepscope.detect.alert.table", reason="no table of alerts here")
    named = {condition for family in FAMILIES for condition in family.conditions}
    assert {row.id for row in table.TABLE if row.pages} <= named
