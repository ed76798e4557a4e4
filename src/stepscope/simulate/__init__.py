"""A training cluster that is not there. Imports the model only, so that it cannot mark its own homework.

    simulate(config)   each rank's trace, as the PyTorch profiler would have written it
    truth(config)      what is true of that run
    recorded(cluster)  device counters, host metrics and logs beside the traces, where `Config.telemetry` asks
    write(config, …)   all of it, into files: the only I/O here

The same `Config` gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.simulate.cluster import Cluster
from stepscope.simulate.config import Config, Recording
from stepscope.simulate.fault import FAULTS, Chosen, parse
from stepscope.simulate.kineto import trace
from stepscope.simulate.record import recorded, recorded_run
from stepscope.simulate.truth import truth_of
from stepscope.simulate.write import write

__all__ = [
    "FAULTS", "Chosen", "Cluster", "Config", "Recording", "parse", "recorded", "recorded_run",
    "simulate", "truth", "write",
]  # fmt: skip


def simulate(config: Config) -> Iterator[tuple[int, bytes]]:
    """Each rank and its trace (JSON), one after another: no more than one is in memory."""
    for rank, rows in Cluster(config).each():
        yield rank, trace(config, rank, rows)


def truth(config: Config) -> dict[str, Any]:
    """What is true of the run: JSON values."""
    return truth_of(Cluster(config))
