"""Worked runs of thermal-throttle."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one of sixteen devices throttles, and gates all of them",
        {"thermal_throttled_share": "0.8x3", "clock_drop_share": "0.45x3", "clock_bound_share": "0.3x3"},
        "findingx3",
    ),
    Run(
        "hot, with the reason set, and a clock as high as ever",
        {"thermal_throttled_share": "0.3x2", "clock_drop_share": "0.01x2", "temperature_celsius_max": "88x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"thermal_throttled_share": "0.0999 0.10 0.10", "clock_drop_share": "0.05 0.0499 0.05"},
        "clear clear finding",
    ),
    Run(
        "telemetry alone finds it, without knowing its cost",
        {"thermal_throttled_share": "0.5", "clock_drop_share": "0.2", "clock_bound_share": "_"},
        "finding",
    ),
    Run(
        "a device whose driver gives no reasons",
        {"thermal_throttled_share": "_", "clock_drop_share": "0.2"},
        "undecided",
    ),
)
