"""Worked runs of idle-device."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "seven devices at 0.95, one at 0",
        {"compute_busy_five_minutes": "0x2", "busy_below_peers": "0.95x2"},
        "findingx2",
    ),
    Run(
        "all devices rest together",
        {"compute_busy_five_minutes": "0.02", "busy_below_peers": "0.01"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "one rank writes the checkpoint while the others spin in a barrier",
        {"compute_busy_five_minutes": "0.02", "busy_below_peers": "0.97", "quiet_in_checkpoint": "0.9"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {"compute_busy_five_minutes": "0.05x2", "busy_below_peers": "0.2999 0.30"},
        "clear finding",
    ),
    Run(
        "one device alone",
        {"compute_busy_five_minutes": "0", "busy_below_peers": "_"},
        "undecided",
    ),
)
