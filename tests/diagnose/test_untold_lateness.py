"""A late rank of which nothing recorded says why: the hosts' counters would tell, and the answer asks for
them instead of standing behind it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stepscope.diagnose.straggler import UNTOLD
from stepscope.model import report
from stepscope.rules import load_catalog
from tests.diagnose.build import MS, rank, row, told

LATE = {"straggler_cost_share": 0.3, "is_lateness_untold": 1.0}
WAITS = {"peer_wait_share": 0.3, "transfer_exposed_share": 0.05, "straggler_cost_share": 0.0}
IDLE_HOST = {"host_cpu_busy": 0.2, "host_run_queue_per_core": 0.3}
WHICH = ("host_cpu_busy", "host_run_queue_per_core")


def first(answer: report.Report) -> report.Finding:
    return next(each for each in answer.findings if each.explained_by is None)


def asked(answer: report.Report, rule: str) -> list[tuple[str, ...]]:
    """What is missing of a rule, question by question."""
    return [each.missing for each in answer.undecided if each.rule == rule]


def late(**numbers: float) -> report.Report:
    return told(rank(row(), world_size=8, numbers=LATE | numbers))


def waiting(**numbers: float) -> report.Report:
    return told(rank(row(communication=35 * MS), world_size=8, numbers=WAITS | numbers))


@pytest.mark.parametrize(("make", "rule"), [(late, "slow-rank"), (waiting, "waiting-for-peers")])
def test_without_a_cause_and_without_a_host_the_answer_says_which_counters_would_settle_it(
    make: Callable[..., report.Report], rule: str
) -> None:
    answer = make()
    found = first(answer)
    assert (found.rule, found.confidence, found.severity) == (rule, "low", "warning")
    assert asked(answer, rule) == [WHICH]
    assert "nothing recorded says why, and the counters of the ranks' hosts" in answer.verdict.text
    assert "processor busy, run queue, major faults, throttling of the container" in answer.verdict.text
    assert answer.next is not None
    assert "--telemetry host.prom" in answer.next
    assert any("counters tell" in note for card in answer.cards for note in card.notes)


@pytest.mark.parametrize(("make", "rule"), [(late, "slow-rank"), (waiting, "waiting-for-peers")])
def test_a_host_that_is_known_to_be_at_ease_settles_that_it_is_not_the_host(
    make: Callable[..., report.Report], rule: str
) -> None:
    answer = make(**IDLE_HOST)
    found = first(answer)
    assert (found.rule, found.confidence, found.severity) == (rule, "medium", "critical")
    assert asked(answer, rule) == []
    assert "nothing recorded says why" not in answer.verdict.text
    # Half of it settles nothing: a quota or a queue shows in the other half.
    assert asked(make(host_cpu_busy=0.2), rule) == [WHICH[1:]]


def test_a_rank_that_is_late_by_its_kernels_is_not_asked_for_its_host() -> None:
    answer = late(is_lateness_untold=0.0, matrix_slowdown=1.3)
    assert (first(answer).confidence, first(answer).severity) == ("medium", "critical")
    assert asked(answer, "slow-rank") == [("clocks_of_its_device", "sm_clock_share")]


def test_two_questions_of_one_rule_are_both_told_and_the_first_is_what_to_do_next() -> None:
    answer = late(matrix_slowdown=1.3)
    assert asked(answer, "slow-rank") == [("clocks_of_its_device", "sm_clock_share"), WHICH]
    assert answer.next is not None
    assert "clocks" in answer.next


def test_what_has_a_cause_asks_for_none() -> None:
    """The rank is late by the launches that its host is slow with; and whoever waits, waits for it."""
    kept = rank(row(launch=40 * MS, rank=0), world_size=2, numbers=LATE)
    waits = rank(row(communication=35 * MS, rank=1), world_size=2, numbers=WAITS)
    answer = told(kept, waits)
    assert first(answer).rule == "launch-bound"
    assert {f.rule for f in answer.findings if f.explained_by is not None} >= {
        "slow-rank",
        "waiting-for-peers",
    }
    assert asked(answer, "slow-rank") == asked(answer, "waiting-for-peers") == []
    assert {f.confidence for f in answer.findings} == {"medium"}


def test_of_a_late_rank_and_those_that_wait_only_the_late_one_asks() -> None:
    answer = told(
        rank(row(rank=0), world_size=2, numbers=LATE),
        rank(row(communication=35 * MS, rank=1), world_size=2, numbers=WAITS),
    )
    assert first(answer).rule == "slow-rank"
    assert asked(answer, "slow-rank") == [WHICH]
    assert asked(answer, "waiting-for-peers") == []


def test_reasons_that_say_no_more_than_that_the_host_was_slower_are_those_of_busy_cores() -> None:
    cost = load_catalog(others=())["busy-cores"].cost
    assert cost is not None
    assert {f"idle.{reason}" for reason in UNTOLD} == set(cost.of)
