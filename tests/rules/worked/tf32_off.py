"""Worked runs of tf32-off."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "fp32 products, then TF32 is allowed",
        {"matrix_share": "0.60x3", "tf32_off_share": "0.62x2 0.00", "tf32_saving_share": "0.54x2 0.00"},
        "findingx2 clear",
    ),
    Run(
        "just under, and just met",
        {"matrix_share": "0.60x3", "tf32_off_share": "0.0999 0.10 _"},
        "clear finding undecided",
    ),
    Run(
        "one last layer in fp32 on purpose",
        {"matrix_share": "0.60x2", "tf32_off_share": "0.04x2"},
        "clearx2",
        is_near_miss=True,
    ),
)
