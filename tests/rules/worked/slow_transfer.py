"""Worked runs of slow-transfer."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "sockets where a fast network was meant",
        {
            "exposed_communication_share": "0.6x2",
            "transfer_exposed_share": "0.58x2",
            "transfer_link_share": "0.01x2",
        },
        "findingx2",
    ),
    Run(
        "a network between nodes, at what it can do",
        {
            "exposed_communication_share": "0.3x2",
            "transfer_exposed_share": "0.28x2",
            "transfer_link_share": "0.11x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "late ranks, and a fast transfer",
        {
            "exposed_communication_share": "0.5",
            "transfer_exposed_share": "0.01",
            "transfer_link_share": "0.02",
        },
        "clear",
    ),
    Run(
        "sizes that were not recorded",
        {
            "exposed_communication_share": "0.5",
            "transfer_exposed_share": "0.4",
            "transfer_link_share": "_",
        },
        "undecided",
    ),
)
