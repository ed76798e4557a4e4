"""Worked runs of uncorrected-memory-errors."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "an error that correction cannot mend ends a rank",
        {"ecc_uncorrected_grown": "0x2 1"},
        "clearx2 finding",
    ),
    Run(
        "a failed request for memory, with sound memory",
        {"ecc_uncorrected_grown": "0"},
        "clear",
    ),
    Run(
        "many corrected errors, none beyond",
        {"ecc_uncorrected_grown": "0", "ecc_corrected_grown": "250"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "a device whose correction is off",
        {"ecc_uncorrected_grown": "_"},
        "undecided",
    ),
)
