"""Batches of a node that is made up."""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.model.batch import BatchOwner, BatchSeries, Happened, Samples
from stepscope.model.signal import SIGNALS

NS = 1_000_000_000
START_NS = 1_700_000_000 * NS
HOST = "gpu-node-1"
DEVICE_SIGNALS = tuple(each.name for each in SIGNALS.values() if each.of == "device")[:40]


def device(index: int, host: str = HOST) -> BatchOwner:
    return BatchOwner(
        uuid=f"GPU-{index:08x}-0000-4000-8000-{index:012x}",
        index=index,
        pci_bus_id=f"0000:{0x53 + index:02x}:00.0",
        model="NVIDIA H100 80GB HBM3",
        host=host,
    )


def job(rank: int, job: str = "llama", run: str = "r1") -> dict[str, str]:
    return {"job": job, "run": run, "rank": str(rank)}


def series(
    signal: str,
    value: float | list[float],
    owner: BatchOwner | None = None,
    *,
    second: int = 0,
    labels: Mapping[str, str] | None = None,
    steps: tuple[int, int] | None = None,
) -> BatchSeries:
    values = value if isinstance(value, list) else [value]
    at_ns = [START_NS + (second + n) * NS for n in range(len(values))]
    return BatchSeries(
        signal, owner or device(0), at_ns, [float(each) for each in values], dict(labels or {}), steps
    )


def samples(
    *rows: BatchSeries, source: str = "nvml", host: str = HOST, seq: int = 0, agent: str = ""
) -> Samples:
    return Samples(agent, seq, host, source, list(rows), window_ns=NS, lag_ns=0)


def event(text: str, second: int = 0) -> Happened:
    return Happened("", 0, HOST, START_NS + second * NS, "test", text)


def node_second(second: int, num_devices: int = 8) -> Samples:
    """40 signals of each device, once."""
    rows = [
        series(
            signal,
            round(((second * 7 + index * 3 + place) % 997) / 997, 6),
            device(index),
            second=second,
            labels=job(index),
            steps=(2 * second, 2 * second + 2),
        )
        for index in range(num_devices)
        for place, signal in enumerate(DEVICE_SIGNALS)
    ]
    return samples(*rows)
