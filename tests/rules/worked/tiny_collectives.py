"""Worked runs of tiny-collectives."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "an all-reduce for each parameter",
        {
            "exposed_communication_share": "0.19x2",
            "small_collective_share": "0.18x2",
            "small_of_communication_share": "0.94x2",
            "small_collectives_per_step": "290x2",
        },
        "findingx2",
    ),
    Run(
        "one large bucket, and a few scalars",
        {
            "small_collective_share": "0.004x2",
            "small_of_communication_share": "0.02x2",
            "exposed_communication_share": "0.2x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "sizes that were not recorded",
        {
            "exposed_communication_share": "0.2 0.03",
            "small_collective_share": "_x2",
            "small_of_communication_share": "_x2",
        },
        "undecided clear",
    ),
    Run(
        "just under, and just met",
        {
            "exposed_communication_share": "0.10x2",
            "small_collective_share": "0.0499 0.05",
            "small_of_communication_share": "0.50x2",
        },
        "clear finding",
    ),
)
