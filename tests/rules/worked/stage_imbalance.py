"""Worked runs of stage-imbalance."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "the last stage holds the loss",
        {
            "num_peers": "7x3",
            "stage_work_share": "0.3x3",
        },
        "findingx3",
    ),
    Run(
        "stages of equal weight",
        {
            "num_peers": "7x2",
            "stage_work_share": "0x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "num_peers": "7x2",
            "stage_work_share": "0.0499 0.05",
        },
        "clear finding",
    ),
    Run(
        "one rank of many was given",
        {
            "num_peers": "7",
            "stage_work_share": "_",
        },
        "undecided",
    ),
)
