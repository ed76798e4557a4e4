"""Worked runs of foreign-process."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a forgotten run with a product of its own",
        {"num_foreign_processes": "0 1x3", "contended_share": "0 0.4x3", "foreign_sm_share": "0 0.5x3"},
        "clear findingx3",
    ),
    Run(
        "a monitor holds a context and takes nothing",
        {"num_foreign_processes": "1x2", "contended_share": "0.001x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "kernels are slower, and nobody else is there",
        {"num_foreign_processes": "0", "contended_share": "0.2"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"num_foreign_processes": "1x2", "contended_share": "0.0299 0.03"},
        "clear finding",
    ),
    Run(
        "processes were not listed: slower kernels alone name nobody",
        {"num_foreign_processes": "_", "contended_share": "0.3"},
        "undecided",
    ),
)
