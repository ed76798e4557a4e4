"""Worked runs of compute-bound."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "products at the library's peak",
        {
            "busy_share": "0.97x2",
            "exposed_communication_share": "0.01x2",
            "copy_exposed_share": "0.00x2",
        },
        "findingx2",
    ),
    Run(
        "busy, but half of it is unknown",
        {"busy_share": "0.95", "exposed_communication_share": "_", "copy_exposed_share": "0.00"},
        "undecided",
    ),
    Run(
        "busy, and yet communication is in the way",
        {"busy_share": "0.91x2", "exposed_communication_share": "0.07x2", "copy_exposed_share": "0.00x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "not busy is not health, whatever is unknown",
        {"busy_share": "0.60", "exposed_communication_share": "_", "copy_exposed_share": "_"},
        "clear",
    ),
)
