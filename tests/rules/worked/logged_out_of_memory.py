"""Worked runs of logged-out-of-memory."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "960 MiB were asked for, 76 MiB lay unused",
        {"log_out_of_memory": "1", "log_oom_unallocated_share": "0.0795", "memory_used_share": "0.35"},
        "finding",
    ),
    Run(
        "a message without numbers, on a full device",
        {"log_out_of_memory": "1", "log_oom_unallocated_share": "_", "memory_used_share": "0.99"},
        "finding",
    ),
    Run(
        "enough lay unused: pieces, and another rule's",
        {"log_out_of_memory": "1", "log_oom_unallocated_share": "5.5"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "a full device, and no request failed",
        {"log_out_of_memory": "0", "memory_used_share": "0.97"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "no log",
        {"log_out_of_memory": "_"},
        "undecided",
    ),
)
