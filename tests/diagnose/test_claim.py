"""Claims never exceed what exists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model import report
from tests.diagnose.build import MS, rank, row, told

_CAUSES = (
    "input",
    "preprocess",
    "host_sync",
    "copy_wait",
    "allocator",
    "launch",
    "queued",
    "unknown",
    "python",
    "gc",
    "checkpoint",
)
_SHARES = (
    "queued_or_unlaunched_idle_share",
    "periodic_stall_share",
    "small_of_communication_share",
    "repeated_sync_part",
    "bus_bandwidth_link_share",
    "pageable_upload_share",
)
_part = st.integers(0, 20 * MS)


@settings(max_examples=150, deadline=None)
@given(
    communication=_part,
    copy=_part,
    idle=st.fixed_dictionaries(dict.fromkeys(_CAUSES, _part)),
    compute=_part,
    shares=st.fixed_dictionaries(dict.fromkeys(_SHARES, st.floats(0, 1))),
    python_stall=st.floats(0, 1),
)
def test_claims_of_one_device_never_exceed_its_time(
    communication: int,
    copy: int,
    idle: dict[str, int],
    compute: int,
    shares: dict[str, float],
    python_stall: float,
) -> None:
    total = communication + copy + sum(idle.values()) + compute
    if total == 0:
        return
    answer = told(
        rank(
            row(total=total, communication=communication, copy=copy, **idle),
            numbers={
                **shares,
                "python_stall_ns": python_stall * idle["python"],
                "gradient_syncs_per_update": 4.0,
            },
        )
    )
    claimed = [finding.cost for finding in answer.findings if finding.cost is not None]
    assert sum(cost.time_ns for cost in claimed) <= total
    of_links = [cost.time_ns for cost in claimed if cost.of == "communication_exposed"]
    assert sum(of_links) <= communication
    gains = [
        remedy.gain_share
        for finding in answer.findings
        for remedy in finding.remedies
        if remedy.gain_share is not None
    ]
    assert all(0 <= least <= most <= 1 for least, most in gains)


def test_regularly_slow_steps_claim_only_what_the_loader_has_not_claimed() -> None:
    """Ten steps of 10 ms, two of them 20 ms longer, of which the loader explains 15 ms each."""
    usual = {"total_ns": 10 * MS, "idle.input_ns": 0}
    slow = {"total_ns": 30 * MS, "idle.input_ns": 15 * MS}
    by_step = {number: slow if number in (4, 8) else usual for number in range(10)}
    variation = report.Variation(median_ns=10 * MS, slow_steps=(4, 8), period_steps=4)
    answer = told(
        rank(
            row(total=140 * MS, input=30 * MS, num_steps=10, variation=variation),
            by_step=by_step,
            numbers={"periodic_stall_share": 40 / 140},
            steps=range(10),
        )
    )
    loader, periodic = answer.findings
    assert (loader.rule, periodic.rule) == ("input-starvation", "periodic-stall")
    assert loader.cost is not None
    assert periodic.cost is not None
    assert loader.cost.time_ns == 30 * MS
    assert periodic.cost.time_ns == 10 * MS
    assert periodic.cost.overlaps_with == (loader.id,)
    assert periodic.explained_by == loader.id
    assert (periodic.onset_step, loader.onset_step) == (4, 4)


def test_a_cause_claims_before_what_it_explains_and_leaves_it_the_rest() -> None:
    """40 ms of communication, of which three reductions of four, 30 ms, are repeated: 10 ms are left."""
    answer = told(
        rank(
            row(communication=40 * MS),
            numbers={
                "gradient_syncs_per_update": 4.0,
                "repeated_sync_part": 0.75,
                "bus_bandwidth_link_share": 0.2,
            },
        )
    )
    sync, rest = answer.findings
    assert (sync.rule, rest.rule) == ("sync-every-micro-step", "exposed-communication")
    assert sync.cost is not None
    assert rest.cost is not None
    assert (sync.cost.time_ns, rest.cost.time_ns) == (30 * MS, 10 * MS)
    assert rest.explained_by == sync.id
    assert rest.cost.overlaps_with == (sync.id,)
    assert rest.remedies == ()


def test_a_smaller_cause_does_not_explain_the_larger_rest_away() -> None:
    """Only 8 of 40 ms are repeated: the other 32 are a finding of their own."""
    answer = told(
        rank(
            row(communication=40 * MS),
            numbers={"gradient_syncs_per_update": 2.0, "repeated_sync_part": 0.2},
        )
    )
    assert [(f.rule, f.cost and f.cost.time_ns) for f in answer.findings] == [
        ("exposed-communication", 32 * MS),
        ("sync-every-micro-step", 8 * MS),
    ]
    assert all(f.explained_by is None for f in answer.findings)


@pytest.mark.parametrize(("python_ms", "left_ms"), [(12, 0), (20, 8)])
def test_the_same_pauses_are_claimed_once_whatever_part_they_are_in(python_ms: int, left_ms: int) -> None:
    """12 ms of pauses may lie in ops or in Python: Python that is idle for as long may be the same time."""
    answer = told(
        rank(
            row(python=30 * MS, launch=5 * MS),
            numbers={
                "long_pause_ns": 12.0 * MS,
                "irregular_pause_ns": 12.0 * MS,
                "python_stall_ns": float(python_ms * MS),
            },
        )
    )
    assert [(f.rule, f.cost and f.cost.time_ns) for f in answer.findings] == [
        ("irregular-pauses", 12 * MS),
        ("python-stall", left_ms * MS),
    ]
    assert answer.findings[1].explained_by == answer.findings[0].id
