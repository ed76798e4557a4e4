"""Worked runs of row-remap-pending."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a row waits for the next reset",
        {"row_remap_pending": "1x2", "row_remap_failed": "0x2"},
        "findingx2",
    ),
    Run(
        "remapped at the last reset",
        {"row_remap_pending": "0", "row_remap_failed": "0", "rows_remapped": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "remapping failed: that is another rule's",
        {"row_remap_pending": "1", "row_remap_failed": "1"},
        "clear",
    ),
    Run(
        "the flag is not read",
        {"row_remap_pending": "_"},
        "undecided",
    ),
)
