"""Worked runs of beside-communication."""

from tests.rules.worked_runs import Run

RUNS = (
    Run(
        "gemms that share the device with a reduction",
        {
            "hidden_communication_share": "0.3x3",
            "beside_communication_share": "0.08x3",
        },
        "findingx3",
    ),
    Run(
        "slower by less than is worth a change",
        {
            "hidden_communication_share": "0.3x2",
            "beside_communication_share": "0.029x2",
        },
        "clearx2",
        is_near_miss=True,
    ),
    Run(
        "just under, and just met",
        {
            "hidden_communication_share": "0.3x2",
            "beside_communication_share": "0.0299 0.03",
        },
        "clear finding",
    ),
    Run(
        "no kernel ran both ways",
        {
            "hidden_communication_share": "0.3x1",
            "beside_communication_share": "_",
        },
        "undecided",
    ),
)
