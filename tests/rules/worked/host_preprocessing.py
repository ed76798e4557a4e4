"""Worked runs of host-preprocessing."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "masks that grow with length",
        {"idle_preprocess_share": "0.03 0.08 0.14 0.22"},
        "clearx2 findingx2",
    ),
    Run(
        "workers keep the cores busy, and the step begins at once",
        {"idle_preprocess_share": "0.02x3", "host_cpu_busy": "0.80x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_preprocess_share": "0.0999 0.10"}, "clear finding"),
    Run("idle causes withheld", {"idle_preprocess_share": "_x2"}, "undecidedx2"),
)
