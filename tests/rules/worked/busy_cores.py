"""Worked runs of busy-cores."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "another tenant comes for ten minutes",
        {
            "host_run_queue_per_core": "0.4 2.6x2 0.5",
            "host_cpu_busy": "0.3 0.99x2 0.3",
            "host_late_share": "0.02 0.18x2 0.02",
        },
        "clear findingx2 clear",
    ),
    Run(
        "118 of 368 cores spin in oversized thread pools: much, and not overrun",
        {"host_run_queue_per_core": "0.35", "host_cpu_busy": "0.32", "host_late_share": "0.27"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "full cores behind a device that has work queued",
        {"host_run_queue_per_core": "2.0", "host_cpu_busy": "0.97", "host_late_share": "0.01"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "host_run_queue_per_core": "1.4999 1.5 1.5",
            "host_cpu_busy": "0.85 0.8499 0.85",
            "host_late_share": "0.05x3",
        },
        "clear clear finding",
    ),
    Run(
        "the host was not measured",
        {"host_run_queue_per_core": "_", "host_cpu_busy": "_", "host_late_share": "0.3"},
        "undecided",
    ),
)
