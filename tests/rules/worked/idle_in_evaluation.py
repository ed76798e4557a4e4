"""Worked runs of idle-in-evaluation."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "an evaluator on one core for all of five minutes, and for four of them after a minute of steps",
        {"quiet_five_minutes": "1 0.8", "quiet_in_eval": "0.9x2", "quiet_in_checkpoint": "0x2"},
        "findingx2",
    ),
    Run(
        "half in an evaluation, half in a checkpoint: the checkpoint speaks",
        {"quiet_five_minutes": "1", "quiet_in_eval": "0.50", "quiet_in_checkpoint": "0.50"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "as quiet, and no evaluation in the log",
        {"quiet_five_minutes": "1", "quiet_in_eval": "0", "quiet_in_checkpoint": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"quiet_five_minutes": "1x2", "quiet_in_eval": "0.4999 0.50", "quiet_in_checkpoint": "0x2"},
        "clear finding",
    ),
    Run(
        "no log",
        {"quiet_five_minutes": "1", "quiet_in_eval": "_"},
        "undecided",
    ),
)
