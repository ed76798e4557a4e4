"""Batches: what an agent keeps in its spool and ships. The wire format: `docs/reference/ingest.md`.

One batch is one msgpack map with its kind in `kind`; times are int64 nanoseconds, columns are arrays of equal
length. A receiver knows a batch by (agent, seq) and keeps it once.
"""

from __future__ import annotations

import msgspec

PROTOCOL = 1


class BatchOwner(msgspec.Struct, frozen=True, omit_defaults=True):
    """`model.sample.Owner` on the wire."""

    kind: str = "device"
    uuid: str | None = None
    mig: str | None = None
    index: int | None = None
    pci_bus_id: str | None = None
    model: str | None = None
    host: str | None = None
    pid: int | None = None
    name: str | None = None


class BatchSeries(msgspec.Struct, frozen=True, omit_defaults=True):
    """Samples of one signal of one owner. `labels`: job, run, rank, pod, namespace, container, scheduler_job…
    of that time; `steps` the first and last step that ran meanwhile."""

    signal: str
    owner: BatchOwner
    at_ns: list[int]
    value: list[float]
    labels: dict[str, str] = {}
    steps: tuple[int, int] | None = None


class Samples(msgspec.Struct, frozen=True, omit_defaults=True, tag="samples", tag_field="kind"):
    """What one source gave: `window_ns` a value averages over, `lag_ns` how old it is, both as measured."""

    agent: str
    seq: int
    host: str
    source: str
    """Such as `nvml`, `gpm`, `dcgm-exporter`, `host`."""
    series: list[BatchSeries]
    window_ns: int | None = None
    collect_ns: int | None = None
    lag_ns: int | None = None
    missing: list[tuple[str, str, int]] = []
    """(field, reason of `model.sample.REASONS`, count)"""


class Marks(msgspec.Struct, frozen=True, omit_defaults=True, tag="marks", tag_field="kind"):
    """Records of one rank's ring as they are: columns of `stepscope_sdk.ring_abi.RECORD`."""

    agent: str
    seq: int
    host: str
    ring: str
    """Name of the ring's file: one process of one rank."""
    identity: dict[str, str | int | list[str]]
    """Fields of `model.mark.Identity` that are known."""
    names: list[str]
    number: list[int]
    """n of the n-th record of the ring: a receiver drops what it has."""
    record_kind: list[int]
    flags: list[int]
    step: list[int]
    mono_ns: list[int]
    real_ns: list[int]
    a: list[int]
    b: list[float]
    c: list[float]
    num_lost: int = 0
    is_alive: bool | None = None


class Happened(msgspec.Struct, frozen=True, omit_defaults=True, tag="event", tag_field="kind"):
    """An instant: an Xid, a source that failed or came back, a device that vanished, a job that began or
    ended, a capture."""

    agent: str
    seq: int
    host: str
    at_ns: int
    what: str
    text: str
    code: int | None = None
    owner: BatchOwner | None = None
    labels: dict[str, str] = {}


class Lines(msgspec.Struct, frozen=True, omit_defaults=True, tag="lines", tag_field="kind"):
    """Lines of a log that the agent follows (kernel, NCCL), without secrets."""

    agent: str
    seq: int
    host: str
    log: str
    """`kernel`, `nccl` or `stacks`."""
    name: str
    at_ns: list[int]
    text: list[str]
    labels: dict[str, str] = {}


Batch = Samples | Marks | Happened | Lines


class Ack(msgspec.Struct, frozen=True, omit_defaults=True):
    """A receiver's answer: everything of this agent up to `seq` is kept for good."""

    agent: str
    seq: int
    wait_s: float = 0.0
    """Send nothing for so long: back-pressure."""
