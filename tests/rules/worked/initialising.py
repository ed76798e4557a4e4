"""Worked runs of initialising."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "20 minutes of packages and weights before the first step",
        {"compute_busy_five_minutes": "0x2", "quiet_before_steps": "1x2"},
        "findingx2",
    ),
    Run(
        "quiet after the last step",
        {"compute_busy_five_minutes": "0", "quiet_before_steps": "0.05"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"compute_busy_five_minutes": "0.05x2", "quiet_before_steps": "0.4999 0.50"},
        "clear finding",
    ),
    Run(
        "a log without steps",
        {"compute_busy_five_minutes": "0", "quiet_before_steps": "_"},
        "undecided",
    ),
)
