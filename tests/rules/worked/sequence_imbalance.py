"""Worked runs of sequence-imbalance."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "packed batches of different length",
        {
            "num_peers": "7x3",
            "uneven_work_share": "0.3x3",
        },
        "findingx3",
    ),
    Run(
        "a bad machine: the same rank each time",
        {
            "num_peers": "7x2",
            "uneven_work_share": "0x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "num_peers": "7x2",
            "uneven_work_share": "0.0499 0.05",
        },
        "clear finding",
    ),
    Run(
        "one rank of many was given",
        {
            "num_peers": "7",
            "uneven_work_share": "_",
        },
        "undecided",
    ),
)
