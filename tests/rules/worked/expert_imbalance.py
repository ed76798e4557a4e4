"""Worked runs of expert-imbalance."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one expert gets most tokens",
        {
            "num_peers": "7x3",
            "expert_work_share": "0.3x3",
        },
        "findingx3",
    ),
    Run(
        "congestion: the computation is as ever",
        {
            "num_peers": "7x2",
            "expert_work_share": "0x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "num_peers": "7x2",
            "expert_work_share": "0.0499 0.05",
        },
        "clear finding",
    ),
    Run(
        "one rank of many was given",
        {
            "num_peers": "7",
            "expert_work_share": "_",
        },
        "undecided",
    ),
)
