"""Worked runs of power-cap."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a limit of 500 W on a board of 1,400 W",
        {
            "power_capped_share": "1x2",
            "clock_loss_share": "0.55x2",
            "clock_bound_share": "0.3x2",
            "power_limit_rated_share": "0.357x2",
        },
        "findingx2",
    ),
    Run(
        "full load at the rated limit: some percent below the highest clock are normal",
        {
            "power_capped_share": "0.9x2",
            "clock_loss_share": "0.05x2",
            "clock_bound_share": "0.03x2",
            "power_limit_share_loaded": "0.99x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "counters alone do not say whether anything slowed",
        {"power_capped_share": "0.9", "clock_loss_share": "0.2", "clock_bound_share": "_"},
        "undecided",
    ),
    Run(
        "heat lowers the clock at the same time",
        {
            "power_capped_share": "0.9",
            "clock_loss_share": "0.2",
            "clock_bound_share": "0.1",
            "thermal_throttled_share": "0.4",
        },
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "power_capped_share": "0.10x3",
            "clock_loss_share": "0.0799 0.08 0.08",
            "clock_bound_share": "0.03 0.0299 0.03",
        },
        "clear clear finding",
    ),
)
