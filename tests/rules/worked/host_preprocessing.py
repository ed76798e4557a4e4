"""Worked runs of host-preprocessing."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "masks that grow with length",
        {"idle_preprocess_share": "0.03 0.08 0.14 0.22"},
        "clearx2 findingx2",
    ),
    Run("just under, and just met", {"idle_preprocess_share": "0.0999 0.10"}, "clear finding"),
    Run("idle causes withheld", {"idle_preprocess_share": "_x2"}, "undecidedx2"),
)
