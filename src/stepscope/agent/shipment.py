"""What a spool gives out: bodies to ship, and how it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shipment:
    """Frames to ship, oldest first, as one body."""

    agent: str
    first_seq: int
    last_seq: int
    num_frames: int
    body: bytes


@dataclass(frozen=True, slots=True)
class SpoolState:
    """How a spool is. `why` it keeps batches in memory, `None` while its disk works. `num_dropped` batches
    were given up before a receiver had them, `num_damaged` places of old segments could not be read."""

    agent: str
    last_seq: int
    acknowledged_seq: int
    num_bytes: int
    num_held: int
    num_dropped: int
    num_damaged: int
    why: str | None
