"""Worked runs of clock-ramp."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a third of the readings at rest, and a fifth off the clock behind it",
        {"clock_ramp_share": "0.22x2", "compute_busy_quiet_share": "0.34x2"},
        "findingx2",
    ),
    Run(
        "a device that never rests has no ramp to suffer from",
        {"clock_ramp_share": "0.3", "compute_busy_quiet_share": "0.02"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"clock_ramp_share": "0.1499 0.15 0.15", "compute_busy_quiet_share": "0.10 0.0999 0.10"},
        "clear clear finding",
    ),
    Run(
        "too few rests to see a ramp",
        {"clock_ramp_share": "_", "compute_busy_quiet_share": "0.4"},
        "undecided",
    ),
)
