"""Worked runs of fragmented-out-of-memory."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "2 GiB were asked for beside 11 GiB that were reserved and unused",
        {"log_out_of_memory": "1", "log_oom_unallocated_share": "5.5"},
        "finding",
    ),
    Run(
        "960 MiB were asked for, 76 MiB lay unused: not the allocator's pieces",
        {"log_out_of_memory": "1", "log_oom_unallocated_share": "0.0795"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"log_out_of_memory": "1x2", "log_oom_unallocated_share": "0.9999 1"},
        "clear finding",
    ),
    Run(
        "a message without numbers",
        {"log_out_of_memory": "1", "log_oom_unallocated_share": "_"},
        "undecided",
    ),
)
