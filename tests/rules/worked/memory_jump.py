"""Worked runs of memory-jump."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "sequences from 4k to 8k at step 3,000",
        {"memory_jump_share": "0.02 0.25x2", "step_growth_ratio": "1.0 1.9x2"},
        "clear findingx2",
    ),
    Run(
        "an evaluation's reserve, and steps as before",
        {"memory_jump_share": "0.2", "step_growth_ratio": "1.0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"memory_jump_share": "0.0999 0.10", "step_growth_ratio": "1.10x2"},
        "clear finding",
    ),
    Run(
        "no log",
        {"memory_jump_share": "0.2", "step_growth_ratio": "_"},
        "undecided",
    ),
)
