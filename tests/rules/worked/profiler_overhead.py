"""Worked runs of profiler-overhead."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "the first flush of the recorder's buffers", {"idle_profiler_share": "0.35 0.00x3"}, "finding clearx3"
    ),
    Run(
        "thousands of launches, and flushes that queued work hides",
        {"idle_profiler_share": "0.01x3", "launches_per_step": "9000x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_profiler_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
