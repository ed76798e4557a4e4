"""Worked runs of device-fault."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "fallen off the bus (79) in the middle of a run",
        {"grave_xids": "0x2 1x2"},
        "clearx2 findingx2",
    ),
    Run(
        "an illegal access (31) of the program: the device works on",
        {"grave_xids": "0", "milder_xids": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "an old code that a counter has kept since before the run is no incident",
        {"grave_xids": "0"},
        "clear",
    ),
    Run(
        "neither the kernel's log nor the counter was read",
        {"grave_xids": "_"},
        "undecided",
    ),
)
