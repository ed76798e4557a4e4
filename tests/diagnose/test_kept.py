"""What keeps its peers, step by step, accounts for a rank's waiting; what keeps all alike does not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stepscope.diagnose.kept import WAITS, keeps, kept_ns
from stepscope.rules import load_catalog

RULES = load_catalog().rules
LAUNCH, LOADER = RULES["launch-bound"], RULES["input-starvation"]


def row(*launch_ns: int, input_ns: int = 0) -> Any:
    """A rank that waits so long for launches in steps 0, 1, …, and for its loader in each."""
    by_step = {n: {"idle.launch_ns": ns, "idle.input_ns": input_ns} for n, ns in enumerate(launch_ns)}
    return SimpleNamespace(observed=SimpleNamespace(device=SimpleNamespace(by_step=by_step)))


def test_peers_that_are_kept_in_turns_account_for_the_waiting_of_both_turns() -> None:
    """10 + 0 of one and 0 + 20 of the other: 30, of which neither alone has more than 20."""
    assert kept_ns(row(0, 0), [(row(10, 0), LAUNCH), (row(0, 20), LAUNCH)]) == 30


def test_peers_that_are_kept_at_once_are_waited_for_once() -> None:
    assert kept_ns(row(0, 0), [(row(10, 0), LAUNCH), (row(8, 0), LAUNCH)]) == 10


def test_what_keeps_the_waiting_rank_as_long_is_no_reason_to_wait() -> None:
    assert kept_ns(row(10, 10), [(row(10, 12), LAUNCH)]) == 2
    assert kept_ns(row(30, 30), [(row(10, 12), LAUNCH)]) == 0


def test_two_causes_of_one_peer_add_up_and_a_step_of_one_rank_alone_says_nothing() -> None:
    assert kept_ns(row(0), [(peer := row(10, 99, input_ns=5), LAUNCH), (peer, LOADER)]) == 15


def test_only_idle_time_of_its_own_keeps_a_rank() -> None:
    kept = {rule.id for rule in RULES.values() if keeps(rule)}
    assert {"launch-bound", "input-starvation", "hidden-sync", "garbage-collection"} <= kept
    # A lowered clock is no idle time, a late rank no cause, and waiting keeps nobody for himself.
    assert not kept & {"locked-clock", "slow-rank", "waiting-for-peers", "exposed-communication"}
    assert set(RULES) >= WAITS
