"""Worked runs of checkpoint-stall."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "96 s of a 168 s epoch",
        {"idle_checkpoint_share": "0.571x2", "checkpoint_steps": "3x2"},
        "findingx2",
    ),
    Run(
        "a planned checkpoint of 40 s each 1,000 steps of 105 s",
        {"idle_checkpoint_share": "0.0004", "checkpoint_steps": "1", "periodic_stall_steps": "1000"},
        "clear",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_checkpoint_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
