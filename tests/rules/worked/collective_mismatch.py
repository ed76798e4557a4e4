"""Worked runs of collective-mismatch."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one rank calls a broadcast", {"mismatched_ranks": "0x2 1", "absent_ranks": "0x3"}, "clearx2 finding"
    ),
    Run(
        "a rank is missing, and those that came call the same",
        {"mismatched_ranks": "0", "absent_ranks": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run("no dumps", {"mismatched_ranks": "_"}, "undecided"),
)
