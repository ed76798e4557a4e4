"""Worked runs of late-start."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("half a second before a graph replay", {"late_start_share": "0.97"}, "finding"),
    Run(
        "many launches, each a little late",
        {"late_start_share": "0.00x3", "idle_launch_share": "0.45x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"late_start_share": "0.1499 0.15 _"}, "clear finding undecided"),
)
