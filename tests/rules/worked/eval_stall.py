"""Worked runs of eval-stall."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a metric on one thread of the processor: 30 min of evaluation for 15 of training",
        {"idle_eval_share": "0.60x2", "eval_steps": "1x2"},
        "findingx2",
    ),
    Run(
        "an evaluation that computes on the device all the time",
        {"idle_eval_share": "0.007x3", "eval_steps": "2x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_eval_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
