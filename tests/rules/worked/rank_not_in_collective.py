"""Worked runs of rank-not-in-collective."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one rank is missing, and its stack is elsewhere",
        {"absent_ranks": "1", "mismatched_ranks": "0", "elsewhere_by_stacks": "1"},
        "finding",
    ),
    Run("one rank is missing, no stacks", {"absent_ranks": "1", "mismatched_ranks": "0"}, "finding"),
    Run(
        "a rank calls another collective, and so never comes to this one",
        {"absent_ranks": "1", "mismatched_ranks": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run("all are in it", {"absent_ranks": "0", "mismatched_ranks": "0"}, "clear"),
    Run("no dumps", {"absent_ranks": "_"}, "undecided"),
)
