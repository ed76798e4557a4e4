"""Worked runs of communication-bound."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "gradients of a large model at four fifths of the link",
        {"exposed_communication_share": "0.31x2", "bus_bandwidth_link_share": "0.81x2"},
        "findingx2",
    ),
    Run(
        "a late peer: long collectives that hardly move a byte",
        {"exposed_communication_share": "0.31x2", "bus_bandwidth_link_share": "0.02x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a rate that nobody knows",
        {"exposed_communication_share": "0.31 0.04", "bus_bandwidth_link_share": "_ _"},
        "undecided clear",
    ),
    Run(
        "just under, and just met",
        {"exposed_communication_share": "0.10x2", "bus_bandwidth_link_share": "0.4999 0.50"},
        "clear finding",
    ),
)
