"""Worked runs of launch-bound."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one launch that started half a second late",
        {"idle_launch_share": "0.97 0.45", "late_start_launch_share": "0.99 0.10"},
        "clear finding",
    ),
    Run("eager, small batch", {"idle_launch_share": "0.45x3", "idle_compile_share": "0.00x3"}, "findingx3"),
    Run(
        "a window of compilation",
        {"idle_launch_share": "0.45", "idle_compile_share": "0.30"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "an excuse that cannot be checked does not silence",
        {"idle_launch_share": "0.15 0.149", "idle_compile_share": "_x2"},
        "finding clear",
    ),
    Run(
        "large kernels keep the queue full",
        {"idle_launch_share": "0.01x2", "launches_per_step": "9000x2"},
        "clearx2",
    ),
)
