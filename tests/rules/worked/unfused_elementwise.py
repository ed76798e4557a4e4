"""Worked runs of unfused-elementwise."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "an eager transformer, then compiled",
        {"memory_bound_kernel_share": "0.55x2 0.12", "fusion_handed_share": "0.23x2 0.01"},
        "findingx2 clear",
    ),
    Run(
        "just under, and just met",
        {"memory_bound_kernel_share": "0.30x3", "fusion_handed_share": "0.0499 0.05 _"},
        "clear finding undecided",
    ),
    Run(
        "as much elementwise work, but no two ops in a row hand anything on",
        {"memory_bound_kernel_share": "0.45x2", "fusion_handed_share": "0.01x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "no shapes were recorded",
        {"memory_bound_kernel_share": "0.45", "fusion_handed_share": "_"},
        "undecided",
    ),
)
