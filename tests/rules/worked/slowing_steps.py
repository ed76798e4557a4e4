"""Worked runs of slowing-steps."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "from 32.7 s to 102 s a step",
        {"step_growth_ratio": "3.13x2"},
        "findingx2",
    ),
    Run(
        "from 105.2 s to 111.1 s: one degraded device of 384, and below this line",
        {"step_growth_ratio": "1.057", "steps_logged": "5"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"step_growth_ratio": "1.0999 1.10"},
        "clear finding",
    ),
    Run(
        "fewer than eight lines",
        {"step_growth_ratio": "_", "steps_logged": "5"},
        "undecided",
    ),
)
