"""Batches of a node that is made up."""

from __future__ import annotations

import math
from collections.abc import Mapping

from stepscope.model.batch import BatchOwner, BatchSeries, Happened, Marks, Samples
from stepscope.model.signal import SIGNALS
from stepscope_sdk.ring_abi import PHASES, kind_number

NS = 1_000_000_000
START_NS = 1_700_000_000 * NS
HOST = "gpu-node-1"
_PHASE_KINDS = (kind_number("phase_begin"), kind_number("phase_end"))
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


def marked(
    steps: list[tuple[float, float]],
    *,
    rank: int = 0,
    job: str = "llama",
    start_ns: int = START_NS,
    is_alive: bool | None = None,
    most: int = 400,
) -> list[Marks]:
    """Marks of steps of (seconds of waiting for data, seconds of forward), one right behind the other, in
    batches of `most` records."""
    rows: list[tuple[int, int, int, int, int]] = []
    now = start_ns

    def mark(kind: str, step: int, phase: int = 0) -> None:
        rows.append((len(rows), kind_number(kind), step, now, phase))

    mark("start", -1)
    for number, (data_s, forward_s) in enumerate(steps):
        mark("step_begin", number)
        for phase, seconds in (("data", data_s), ("forward", forward_s)):
            mark("phase_begin", number, PHASES.index(phase))
            now += int(seconds * NS)
            mark("phase_end", number, PHASES.index(phase))
        mark("step_end", number)
    found = []
    for at in range(0, len(rows), most):
        part = rows[at : at + most]
        kinds = [row[1] for row in part]
        found.append(
            Marks(
                "", 0, HOST, f"rank{rank}.ring",
                {"job": job, "run": "r1", "rank": rank, "world_size": 1, "host": HOST, "pid": 7},
                [],
                [row[0] for row in part], kinds, [0] * len(part), [row[2] for row in part],
                [row[3] - START_NS + NS for row in part], [row[3] for row in part],
                [row[4] if kind in _PHASE_KINDS else -1 for row, kind in zip(part, kinds, strict=True)],
                [math.nan] * len(part), [math.nan] * len(part), 0, is_alive,
            )
        )  # fmt: skip
    return found
