"""Worked runs of killed-process."""

from tests.rules.worked_runs import Run

RUNS = (
    Run("one rank of eight is gone", {"killed_ranks": "1", "log_out_of_memory": "0"}, "finding"),
    Run("all eight are", {"killed_ranks": "8", "grave_xids": "1"}, "finding"),
    Run(
        "every rank said that it ends, after a failed request for memory",
        {"killed_ranks": "0", "log_out_of_memory": "1"},
        "clear",
        is_near_miss=True,
    ),
    Run("no marks", {"killed_ranks": "_"}, "undecided"),
)
