"""Worked runs of locked-clock."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "locked at 1,200 of 1,980 MHz by a benchmark before",
        {
            "sm_clock_share": "0.606x2",
            "clock_spread_share": "0x2",
            "clock_bound_share": "0.25x2",
            "power_capped_share": "0x2",
            "thermal_throttled_share": "0x2",
            "power_braked_share": "0x2",
        },
        "findingx2",
    ),
    Run(
        "the limit holds the clock down, and it swings",
        {
            "sm_clock_share": "0.8x2",
            "clock_spread_share": "0.09x2",
            "clock_bound_share": "0.1x2",
            "power_capped_share": "0.9x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a clock that stands at the limit's: the driver gives the reason",
        {
            "sm_clock_share": "0.8",
            "clock_spread_share": "0.02",
            "clock_bound_share": "0.1",
            "power_capped_share": "0.9",
        },
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just missed, and just met",
        {
            "sm_clock_share": "0.9001 0.90 0.90",
            "clock_spread_share": "0.03 0.0301 0.03",
            "clock_bound_share": "0.03x3",
        },
        "clear clear finding",
    ),
    Run(
        "locked, and the trace has nothing that the clock bounds",
        {"sm_clock_share": "0.6", "clock_spread_share": "0", "clock_bound_share": "0.01"},
        "clear",
        is_near_miss=True,
    ),
)
