"""Worked runs of layout-transposes."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "convolutions that want channels last",
        {"layout_share": "0.14x2 0.00", "convolution_kernel_share": "0.40x3"},
        "findingx2 clear",
    ),
    Run("just under, and just met", {"layout_share": "0.0499 0.05 _"}, "clear finding undecided"),
    Run(
        "one transpose at the input",
        {"layout_share": "0.01x2", "convolution_kernel_share": "0.60x2"},
        "clearx2",
        is_near_miss=True,
    ),
)
