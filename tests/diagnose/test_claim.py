"""Claims never exceed what exists."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.model import report
from tests.diagnose.build import MS, rank, row, told

_CAUSES = ("input", "preprocess", "host_sync", "copy_wait", "allocator", "launch", "queued", "unknown")
_part = st.integers(0, 20 * MS)


@settings(max_examples=150, deadline=None)
@given(
    communication=_part,
    copy=_part,
    idle=st.fixed_dictionaries(dict.fromkeys(_CAUSES, _part)),
    compute=_part,
    queued=st.floats(0, 1),
    periodic=st.floats(0, 1),
)
def test_claims_of_one_device_never_exceed_its_time(
    communication: int, copy: int, idle: dict[str, int], compute: int, queued: float, periodic: float
) -> None:
    total = communication + copy + sum(idle.values()) + compute
    if total == 0:
        return
    answer = told(
        rank(
            row(total=total, communication=communication, copy=copy, **idle),
            numbers={"queued_or_unlaunched_idle_share": queued, "periodic_stall_share": periodic},
        )
    )
    claimed = [finding.cost for finding in answer.findings if finding.cost is not None]
    assert sum(cost.time_ns for cost in claimed) <= total
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
