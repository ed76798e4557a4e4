"""Worked runs of idle-nvlink."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "peer-to-peer over PCIe beside eight idle links",
        {
            "nvlink_in_collectives_link_share": "0x2",
            "pcie_in_collectives_link_share": "0.6x2",
            "exposed_communication_share": "0.3x2",
        },
        "findingx2",
    ),
    Run(
        "NVLink carries the collectives, PCIe the batches",
        {
            "nvlink_in_collectives_link_share": "0.4x2",
            "pcie_in_collectives_link_share": "0.3x2",
            "exposed_communication_share": "0.2x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "counters of NVLink that stand at 0, with a quiet PCIe",
        {
            "nvlink_in_collectives_link_share": "0",
            "pcie_in_collectives_link_share": "0.01",
            "exposed_communication_share": "0.2",
        },
        "clear",
        is_near_miss=True,
    ),
    Run(
        "NCCL's log says it already",
        {
            "nvlink_in_collectives_link_share": "0",
            "pcie_in_collectives_link_share": "0.6",
            "exposed_communication_share": "0.3",
            "wrong_way": "1",
        },
        "clear",
        is_near_miss=True,
    ),
    Run(
        "just missed, just met, and without NVLink's counters",
        {
            "nvlink_in_collectives_link_share": "0.0201 0.02 _",
            "pcie_in_collectives_link_share": "0.10x3",
            "exposed_communication_share": "0.05x3",
        },
        "clear finding undecided",
    ),
)
