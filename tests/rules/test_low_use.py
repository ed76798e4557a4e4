"""Low use of a device has six explanations, and of those exactly one answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyse.features import telemetry as t
from stepscope.model.feature import Facts, Feature
from stepscope.rules import judge, load_catalog
from stepscope.rules.rule import Clear, Finding, Undecided

CATALOG = load_catalog(others=())
FAMILY = (
    "idle-in-checkpoint",
    "idle-in-evaluation",
    "initialising",
    "idle-device",
    "sparse-bursts",
    "dead-job",
)
QUIET = (t.quiet_in_checkpoint, t.quiet_in_eval, t.quiet_before_steps, t.quiet_while_stepping)
SHARES = st.floats(0, 1)
FACTS = st.fixed_dictionaries(
    {
        **dict.fromkeys((*QUIET, t.compute_busy_five_minutes, t.quiet_five_minutes), SHARES),
        t.busy_below_peers: st.floats(-1, 1),
        t.seconds_without_step: st.floats(0, 7200),
    }
)


def answering(facts: dict[Feature, float]) -> list[str]:
    return [name for name in FAMILY if isinstance(judge(CATALOG[name], Facts(facts)), Finding)]


@given(FACTS)
def test_never_do_two_explanations_answer_at_once(facts: dict[Feature, float]) -> None:
    assert len(answering(facts)) <= 1


@given(FACTS)
def test_a_device_that_is_used_needs_no_explanation(facts: dict[Feature, float]) -> None:
    facts[t.compute_busy_five_minutes] = max(facts[t.compute_busy_five_minutes], 0.0501)
    facts[t.quiet_five_minutes] = min(facts[t.quiet_five_minutes], 0.4999)
    assert answering(facts) == []


NO_PAUSE = {t.quiet_in_checkpoint: 0.0, t.quiet_in_eval: 0.0, t.quiet_before_steps: 0.0}
DEAD = {
    t.compute_busy_five_minutes: 0.04,
    t.quiet_five_minutes: 1.0,
    t.quiet_while_stepping: 0.0,
    t.seconds_without_step: 1800.0,
    t.busy_below_peers: 0.0,
    **NO_PAUSE,
}
"""What a job that is dead looks like to the counters: a constant 4 %, which is another process's."""


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({}, "dead-job"),
        ({t.quiet_while_stepping: 1.0, t.seconds_without_step: 2.0}, "sparse-bursts"),
        ({t.busy_below_peers: 0.95}, "idle-device"),
        ({t.quiet_in_checkpoint: 0.9}, "idle-in-checkpoint"),
        ({t.quiet_in_checkpoint: 0.9, t.busy_below_peers: 0.95}, "idle-in-checkpoint"),
        ({t.quiet_in_eval: 0.9}, "idle-in-evaluation"),
        ({t.quiet_before_steps: 1.0}, "initialising"),
    ],
)
def test_the_same_low_use_is_told_apart_by_progress_and_peers(
    change: dict[Feature, float], answer: str
) -> None:
    assert answering(DEAD | change) == [answer]


PARTLY = {t.compute_busy_five_minutes: 0.184, t.quiet_five_minutes: 0.8}
"""A minute of work and four of rest: a mean of 18 %."""


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({t.quiet_in_checkpoint: 1.0}, ["idle-in-checkpoint"]),
        ({t.quiet_in_eval: 1.0}, ["idle-in-evaluation"]),
        ({t.quiet_before_steps: 1.0}, ["initialising"]),
        # Two minutes of each: one of them speaks.
        ({t.quiet_in_checkpoint: 0.5, t.quiet_in_eval: 0.5}, ["idle-in-checkpoint"]),
        # What no log accounts for is no-progress's, which asks for the time since the last step.
        ({}, []),
        ({t.quiet_in_checkpoint: 1.0, t.quiet_five_minutes: 0.49}, []),
    ],
)
def test_five_minutes_of_which_most_are_rest_are_explained_by_what_filled_the_rest(
    change: dict[Feature, float], answer: list[str]
) -> None:
    assert answering(DEAD | PARTLY | change) == answer


def test_low_use_alone_is_no_dead_job() -> None:
    """Without a log nobody knows whether steps go on: every explanation stays open."""
    low = {t.compute_busy_five_minutes: 0.04, t.quiet_five_minutes: 1.0}
    outcomes = [judge(CATALOG[name], Facts(low)) for name in FAMILY]
    assert all(isinstance(outcome, Undecided) for outcome in outcomes)


def test_a_dead_job_shows_whose_the_little_use_may_be() -> None:
    found = judge(CATALOG["dead-job"], Facts(DEAD | {t.num_foreign_processes: 1.0}))
    assert isinstance(found, Finding)
    assert {e.feature: e.value for e in found.evidence}["num_foreign_processes"] == 1.0
    # And with all excuses checked two layers, counters and log, agree.
    assert found.confidence == "high"


SPINNING = {
    t.seconds_without_step: 10800.0,
    t.missed_log_lines: 90.0,
    t.compute_busy_mean: 1.0,
    t.power_limit_share: 0.22,
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, "spins in a collective"),
        ({t.log_collective_timeouts: 1.0}, "a watchdog ended a collective"),
        ({t.compute_busy_mean: 0.01}, "the device does nothing"),
        ({t.power_limit_share: 0.9}, "makes no steps any more"),
        # Of a long run the mean is of its steps: what counts is what the device does since.
        (
            {t.power_limit_share: 0.9, t.standstill_busy_mean: 1.0, t.standstill_power_ratio: 0.26},
            "spins in a collective",
        ),
        ({t.power_limit_share: 0.9, t.standstill_busy_mean: 0.0}, "the device does nothing since"),
    ],
)
def test_a_standstill_is_told_by_what_the_device_does_meanwhile(
    change: dict[Feature, float], says: str
) -> None:
    found = judge(CATALOG["no-progress"], Facts(SPINNING | change))
    assert isinstance(found, Finding)
    assert says in found.title.en
    # Which rank the others wait for, no counter tells.
    assert not found.is_settled


def test_busy_and_power_without_a_log_are_no_standstill() -> None:
    outcome = judge(CATALOG["no-progress"], Facts({t.compute_busy_mean: 1.0, t.power_limit_share: 0.22}))
    assert isinstance(outcome, Undecided)
    done = judge(CATALOG["no-progress"], Facts(SPINNING | {t.silent_in_eval: 0.9}))
    assert isinstance(done, Clear)
