"""Worked runs of initialising."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "20 minutes of packages and weights before the first step",
        {"quiet_five_minutes": "1x2", "quiet_before_steps": "1x2"},
        "findingx2",
    ),
    Run(
        "four minutes until the first step, and a minute of training",
        {"quiet_five_minutes": "0.8", "quiet_before_steps": "1", "compute_busy_five_minutes": "0.184"},
        "finding",
    ),
    Run(
        "quiet after the last step",
        {"quiet_five_minutes": "1", "quiet_before_steps": "0.05"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"quiet_five_minutes": "0.50x2", "quiet_before_steps": "0.4999 0.50"},
        "clear finding",
    ),
    Run(
        "a log without steps",
        {"quiet_five_minutes": "1", "quiet_before_steps": "_"},
        "undecided",
    ),
)
