"""Worked runs of device-warning."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "two illegal accesses in one run",
        {"milder_xids": "2x2", "grave_xids": "0x2"},
        "findingx2",
    ),
    Run(
        "clean-up (45) behind a fault that ends the work",
        {"milder_xids": "1", "grave_xids": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "corrected errors only",
        {"milder_xids": "0", "grave_xids": "0", "ecc_corrected_grown": "14"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "no source of Xids",
        {"milder_xids": "_"},
        "undecided",
    ),
)
