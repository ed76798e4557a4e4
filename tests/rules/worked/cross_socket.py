"""Worked runs of cross-socket."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "four devices, two on each socket, without NVLink",
        {
            "numa_distance_share": "0.667x2",
            "exposed_communication_share": "0.2x2",
            "nvlink_link_share": "0x2",
        },
        "findingx2",
    ),
    Run(
        "the same machine with NVLink in use",
        {"numa_distance_share": "0.667", "exposed_communication_share": "0.2", "nvlink_link_share": "0.3"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "far apart, and they hardly talk",
        {"numa_distance_share": "1", "exposed_communication_share": "0.01", "nvlink_link_share": "0"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "numa_distance_share": "0.4999 0.50",
            "exposed_communication_share": "0.05x2",
            "nvlink_link_share": "0.01x2",
        },
        "clear finding",
    ),
    Run(
        "the topology was not read",
        {"numa_distance_share": "_", "exposed_communication_share": "0.2", "nvlink_link_share": "0"},
        "undecided",
    ),
)
