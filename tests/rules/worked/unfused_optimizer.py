"""Worked runs of unfused-optimizer."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a loop over 161 tensors, then fused",
        {
            "optimizer_share": "0.12x2 0.01",
            "optimizer_kernels_per_step": "483x2 4",
            "optimizer_loop_share": "1.00x2 0.00",
        },
        "findingx2 clear",
    ),
    Run(
        "just under, and just met",
        {
            "optimizer_share": "0.0499 0.05",
            "optimizer_kernels_per_step": "100x2",
            "optimizer_loop_share": "0.50x2",
        },
        "clear finding",
    ),
    Run(
        "a large model: the fused update takes its time",
        {
            "optimizer_share": "0.12x2",
            "optimizer_kernels_per_step": "12x2",
            "optimizer_loop_share": "0.00x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "no optimizer was recorded",
        {
            "optimizer_share": "_",
            "optimizer_kernels_per_step": "_",
            "optimizer_loop_share": "_",
        },
        "undecided",
    ),
)
