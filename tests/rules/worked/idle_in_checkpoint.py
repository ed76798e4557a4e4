"""Worked runs of idle-in-checkpoint."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a save to shared storage for all of five minutes, and for four of them after a minute of steps",
        {"quiet_five_minutes": "1 0.8", "quiet_in_checkpoint": "0.95x2"},
        "findingx2",
    ),
    Run(
        "as quiet, and no checkpoint in the log",
        {"quiet_five_minutes": "1", "quiet_in_checkpoint": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "checkpoints beside a device that works",
        {"quiet_five_minutes": "0.2", "quiet_in_checkpoint": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just missed, and just met",
        {"quiet_five_minutes": "0.4999 0.50", "quiet_in_checkpoint": "0.50x2"},
        "clear finding",
    ),
    Run(
        "no log",
        {"quiet_five_minutes": "1", "quiet_in_checkpoint": "_"},
        "undecided",
    ),
)
