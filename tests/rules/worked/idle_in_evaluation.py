"""Worked runs of idle-in-evaluation."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "an evaluator on one core, twice as long as training",
        {"compute_busy_five_minutes": "0.03x2", "quiet_in_eval": "0.9x2", "quiet_in_checkpoint": "0x2"},
        "findingx2",
    ),
    Run(
        "half in an evaluation, half in a checkpoint: the checkpoint speaks",
        {"compute_busy_five_minutes": "0.02", "quiet_in_eval": "0.50", "quiet_in_checkpoint": "0.50"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "as quiet, and no evaluation in the log",
        {"compute_busy_five_minutes": "0.01", "quiet_in_eval": "0", "quiet_in_checkpoint": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"compute_busy_five_minutes": "0.05x2", "quiet_in_eval": "0.4999 0.50", "quiet_in_checkpoint": "0x2"},
        "clear finding",
    ),
    Run(
        "no log",
        {"compute_busy_five_minutes": "0.01", "quiet_in_eval": "_"},
        "undecided",
    ),
)
