"""Worked runs of hidden-sync."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("a loss read in every step", {"idle_host_sync_share": "0.18x4"}, "findingx4"),
    Run(
        "a sync behind a full queue costs nothing",
        {"idle_host_sync_share": "0.00x4", "host_sync_share": "0.60x4"},
        "clearx4",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_host_sync_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
