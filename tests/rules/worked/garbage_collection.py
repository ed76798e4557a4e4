"""Worked runs of garbage-collection."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "full collections of 1.3 s in some steps",
        {"idle_gc_share": "0.00x2 0.13x2", "gc_steps": "0x2 3x2"},
        "clearx2 findingx2",
    ),
    Run(
        "young generations are collected in every step, and take no time",
        {"idle_gc_share": "0.004x3", "gc_steps": "20x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("just under, and just met", {"idle_gc_share": "0.0199 0.02 _"}, "clear finding undecided"),
)
