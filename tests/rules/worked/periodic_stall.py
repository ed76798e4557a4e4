"""Worked runs of periodic-stall."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("a checkpoint every ten steps", {"periodic_stall_share": "0.08x2"}, "findingx2"),
    Run(
        "a checkpoint every ten steps that is written in the background",
        {"periodic_stall_share": "0.01x2", "periodic_stall_steps": "10x2", "idle_checkpoint_share": "0.01x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run("too few steps to see a period", {"periodic_stall_share": "_x3"}, "undecidedx3"),
    Run("just under, and just met", {"periodic_stall_share": "0.0499 0.05"}, "clear finding"),
)
