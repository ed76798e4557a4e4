"""Worked runs of underrecorded-graphs."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "one replay of three left its kernels",
        {"idle_share": "0.62x2", "unrecorded_graph_share": "0.67x2"},
        "findingx2",
    ),
    Run(
        "every replay was recorded, and the device idles all the same",
        {"idle_share": "0.40x2", "unrecorded_graph_share": "0.00x2"},
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "a few replays at the edge of the recording",
        {"idle_share": "0.40", "unrecorded_graph_share": "0.04"},
        "clear",
        is_near_miss=True,
    ),
    Run("no host rows", {"idle_share": "0.40 0.10", "unrecorded_graph_share": "_ _"}, "undecided clear"),
)
