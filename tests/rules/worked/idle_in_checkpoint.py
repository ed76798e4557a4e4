"""Worked runs of idle-in-checkpoint."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a save to shared storage holds all ranks",
        {"compute_busy_five_minutes": "0.01x2", "quiet_in_checkpoint": "0.95x2"},
        "findingx2",
    ),
    Run(
        "as quiet, and no checkpoint in the log",
        {"compute_busy_five_minutes": "0.01", "quiet_in_checkpoint": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "checkpoints beside a device that works",
        {"compute_busy_five_minutes": "0.8", "quiet_in_checkpoint": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just missed, and just met",
        {"compute_busy_five_minutes": "0.0501 0.05", "quiet_in_checkpoint": "0.50x2"},
        "clear finding",
    ),
    Run(
        "no log",
        {"compute_busy_five_minutes": "0.01", "quiet_in_checkpoint": "_"},
        "undecided",
    ),
)
