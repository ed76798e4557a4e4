"""Worked runs of pcie-replays."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a worn riser",
        {"pcie_replays_grown": "240x2"},
        "findingx2",
    ),
    Run(
        "three on a busy bus",
        {"pcie_replays_grown": "3", "pcie_link_share": "0.7"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, just met, not read",
        {"pcie_replays_grown": "9 10 _"},
        "clear finding undecided",
    ),
)
