"""Worked runs of cpu-quota."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "four cores for a loader of sixteen threads",
        {"host_cgroup_throttled_share": "0.7x2", "host_late_share": "0.3x2"},
        "findingx2",
    ),
    Run(
        "stopped often, and the device never notices",
        {"host_cgroup_throttled_share": "0.4", "host_late_share": "0.01"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"host_cgroup_throttled_share": "0.0999 0.10", "host_late_share": "0.05x2"},
        "clear finding",
    ),
    Run(
        "no container's counters",
        {"host_cgroup_throttled_share": "_", "host_late_share": "0.3"},
        "undecided",
    ),
)
