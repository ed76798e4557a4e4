"""Worked runs of row-remap-failed."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "no spare row is left",
        {"row_remap_failed": "1x2"},
        "findingx2",
    ),
    Run(
        "rows are remapped, as they should be",
        {"row_remap_failed": "0", "rows_remapped": "6"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "the flag is not read",
        {"row_remap_failed": "_"},
        "undecided",
    ),
)
