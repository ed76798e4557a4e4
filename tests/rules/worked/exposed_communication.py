"""Worked runs of exposed-communication."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "transfers at a third of the link",
        {"exposed_communication_share": "0.04 0.12x3", "bus_bandwidth_link_share": "0.33x4"},
        "clear findingx3",
    ),
    Run(
        "a late peer looks the same from one rank",
        {"exposed_communication_share": "0.35x2", "bus_bandwidth_link_share": "0.01x2"},
        "findingx2",
    ),
    Run(
        "transfers at half the link, and a row of small ones, have rules of their own",
        {
            "exposed_communication_share": "0.35x2",
            "bus_bandwidth_link_share": "0.5 0.01",
            "small_of_communication_share": "0.0 0.5",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "bandwidth unknown is still waiting",
        {"exposed_communication_share": "0.35x2", "bus_bandwidth_link_share": "_x2"},
        "findingx2",
    ),
    Run(
        "the last bucket has nothing to hide behind",
        {"exposed_communication_share": "0.07x3", "bus_bandwidth_link_share": "0.3x3"},
        "clearx3",
        is_near_miss=True,
    ),
)
