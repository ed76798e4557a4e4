"""Worked runs of out-of-memory."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("one request failed", {"oom_count": "1"}, "finding"),
    Run(
        "a long history without a failure, and memory nearly full",
        {"oom_count": "0x3", "oom_device_free_bytes": "2e7 1e7 2e7"},
        "clearx3",
        is_near_miss=True,
    ),
    Run("a snapshot without its history says nothing", {"oom_count": "_"}, "undecided"),
)
