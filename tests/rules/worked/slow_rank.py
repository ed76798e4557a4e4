"""Worked runs of slow-rank."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one rank sleeps in every step",
        {
            "num_peers": "7x3",
            "straggler_cost_share": "0.92x3",
        },
        "findingx3",
    ),
    Run(
        "nobody is late beyond the noise",
        {
            "num_peers": "7x2",
            "straggler_cost_share": "0x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "num_peers": "1x2",
            "straggler_cost_share": "0.0199 0.02",
        },
        "clear finding",
    ),
    Run(
        "one rank of many was given",
        {
            "num_peers": "7",
            "straggler_cost_share": "_",
        },
        "undecided",
    ),
    Run(
        "a job of one rank",
        {
            "num_peers": "0",
            "straggler_cost_share": "_",
        },
        "clear",
    ),
)
