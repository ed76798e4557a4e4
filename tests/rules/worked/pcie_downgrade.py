"""Worked runs of pcie-downgrade."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "stuck at generation 2 of 5 under load",
        {"pcie_rate_lost_share": "0.875x3"},
        "findingx3",
    ),
    Run(
        "half the lanes",
        {"pcie_rate_lost_share": "0.5", "pcie_replays_grown": "120"},
        "finding",
    ),
    Run(
        "generation 1 at rest, and 5 under load",
        {"pcie_rate_lost_share": "0x2", "pcie_peak_link_share": "0.4x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, just met, and never under load",
        {"pcie_rate_lost_share": "0.2499 0.25 _"},
        "clear finding undecided",
    ),
)
