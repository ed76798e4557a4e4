"""Worked runs of memory-fragmentation."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "shapes change every step: holes, and segments exchanged",
        {"memory_in_pieces_share": "0.33 0.43", "memory_retries": "12 46"},
        "findingx2",
    ),
    Run(
        "near the limit and full: retries without holes",
        {"memory_in_pieces_share": "0.02", "memory_retries": "46"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "much reserved and unused, and nobody asks for more",
        {"memory_in_pieces_share": "0.48", "memory_retries": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, just met, no calls recorded",
        {"memory_in_pieces_share": "0.1999 0.20 0.5", "memory_retries": "2x2 _"},
        "clear finding undecided",
    ),
    Run(
        "the cache was emptied once",
        {"memory_in_pieces_share": "0.48", "memory_retries": "1"},
        "clear",
        is_near_miss=True,
    ),
)
