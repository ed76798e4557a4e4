"""Worked runs of slow-group."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one pair of ranks on a degraded lane",
        {
            "exposed_communication_share": "0.2x2",
            "transfer_exposed_share": "0.15x2",
            "slower_group_ratio": "2.1x2",
        },
        "findingx2",
    ),
    Run(
        "groups alike, but for some percent",
        {
            "exposed_communication_share": "0.2x2",
            "transfer_exposed_share": "0.15x2",
            "slower_group_ratio": "1.1x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "exposed_communication_share": "0.1x2",
            "transfer_exposed_share": "0.02x2",
            "slower_group_ratio": "1.49 1.5",
        },
        "clear finding",
    ),
    Run(
        "a single group",
        {
            "exposed_communication_share": "0.1",
            "transfer_exposed_share": "0.1",
            "slower_group_ratio": "_",
        },
        "undecided",
    ),
)
