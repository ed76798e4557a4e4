"""A node that is made up, by the number of the batch: what it sent can be told again from nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from stepscope.model.batch import Batch, BatchOwner, BatchSeries, Happened, Lines, Marks, Samples
from stepscope.store.retention import HOUR_NS, MINUTE_NS, SECOND_NS, Retention
from stepscope_sdk.ring_abi import kind_number

START_NS = 1_700_000_000 * SECOND_NS // (24 * HOUR_NS) * (24 * HOUR_NS)
HOST, AGENT = "gpu-node-1", "agent-1"
EVERY_NS = 20 * SECOND_NS
BATCH_NS = 20 * MINUTE_NS
NUM_ROWS = BATCH_NS // EVERY_NS
LATE_NS = 2 * HOUR_NS
SIGNALS = ("power_watts", "energy_joules_total", "clock_event_reasons")
RETENTION = Retention(raw_ns=6 * HOUR_NS, minutes_ns=48 * HOUR_NS, coarser_ns=96 * HOUR_NS, reserve_bytes=0)
RECORDS = 12
OVERLAP = 2
"""Records of a ring that come again with the next batch, as after an agent's kill."""


def device(index: int) -> BatchOwner:
    return BatchOwner(uuid=f"GPU-{index:04d}", index=index, model="H100", host=HOST)


def value(index: int, signal: str, at_ns: int) -> float:
    """What a device's signal was at a time."""
    second = (at_ns - START_NS) // SECOND_NS
    if signal == "energy_joules_total":
        return float(second * 7 + index)
    if signal == "clock_event_reasons":
        return float(1 << ((second // 60 + index) % 5))
    return float((second * 31 + index * 7) % 400) + 0.25


def times(seq: int) -> list[int]:
    first = START_NS + (seq - 1) * BATCH_NS
    return [first + n * EVERY_NS for n in range(NUM_ROWS)]


def owners(seq: int) -> Iterator[tuple[int, list[int]]]:
    """(device, its times) of a batch: two that are on time, and one whose rows come late now and then."""
    for index in range(2):
        yield index, times(seq)
    if seq % 5 == 0 and seq * BATCH_NS > LATE_NS + BATCH_NS:
        yield 2, [at_ns - LATE_NS for at_ns in times(seq)]


def samples(seq: int) -> Samples:
    series = [
        BatchSeries(
            signal,
            device(index),
            at_ns,
            [value(index, signal, each) for each in at_ns],
            {"job": "llama", "run": "r1", "rank": str(index)},
        )
        for index, at_ns in owners(seq)
        for signal in SIGNALS
    ]
    return Samples(AGENT, seq, HOST, "nvml", series, window_ns=SECOND_NS, lag_ns=0)


def records(first: int, last: int) -> dict[str, list[int] | list[float]]:
    """Records [first, last) of a ring that marks a step of ten seconds every twenty."""
    number = list(range(max(first, 0), last))
    begin, end = kind_number("step_begin"), kind_number("step_end")
    at_ns = [START_NS + n // 2 * EVERY_NS + n % 2 * (EVERY_NS // 2) for n in number]
    return {
        "number": number,
        "record_kind": [begin if n % 2 == 0 else end for n in number],
        "flags": [0] * len(number),
        "step": [n // 2 for n in number],
        "mono_ns": [each - START_NS for each in at_ns],
        "real_ns": at_ns,
        "a": [1000] * len(number),
        "b": [float("nan")] * len(number),
        "c": [float("nan")] * len(number),
    }


def marks(seq: int, first: int, last: int, ring: str = "job-0.ring", rank: int = 0) -> Marks:
    identity: dict[str, str | int | list[str]] = {
        "job": "llama", "run": "r1", "rank": rank, "world_size": 2, "device_uuids": [f"GPU-{rank:04d}"],
    }  # fmt: skip
    return Marks(
        AGENT,
        seq,
        HOST,
        ring,
        identity,
        [],
        **records(first, last),
        is_alive=True,  # type: ignore[arg-type]
    )


def request(number: int) -> list[Batch]:
    """The batches of the n-th request (from 1), with their numbers."""
    per = 2 * NUM_ROWS
    last = number * per
    first = samples(number)
    seq = 3 * number - 2
    return [
        Samples(AGENT, seq, HOST, first.source, first.series, first.window_ns, None, 0),
        marks(seq + 1, last - per - OVERLAP, last),
        Lines(AGENT, seq + 2, HOST, "kernel", "kernel", [times(number)[0]], [f"line {number}"]),
    ]


def event(seq: int, what: str = "xid", code: int | None = 79, at_ns: int = START_NS) -> Happened:
    return Happened(
        AGENT, seq, HOST, at_ns, what, "the device fell off the bus", code, device(0), {"job": "llama"}
    )


def counted(batches: tuple[Batch, ...]) -> dict[tuple[str, str, int], list[float]]:
    """(uuid, signal, time) -> the values that are there."""
    found: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for batch in batches:
        for each in batch.series if isinstance(batch, Samples) else ():
            for at_ns, number in zip(each.at_ns, each.value, strict=True):
                found[each.owner.uuid or "", each.signal, at_ns].append(number)
    return found
