"""Worked runs of memory-leak."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "losses are kept with their graphs, two epochs to the end",
        {"memory_growth_share": "0.3x2", "memory_growth_steadiness": "1x2"},
        "findingx2",
    ),
    Run(
        "the reserve and optimizer state come in the first steps, then it stands",
        {"memory_growth_share": "0.5x2", "memory_growth_steadiness": "0.222x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a breath up and down",
        {"memory_growth_share": "0.01", "memory_growth_steadiness": "0.75"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"memory_growth_share": "0.0499 0.05 0.05", "memory_growth_steadiness": "0.70 0.6999 0.70"},
        "clear clear finding",
    ),
    Run(
        "too few readings for ten times",
        {"memory_growth_share": "_", "memory_growth_steadiness": "_"},
        "undecided",
    ),
)
