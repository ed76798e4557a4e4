"""What counters, host and logs name as a cause, beside what the trace names as its effect."""

from __future__ import annotations

import pytest

from stepscope.model import report
from tests.diagnose.build import MS, rank, row, told

CORES = {"host_run_queue_per_core": 2.6, "host_cpu_busy": 0.98}
QUOTA = {"host_cgroup_throttled_share": 0.7}
DISK = {"host_major_faults_per_second": 2500.0, "host_iowait_share": 0.3}
SOCKETS = {"wrong_way": 1.0, "nccl_socket_share": 1.0}
PCIE = {"nvlink_in_collectives_link_share": 0.0, "pcie_in_collectives_link_share": 0.6}
HOT = {"thermal_throttled_share": 0.8, "clock_drop_share": 0.4, "power_braked_share": 0.0}
LATE = {"straggler_cost_share": 0.1, "matrix_slowdown": 1.3, "sm_clock_share": 0.6}
OOM = {"log_out_of_memory": 1.0, "log_oom_unallocated_share": 0.08, "memory_used_share": 0.97}
LEAK = {"memory_growth_share": 0.3, "memory_growth_steadiness": 1.0}
PIECES = OOM | {"log_oom_unallocated_share": 5.5}
STOPPED = {"seconds_without_step": 1800.0, "missed_log_lines": 90.0}
DEAD = STOPPED | {
    "compute_busy_five_minutes": 0.04,
    "quiet_while_stepping": 0.0,
    "quiet_in_checkpoint": 0.0,
    "quiet_in_eval": 0.0,
    "quiet_before_steps": 0.0,
    "busy_below_peers": 0.0,
}


def reasons(answer: report.Report) -> dict[str, str | None]:
    """Rule -> the rule it is a consequence of."""
    names = {finding.id: finding.rule for finding in answer.findings}
    return {f.rule: names.get(f.explained_by or "") for f in answer.findings}


@pytest.mark.parametrize(
    ("account", "numbers", "cause", "effect"),
    [
        (row(launch=30 * MS), CORES, "busy-cores", "launch-bound"),
        (row(input=30 * MS), CORES, "busy-cores", "input-starvation"),
        (row(launch=30 * MS), QUOTA, "cpu-quota", "launch-bound"),
        (row(input=30 * MS), DISK, "slow-storage", "input-starvation"),
        (row(communication=40 * MS), SOCKETS, "wrong-transport", "exposed-communication"),
        (row(communication=40 * MS), PCIE, "idle-nvlink", "exposed-communication"),
        (row(), OOM, "logged-out-of-memory", "memory-nearly-full"),
        (row(), PIECES, "fragmented-out-of-memory", "memory-nearly-full"),
        (row(), OOM | LEAK, "memory-leak", "logged-out-of-memory"),
        (row(), DEAD, "dead-job", "no-progress"),
        (row(), STOPPED | {"grave_xids": 1.0}, "device-fault", "no-progress"),
    ],
)
def test_what_the_other_layer_names_explains_what_the_trace_shows(
    account: report.Accounting, numbers: dict[str, float], cause: str, effect: str
) -> None:
    answer = told(rank(account, numbers=numbers))
    found = reasons(answer)
    assert found[cause] is None
    assert found[effect] == cause
    # Advice on a consequence would buy nothing.
    assert not next(f for f in answer.findings if f.rule == effect).remedies
    assert next(f for f in answer.findings if f.rule == cause).remedies


def test_a_hot_device_that_slows_down_explains_why_its_rank_is_late() -> None:
    numbers = HOT | LATE | {"clock_bound_share": 0.12}
    answer = told(rank(row(), world_size=8, numbers=numbers))
    assert reasons(answer)["slow-rank"] == "thermal-throttle"
    hot = next(f for f in answer.findings if f.rule == "thermal-throttle")
    assert hot.cost is not None
    assert hot.cost.share == pytest.approx(0.12)
    # Counters and kernels agree, and nothing is left unchecked.
    assert hot.confidence == "high"


def test_counters_alone_say_that_a_device_throttles_and_not_what_it_costs() -> None:
    answer = told(rank(row(), numbers=HOT))
    hot = next(f for f in answer.findings if f.rule == "thermal-throttle")
    assert (hot.severity, hot.cost, hot.confidence) == ("warning", None, "medium")


def test_a_power_cap_at_full_load_is_no_finding_without_products_that_it_slows() -> None:
    capped = {"power_capped_share": 0.9, "clock_loss_share": 0.2}
    assert all(f.rule != "power-cap" for f in told(rank(row(), numbers=capped)).findings)
    slowed = capped | {"clock_bound_share": 0.1, "power_limit_rated_share": 0.357}
    found = next(f for f in told(rank(row(), numbers=slowed)).findings if f.rule == "power-cap")
    assert "set below the model's rating" in found.title
    assert next(r.patch.after for r in found.remedies if r.patch).startswith("nvidia-smi -pl")
    rated = next(
        f
        for f in told(rank(row(), numbers=slowed | {"power_limit_rated_share": 1.0})).findings
        if f.rule == "power-cap"
    )
    assert not any(r.patch for r in rated.remedies)


@pytest.mark.parametrize(
    ("numbers", "asks"),
    [
        ({"straggler_cost_share": 0.1, "matrix_slowdown": 1.3}, True),
        ({"straggler_cost_share": 0.1, "matrix_slowdown": 1.3, "sm_clock_share": 0.99}, False),
        ({"straggler_cost_share": 0.1, "matrix_slowdown": 1.0}, False),
        ({"straggler_cost_share": 0.1}, False),
    ],
)
def test_clocks_of_a_late_rank_are_asked_for_only_where_its_kernels_are_slower(
    numbers: dict[str, float], asks: bool
) -> None:
    answer = told(rank(row(), world_size=8, numbers=numbers))
    assert any(u.rule == "slow-rank" for u in answer.undecided) is asks


@pytest.mark.parametrize("way", [0.0, 1.0, None])
def test_the_log_of_nccl_settles_which_way_a_slow_transfer_takes(way: float | None) -> None:
    numbers = {"transfer_exposed_share": 0.3, "transfer_link_share": 0.04}
    numbers |= {} if way is None else {"wrong_way": way}
    answer = told(rank(row(communication=35 * MS), world_size=8, numbers=numbers))
    assert "slow-transfer" in reasons(answer)
    assert any(u.rule == "slow-transfer" for u in answer.undecided) is (way is None)
    wanted = "wrong-transport" if way == 1.0 else None
    assert reasons(answer)["slow-transfer"] == wanted
