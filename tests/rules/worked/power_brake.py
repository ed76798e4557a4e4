"""Worked runs of power-brake."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a power supply fails in the middle of a run",
        {"power_braked_share": "0x2 1x3", "clock_drop_share": "0x2 0.5x3"},
        "clearx2 findingx3",
    ),
    Run(
        "the line was pulled for a moment, at rest",
        {"power_braked_share": "0.06", "clock_drop_share": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"power_braked_share": "0.0499 0.05", "clock_drop_share": "0.05x2"},
        "clear finding",
    ),
    Run(
        "no reasons were read",
        {"power_braked_share": "_", "clock_drop_share": "0.5"},
        "undecided",
    ),
)
