"""Worked runs of sync-every-micro-step."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "four micro-steps, four exchanges",
        {"gradient_syncs_per_update": "4x2", "repeated_sync_share": "0.22x2"},
        "findingx2",
    ),
    Run(
        "no_sync around forward and backward",
        {
            "gradient_syncs_per_update": "1x2",
            "repeated_sync_share": "0.00x2",
            "exposed_communication_share": "0.12x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "four exchanges that computing hides",
        {"gradient_syncs_per_update": "4", "repeated_sync_share": "0.01"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "no step of an optimizer is marked",
        {"gradient_syncs_per_update": "_", "repeated_sync_share": "_"},
        "undecided",
    ),
)
