"""Worked runs of nvlink-errors."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one link recovers again and again",
        {"nvlink_errors_grown": "0 12x3"},
        "clear findingx3",
    ),
    Run(
        "a full link without errors",
        {"nvlink_errors_grown": "0", "nvlink_peak_link_share": "0.9"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "counts from before the run do not grow",
        {"nvlink_errors_grown": "0"},
        "clear",
    ),
    Run(
        "a machine without NVLink",
        {"nvlink_errors_grown": "_"},
        "undecided",
    ),
)
