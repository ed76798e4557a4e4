"""Series for tests: one reading a second unless told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stepscope.model.sample import Owner, Series, Telemetry

SECOND = 1_000_000_000
START = 1_790_000_000 * SECOND
H100 = Owner(kind="device", uuid="GPU-1", index=0, model="NVIDIA H100 80GB HBM3", host="node0")
HOST = Owner(kind="host", host="node0")


def series(
    signal: str, values: Sequence[float], owner: Owner = H100, *, start: int = START, every: float = 1.0
) -> Series:
    """A series with these values."""
    at = start + (np.arange(len(values)) * every * SECOND).astype(np.int64)
    return Series(signal, owner, at, np.array(values, dtype=np.float64))


def source(*each: Series, name: str = "dcgm.prom") -> Telemetry:
    """A source of these series."""
    return Telemetry(name=name, format="dcgm-exporter", series=each, time="scrape")
