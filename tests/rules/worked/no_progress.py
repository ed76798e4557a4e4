"""Worked runs of no-progress."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "three of four devices spin at full use and low power",
        {
            "seconds_without_step": "10800x2",
            "missed_log_lines": "100x2",
            "compute_busy_mean": "1x2",
            "power_limit_share": "0.22x2",
        },
        "findingx2",
    ),
    Run(
        "a planned evaluation of 12 minutes between steps of 105 s",
        {"seconds_without_step": "720x2", "missed_log_lines": "6.86x2", "silent_in_eval": "0.9x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a checkpoint of 96 s",
        {"seconds_without_step": "96", "missed_log_lines": "9", "silent_in_checkpoint": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"seconds_without_step": "29.9 30 30", "missed_log_lines": "3 2.9 3"},
        "clear clear finding",
    ),
    Run(
        "a log without times",
        {"seconds_without_step": "_", "missed_log_lines": "_"},
        "undecided",
    ),
)
