"""Worked runs of input-starvation."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("a move to faster devices", {"idle_input_share": "0.02x5 0.31x4"}, "clearx5 findingx4"),
    Run("just under, and just met", {"idle_input_share": "0.0999 0.10"}, "clear finding"),
    Run("a trace without device activity", {"idle_input_share": "_x3"}, "undecidedx3"),
    Run(
        "a slow loader that hides behind queued work",
        {"idle_input_share": "0.01x3", "host_loader_share": "0.40x3"},
        "clearx3",
        is_near_miss=True,
    ),
)
