"""Worked runs of dead-job."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a constant 0.04 that is another process's, and no steps",
        {
            "compute_busy_five_minutes": "0.04x2",
            "quiet_while_stepping": "0x2",
            "seconds_without_step": "1800x2",
            "num_foreign_processes": "1x2",
            "busy_below_peers": "0x2",
            "quiet_in_checkpoint": "0x2",
        },
        "findingx2",
    ),
    Run(
        "bursts of 0.9, steps go on, and a mean of 0.04",
        {"compute_busy_five_minutes": "0.04x2", "quiet_while_stepping": "1x2", "seconds_without_step": "2x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a save of ten minutes",
        {
            "compute_busy_five_minutes": "0",
            "quiet_while_stepping": "0",
            "seconds_without_step": "600",
            "quiet_in_checkpoint": "0.98",
        },
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just missed, and just met",
        {
            "compute_busy_five_minutes": "0.05x3",
            "quiet_while_stepping": "0.0501 0.05 0.05",
            "seconds_without_step": "30 29.9 30",
        },
        "clear clear finding",
    ),
    Run(
        "no log: low use alone is no dead job",
        {"compute_busy_five_minutes": "0", "quiet_while_stepping": "_", "seconds_without_step": "_"},
        "undecided",
    ),
)
