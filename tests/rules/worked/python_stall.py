"""Worked runs of python-stall."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "bookkeeping after each step, named by its stack",
        {"python_stall_share": "0.24x2", "python_named_share": "0.9x2"},
        "findingx2",
    ),
    Run(
        "microseconds of Python between ops, thousands of times",
        {"python_stall_share": "0.01x2", "idle_python_share": "0.24x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"python_stall_share": "0.0999 0.10 _"}, "clear finding undecided"),
)
