"""Worked runs of slow-bus."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "four lanes where the card has sixteen",
        {"copy_stall_share": "0.3x3", "pinned_copy_bus_share": "0.2x3"},
        "findingx3",
    ),
    Run(
        "a sound bus, and too much to copy",
        {"copy_stall_share": "0.3x2", "pinned_copy_bus_share": "0.85x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"copy_stall_share": "0.03x2", "pinned_copy_bus_share": "0.4501 0.45"},
        "clear finding",
    ),
    Run(
        "pageable copies only",
        {"copy_stall_share": "0.3 0.01", "pinned_copy_bus_share": "_x2"},
        "undecided clear",
    ),
)
