"""Worked runs of slow-storage."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "training data on a slow share",
        {"idle_input_share": "0.4x2", "host_major_faults_per_second": "2500x2", "host_iowait_share": "0.3x2"},
        "findingx2",
    ),
    Run(
        "decoding is the limit: cores are busy and disks are not",
        {"idle_input_share": "0.4x2", "host_major_faults_per_second": "2x2", "host_iowait_share": "0x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "slow storage that prefetching hides",
        {"idle_input_share": "0.01", "host_major_faults_per_second": "2500", "host_iowait_share": "0.3"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "idle_input_share": "0.03x3",
            "host_major_faults_per_second": "99 100 100",
            "host_iowait_share": "0.05 0.0499 0.05",
        },
        "clear clear finding",
    ),
    Run(
        "the host was not measured",
        {"idle_input_share": "0.4", "host_major_faults_per_second": "_", "host_iowait_share": "_"},
        "undecided",
    ),
)
