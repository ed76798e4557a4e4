"""Worked runs of memory-nearly-full."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "77 of 80 GB",
        {"memory_used_share": "0.96x2", "memory_used_bytes_max": "77000000000x2"},
        "findingx2",
    ),
    Run(
        "the reserve holds two thirds",
        {"memory_used_share": "0.66", "memory_used_bytes_max": "53000000000"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"memory_used_share": "0.8999 0.90"},
        "clear finding",
    ),
    Run(
        "memory was not read",
        {"memory_used_share": "_"},
        "undecided",
    ),
)
