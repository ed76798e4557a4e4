"""Worked runs of sparse-bursts."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "bursts of 0.9, steps go on, and a mean of 0.04",
        {
            "compute_busy_five_minutes": "0.04x2",
            "quiet_while_stepping": "1x2",
            "compute_busy_p95": "0.9x2",
            "busy_below_peers": "0x2",
            "quiet_in_checkpoint": "0x2",
        },
        "findingx2",
    ),
    Run(
        "a mean of 0.04 without steps: a dead job",
        {"compute_busy_five_minutes": "0.04", "quiet_while_stepping": "0", "busy_below_peers": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "steps between long evaluations",
        {"compute_busy_five_minutes": "0.03", "quiet_while_stepping": "0.50", "quiet_in_eval": "0.50"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"compute_busy_five_minutes": "0.05x2", "quiet_while_stepping": "0.4999 0.50"},
        "clear finding",
    ),
    Run(
        "no log",
        {"compute_busy_five_minutes": "0.04", "quiet_while_stepping": "_"},
        "undecided",
    ),
)
