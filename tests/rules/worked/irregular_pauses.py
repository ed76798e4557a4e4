"""Worked runs of irregular-pauses."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "holes of 0.3 s in three steps of thirty",
        {"long_pause_share": "0.12x2", "irregular_pause_share": "0.12x2"},
        "findingx2",
    ),
    Run(
        "the same holes on cores that are full",
        {"long_pause_share": "0.12x2", "irregular_pause_share": "0.12x2", "host_cpu_busy": "0.97x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "the same holes at a period: what comes by the clock is no collector",
        {"long_pause_share": "0.12x2", "irregular_pause_share": "0.00x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "Python functions were recorded, and name it",
        {"long_pause_share": "0.12x2", "irregular_pause_share": "_x2"},
        "undecidedx2",
    ),
    Run(
        "just under, and just met",
        {"long_pause_share": "0.05x2", "irregular_pause_share": "0.0499 0.05"},
        "clear finding",
    ),
)
