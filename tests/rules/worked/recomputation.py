"""Worked runs of recomputation."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("every block is checkpointed", {"recompute_share": "0.22x3"}, "findingx3"),
    Run("just under, and just met", {"recompute_share": "0.0499 0.05 _"}, "clear finding undecided"),
    Run(
        "one cheap block is checkpointed",
        {"recompute_share": "0.02x2", "busy_share": "0.97x2"},
        "clearx2",
        is_near_miss=True,
    ),
)
