"""Worked runs of failing-link."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a fifth of the link, and 1,342 packets sent again",
        {
            "nvlink_errors_grown": "1342x2",
            "transfer_link_share": "0.195x2",
            "transfer_exposed_share": "0.26x2",
        },
        "findingx2",
    ),
    Run(
        "slow transfers over a link without errors",
        {"nvlink_errors_grown": "0", "transfer_link_share": "0.2", "transfer_exposed_share": "0.26"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "an error or two on a link at its usual rate",
        {"nvlink_errors_grown": "2", "transfer_link_share": "0.78", "transfer_exposed_share": "0.12"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just met, just under, and unknown",
        {
            "nvlink_errors_grown": "1x3",
            "transfer_link_share": "0.50 0.501 _",
            "transfer_exposed_share": "0.05x3",
        },
        "finding clear undecided",
    ),
)
