"""Worked runs of small-kernels."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a queue full of five-microsecond kernels",
        {
            "kernel_gap_share": "0.20x2",
            "short_kernel_share": "0.90x2",
            "idle_launch_share": "0.01x2",
        },
        "findingx2",
    ),
    Run(
        "just under, and just met",
        {
            "kernel_gap_share": "0.0499 0.05",
            "short_kernel_share": "0.50x2",
            "idle_launch_share": "0.00x2",
        },
        "clear finding",
    ),
    Run(
        "kernels as short, but the host is late: launch-bound",
        {
            "kernel_gap_share": "0.06x2",
            "short_kernel_share": "0.90x2",
            "idle_launch_share": "0.40x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
)
