"""Worked runs of logging-stall."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a tracker that sends at each call: 207 s instead of 45",
        {"idle_logging_share": "0.78x2", "logging_steps": "30x2"},
        "findingx2",
    ),
    Run(
        "a log in every step that hides behind queued work",
        {"idle_logging_share": "0.01x3", "logging_steps": "30x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run(
        "a loss that is read for the log: the wait is for the device",
        {"idle_logging_share": "0.02x2", "host_sync_share": "0.60x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_logging_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
