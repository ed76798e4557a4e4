"""Worked runs of compile-in-window."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "shapes change, and the same code is compiled again",
        {"idle_compile_share": "0.00 0.31x3", "recompiling_steps": "0 3x3"},
        "clear findingx3",
    ),
    Run(
        "new kernels are loaded in several steps, and nothing is compiled",
        {"idle_compile_share": "0.07", "recompiling_steps": "3", "kernel_loading_share": "1.0"},
        "finding",
    ),
    Run(
        "a recording that begins with the warm-up",
        {"idle_compile_share": "0.42", "recompiling_steps": "0"},
        "finding",
    ),
    Run(
        "a guard is compiled anew now and then, in microseconds",
        {"idle_compile_share": "0.01x3", "recompiling_steps": "2x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_compile_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
