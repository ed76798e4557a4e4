"""Worked runs of waiting-for-peers."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "eight ranks that arrive one by one",
        {
            "exposed_communication_share": "0.55x2",
            "peer_wait_share": "0.54x2",
            "peer_wait_of_exposed": "0.98x2",
        },
        "findingx2",
    ),
    Run(
        "a slow link, and nobody late",
        {
            "exposed_communication_share": "0.3x2",
            "peer_wait_share": "0.06x2",
            "peer_wait_of_exposed": "0.2x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "exposed_communication_share": "0.08x2",
            "peer_wait_share": "0.0499 0.05",
            "peer_wait_of_exposed": "0.6x2",
        },
        "clear finding",
    ),
    Run(
        "one rank alone",
        {
            "exposed_communication_share": "0.4 0.01",
            "peer_wait_share": "_x2",
            "peer_wait_of_exposed": "_x2",
        },
        "undecided clear",
    ),
)
