"""Worked runs of unrecorded-work."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "graph nodes not recorded",
        {"idle_share": "0.70x2", "queued_or_unlaunched_idle_share": "0.98x2"},
        "findingx2",
    ),
    Run(
        "a busy device whose little idle time is between kernels",
        {"idle_share": "0.03x2", "queued_or_unlaunched_idle_share": "0.95x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a host that is late",
        {"idle_share": "0.40", "queued_or_unlaunched_idle_share": "0.10"},
        "clear",
    ),
    Run(
        "a clause known to be false settles it",
        {"idle_share": "0.05 0.40", "queued_or_unlaunched_idle_share": "_ _"},
        "clear undecided",
    ),
)
