"""Worked runs of tensor-cores-unused."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "a network in fp32 on Volta",
        {"matrix_share": "0.60x2", "off_tensor_cores_share": "0.54x2"},
        "findingx2",
    ),
    Run("mixed precision", {"matrix_share": "0.60x2", "off_tensor_cores_share": "0.01x2"}, "clearx2"),
    Run(
        "just under, and just met",
        {"matrix_share": "0.60x3", "off_tensor_cores_share": "0.0999 0.10 _"},
        "clear finding undecided",
    ),
    Run(
        "a loss in fp32 behind a network in fp16",
        {"matrix_share": "0.60x2", "off_tensor_cores_share": "0.06x2"},
        "clearx2",
        is_near_miss=True,
    ),
)
