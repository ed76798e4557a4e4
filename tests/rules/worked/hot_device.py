"""Worked runs of hot-device."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "87 degrees, and no reason in an hour",
        {
            "temperature_celsius_max": "87x2",
            "thermal_throttled_share": "0x2",
            "temperature_margin_celsius": "3x2",
        },
        "findingx2",
    ),
    Run(
        "as hot, and throttled: that is another rule's",
        {
            "temperature_celsius_max": "90x2",
            "thermal_throttled_share": "0.6x2",
            "temperature_margin_celsius": "0x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "86 degrees on a model that slows down at 100",
        {"temperature_celsius_max": "86", "thermal_throttled_share": "0", "temperature_margin_celsius": "14"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"temperature_celsius_max": "84.9 85", "thermal_throttled_share": "0x2"},
        "clear finding",
    ),
    Run(
        "no temperature was read",
        {"temperature_celsius_max": "_", "thermal_throttled_share": "0"},
        "undecided",
    ),
)
