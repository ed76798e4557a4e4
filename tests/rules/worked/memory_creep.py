"""Worked runs of memory-creep."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "losses kept with their graphs: 40 MiB a step",
        {
            "memory_growth_50_steps": "2097152000x2",
            "memory_growth_certainty": "3.9 6.2",
            "memory_growth_steady_share": "0.97 0.99",
        },
        "findingx2",
    ),
    Run(
        "an evaluation that begins in the middle jumps once",
        {
            "memory_growth_50_steps": "2500000000",
            "memory_growth_certainty": "5",
            "memory_growth_steady_share": "0",
        },
        "clear",
        is_near_miss=True,
    ),
    Run(
        "sequence lengths vary: a slope within its noise",
        {
            "memory_growth_50_steps": "1500000000x2",
            "memory_growth_certainty": "1.2 2.9",
            "memory_growth_steady_share": "0.6x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, just met, too few steps",
        {
            "memory_growth_50_steps": "1073741823 1073741824 _",
            "memory_growth_certainty": "3x2 _",
            "memory_growth_steady_share": "0.5x2 _",
        },
        "clear finding undecided",
    ),
)
