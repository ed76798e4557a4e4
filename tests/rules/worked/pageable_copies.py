"""Worked runs of pageable-copies."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "non_blocking=True on batches that are not pinned",
        {
            "copy_stall_share": "0.14x3",
            "pageable_upload_share": "0.97x3",
            "pageable_upload_stall_share": "0.136x3",
            "pageable_upload_bytes": "19267584x3",
        },
        "findingx3",
    ),
    Run(
        "pinned batches over a slow link",
        {"copy_stall_share": "0.14x3", "pageable_upload_stall_share": "0.0014x3"},
        "clearx3",
        is_near_miss=True,
    ),
    Run(
        "results that are read back: pageable too, and not to the device",
        {
            "copy_stall_share": "0.20x2",
            "pageable_upload_stall_share": "0.01x2",
            "host_copy_call_share": "0.5x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "names that say nothing of the memory",
        {"copy_stall_share": "0.20 0.02", "pageable_upload_stall_share": "_ _"},
        "undecided clear",
    ),
)
