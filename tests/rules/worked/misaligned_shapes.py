"""Worked runs of misaligned-shapes."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a vocabulary of 50,257, then of 50,304",
        {"gemm_share": "0.60x3", "misaligned_share": "0.18x2 0.00", "misaligned_saving_share": "0.06x2 0.00"},
        "findingx2 clear",
    ),
    Run(
        "just under, and just met",
        {"gemm_share": "0.60x3", "misaligned_share": "0.0499 0.05 _"},
        "clear finding undecided",
    ),
    Run(
        "a misaligned product that takes no time",
        {"gemm_share": "0.60x2", "misaligned_share": "0.01x2", "misaligned_saving_share": "0.00x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "nothing to compare with: found, and no cost is told",
        {"gemm_share": "0.60", "misaligned_share": "0.20", "misaligned_saving_share": "_"},
        "finding",
    ),
)
