"""Worked runs of wrong-transport."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "no InfiniBand: sockets between two nodes, eight times slower",
        {"wrong_way": "1x2", "unhidden_transfer_share": "0.85x2", "nccl_socket_share": "1x2"},
        "findingx2",
    ),
    Run(
        "peer-to-peer disabled by a variable of last week",
        {
            "wrong_way": "1",
            "unhidden_transfer_share": "0.3",
            "nccl_p2p_disabled": "1",
            "nvlink_in_collectives_link_share": "0",
        },
        "finding",
    ),
    Run(
        "slow collectives over the right way: congestion, or a late rank",
        {"wrong_way": "0x2", "unhidden_transfer_share": "0.4x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "sockets, and all of it hidden by computation",
        {"wrong_way": "1", "unhidden_transfer_share": "0.01"},
        "clear",
        is_near_miss=True,
    ),
    Run(
        "NCCL's log was not kept",
        {"wrong_way": "_", "unhidden_transfer_share": "0.4"},
        "undecided",
    ),
)
