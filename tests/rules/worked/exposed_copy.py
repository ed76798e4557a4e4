"""Worked runs of exposed-copy."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "results read back",
        {"copy_stall_share": "0.09x3", "other_copy_stall_share": "0.09x3", "from_device_copy_share": "1.0x3"},
        "findingx3",
    ),
    Run(
        "copies beside kernels cost nothing",
        {"copy_stall_share": "0.00x3", "pageable_copy_share": "1.0x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run(
        "pageable batches have a rule of their own",
        {"copy_stall_share": "0.09x2", "other_copy_stall_share": "0.024 0.003"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"copy_stall_share": "0.0499 0.05 0.05 _", "other_copy_stall_share": "0.0499 0.0249 0.025 _"},
        "clear clear finding undecided",
    ),
)
