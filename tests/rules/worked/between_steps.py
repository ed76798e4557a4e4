"""Worked runs of between-steps."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "metrics behind each step of the optimizer, four fifths of the time",
        {"between_steps_share": "0.81x2"},
        "findingx2",
    ),
    Run(
        "steps that the loop marks itself, with host code inside of them",
        {"between_steps_share": "0x2", "idle_python_share": "0.24x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"between_steps_share": "0.0999 0.10 _"}, "clear finding undecided"),
)
