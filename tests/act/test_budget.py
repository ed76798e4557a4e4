"""Budgets of captures, and the least capture for a question."""

import pytest

from stepscope.act.capture import Budget, Request, Spent, least, refusal
from stepscope.act.capture.budget import HOUR_NS, require
from stepscope.model.error import RefusedError, UsageError
from stepscope.rules import capture as needs
from stepscope.rules.load import load_catalog

NOW = 10 * HOUR_NS


def test_a_budget_that_is_not_used_up_allows_a_capture():
    assert refusal(Budget(captures_per_hour=2), [Spent(NOW - 1)], NOW) is None


@pytest.mark.parametrize(
    ("budget", "spent", "why"),
    [
        (Budget(captures_per_hour=0), [], "0 captures in the last hour, the budget is 0"),
        (Budget(captures_per_hour=1), [Spent(NOW)], "1 captures in the last hour, the budget is 1"),
        (
            Budget(seconds=5),
            [Spent(NOW, seconds=6)],
            "6 seconds of captured steps in the last hour, the budget is 5",
        ),
        (Budget(bytes=9), [Spent(NOW, bytes=10)], "10 bytes of traces in the last hour, the budget is 9"),
        (
            Budget(overhead_ratio=0.01),
            [Spent(NOW, stall_ns=HOUR_NS // 50)],
            "0.02 of the time held up in the last hour, the budget is 0.01",
        ),
    ],
)
def test_over_budget_is_refused_and_said(budget, spent, why):
    assert refusal(budget, spent, NOW) == why
    with pytest.raises(RefusedError, match="no capture: ") as told:
        require(budget, spent, NOW)
    assert told.value.exit_code == 5


def test_what_was_spent_an_hour_ago_no_longer_counts():
    assert refusal(Budget(captures_per_hour=1), [Spent(NOW - HOUR_NS)], NOW) is None


def rules_that_need(*captures):
    return [next(rule for rule in load_catalog().rules.values() if rule.needs is each) for each in captures]


def test_the_least_capture_asks_for_no_flag_that_no_rule_needs():
    assert least(rules_that_need(needs.FEW_STEPS)) == Request(num_steps=4)
    assert least(rules_that_need(needs.SHAPES)) == Request(num_steps=2, flags=frozenset({"shapes"}))
    assert least(rules_that_need(needs.MANY_STEPS)) == Request(num_steps=31, mode="light")


def test_several_rules_are_settled_by_one_capture():
    both = least(rules_that_need(needs.SHAPES, needs.STACKS, needs.FEW_STEPS))
    assert both == Request(num_steps=4, flags=frozenset({"shapes", "stacks"}))


def test_the_rank_that_is_slow_is_enough_unless_a_rule_compares_ranks():
    assert least(rules_that_need(needs.FEW_STEPS), slowest=[3]).ranks == frozenset({3})
    assert least(rules_that_need(needs.FEW_STEPS, needs.ALL_RANKS), slowest=[3]).ranks is None


def test_what_the_profiler_does_not_give_is_not_asked_of_it():
    assert least(rules_that_need(needs.COUNTERS, needs.RUN_LOG, needs.NODES)) is None


def test_rules_may_be_named_as_a_report_names_them():
    catalog = load_catalog()
    ids = ["hidden-sync", "python-stall"]
    assert least(ids) == least(catalog[each] for each in ids)
    assert least(["between-steps"]).flags == frozenset({"stacks"})
    with pytest.raises(UsageError, match="no-such: no rule has this id; stepscope rules lists them"):
        least(["no-such"])
