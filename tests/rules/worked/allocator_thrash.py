"""Worked runs of allocator-thrash."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("warm-up allocates, later steps do not", {"idle_allocator_share": "0.01 0.00x5"}, "clearx6"),
    Run("memory in pieces", {"idle_allocator_share": "0.00x2 0.12x3"}, "clearx2 findingx3"),
    Run(
        "memory nearly full, and never asked for again",
        {"idle_allocator_share": "0.00x3", "memory_used_share": "0.96x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_allocator_share": "0.0499 0.05 _"}, "clear finding undecided"),
)
