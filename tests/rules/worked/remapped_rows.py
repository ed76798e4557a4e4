"""Worked runs of remapped-rows."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "24 rows, and products take 5 % longer than on the peers",
        {"rows_remapped": "24", "matrix_slowdown": "1.05"},
        "finding",
    ),
    Run(
        "two rows healed years ago, and corrected errors now",
        {"rows_remapped": "2", "ecc_corrected_grown": "3"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "ten, and eleven",
        {"rows_remapped": "10 11"},
        "clear finding",
    ),
    Run(
        "a model without row remapping",
        {"rows_remapped": "_"},
        "undecided",
    ),
)
