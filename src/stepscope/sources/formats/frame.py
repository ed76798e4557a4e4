"""Frames: how batches lie in a spool and go over the wire. The format: `docs/reference/ingest.md`.

A segment, and the body of a request alike, is a header and then frames, each with a length and a checksum.
The checksum begins with that of the agent's id: a frame of another spool, or bytes within a batch that look
like one, never pass for a frame of this one.
"""

from __future__ import annotations

import mmap
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct, error
from zlib import crc32

import msgspec

from stepscope.model.batch import Batch
from stepscope.model.error import InputError
from stepscope.sources.formats.intern import decoded

MAGIC = b"STEPSPUL"
VERSION = 1
MOST_FRAME_BYTES = 8 << 20
"""Of one frame's payload as it lies on disk."""
MOST_BATCH_BYTES = 64 << 20
"""Of one batch, unpacked."""
SUFFIX = ".spool"
CONTENT_TYPE = "application/vnd.stepscope.spool"
PLAIN, DEFLATED = 0, 1
_SMALL = 200
"""Bytes below which packing does not pay."""
_LEVEL = 1  # 10 signals of a second: 6 packs 8 % better and takes three times as long

_HEADER = Struct("<8sIIQ36sI")
_FRAME = Struct("<II")
_NUMBER = Struct("<BQ")
HEADER_BYTES = _HEADER.size
LEAD_BYTES = _FRAME.size
_LEAST_PAYLOAD = _NUMBER.size + 1
_GIVE = "give a spool that `stepscope agent` wrote"

Bytes = bytes | mmap.mmap

_encoder = msgspec.msgpack.Encoder()


@dataclass(frozen=True, slots=True)
class Header:
    """What a segment says of itself: whose it is, and the number of its first frame."""

    agent: str
    first_seq: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One whole frame as it lies there: its place in the segment and its number."""

    start: int
    end: int
    seq: int
    raw: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """Bytes that hold no frame: from `start`, `num_bytes` of them. `is_cut`: the segment ends there, as
    after a kill; what follows is nothing."""

    start: int
    num_bytes: int
    is_cut: bool


def is_agent_id(text: str) -> bool:
    """Whether it can be an agent's id: 1 to 36 letters, digits, dots, dashes or underscores."""
    return (
        0 < len(text) <= 36
        and text.isascii()
        and text.replace("-", "").replace(".", "").replace("_", "").isalnum()
    )


def pack_header(header: Header) -> bytes:
    """The first bytes of a segment."""
    head = _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, header.first_seq, header.agent.encode(), 0)
    return head[:-4] + crc32(head[:-4]).to_bytes(4, "little")


def pack_frame(batch: Batch) -> bytes:
    """A batch as one frame. ValueError where it is too large to be one."""
    body = _encoder.encode(batch)
    if len(body) > MOST_BATCH_BYTES:
        raise ValueError(f"a batch of {len(body):,} bytes")
    coding = PLAIN
    if len(body) > _SMALL:
        coding, body = DEFLATED, zlib.compress(body, _LEVEL)
    payload = _NUMBER.pack(coding, batch.seq) + body
    if len(payload) > MOST_FRAME_BYTES:
        raise ValueError(f"a frame of {len(payload):,} bytes")
    length = len(payload).to_bytes(4, "little")
    return length + _checksum(batch.agent, length, payload).to_bytes(4, "little") + payload


def _checksum(agent: str, length: bytes, payload: bytes) -> int:
    return crc32(payload, crc32(length, crc32(agent.encode())))


def header_of(data: bytes, name: str) -> Header:
    """InputError where the bytes begin no segment, or one of a version that is not known."""
    if len(data) < HEADER_BYTES or data[:8] != MAGIC:
        raise InputError(name, "no segment of a spool", _GIVE, "byte 0")
    _, version, size, first_seq, agent, crc = _HEADER.unpack_from(data)
    if version != VERSION:
        what = f"a segment of version {version}, known is {VERSION}"
        raise InputError(name, what, "use the stepscope that wrote it, or a newer one", "byte 8")
    text = agent.rstrip(b"\0").decode("ascii", "replace")
    if crc != crc32(data[: HEADER_BYTES - 4]) or size != HEADER_BYTES or not is_agent_id(text):
        raise InputError(name, "the header of the segment is damaged", _GIVE, "byte 0")
    return Header(text, first_seq)


def frames_of(data: Bytes, header: Header, faults: list[Fault], start: int = HEADER_BYTES) -> Iterator[Frame]:
    """The whole frames from `start` on, in order; what lies between them goes into `faults`."""
    at, seq = start, header.first_seq - 1
    while at < len(data):
        frame = _frame_at(data, at, header.agent, seq)
        if frame is None:
            frame = _next_frame(data, at, header.agent, seq)
            end = frame.start if frame is not None else len(data)
            faults.append(Fault(at, end - at, frame is None and _is_cut(data, at)))
            if frame is None:
                return
        yield frame
        at, seq = frame.end, frame.seq


def _frame_at(data: Bytes, at: int, agent: str, after: int) -> Frame | None:
    """The frame that begins there; `None` where none does."""
    try:
        length, crc = _FRAME.unpack_from(data, at)
        _, seq = _NUMBER.unpack_from(data, at + LEAD_BYTES)
    except error:
        return None
    end = at + LEAD_BYTES + length
    if not _LEAST_PAYLOAD <= length <= MOST_FRAME_BYTES or end > len(data) or seq <= after:
        return None
    raw = data[at:end]
    return Frame(at, end, seq, raw) if _checksum(agent, raw[:4], raw[LEAD_BYTES:]) == crc else None


def _next_frame(data: Bytes, at: int, agent: str, after: int) -> Frame | None:
    """The first frame behind damage: where the length leads, else where a number like the last one stands."""
    length = int.from_bytes(data[at : at + 4], "little")
    if length <= MOST_FRAME_BYTES:
        frame = _frame_at(data, at + LEAD_BYTES + length, agent, after)
        if frame is not None and frame.seq <= after + 2:
            return frame
    # Numbers of neighbours differ in their low bytes alone: the high five are looked for, behind a length
    # that can be one. A search at the speed of the expression: damage may be long.
    high = max(after, 1).to_bytes(8, "little")[3:]
    like = re.compile(rb"(?s)(?=(?:[^\0].|.[^\0]).\0.{4}[\0\1].{3}" + re.escape(high) + b")")
    for found in like.finditer(data, at + 1):
        frame = _frame_at(data, found.start(), agent, after)
        if frame is not None:
            return frame
    return None


def _is_cut(data: Bytes, at: int) -> bool:
    """Whether the last frame simply ends too early."""
    if len(data) - at < LEAD_BYTES:
        return True
    length = int.from_bytes(data[at : at + 4], "little")
    return _LEAST_PAYLOAD <= length <= MOST_FRAME_BYTES and at + LEAD_BYTES + length > len(data)


def unpacked(frame: Frame, name: str, most_bytes: int = MOST_BATCH_BYTES) -> bytes:
    """The batch in a frame as msgpack. InputError where it is larger than that, or packed in a way that is
    not known."""
    place = f"byte {frame.start}"
    coding, _ = _NUMBER.unpack_from(frame.raw, LEAD_BYTES)
    body = frame.raw[LEAD_BYTES + _NUMBER.size :]
    large = InputError(name, f"a batch of more than {most_bytes:,} bytes", _GIVE, place)
    if coding == PLAIN:
        if len(body) > most_bytes:
            raise large
        return body
    if coding != DEFLATED:
        raise InputError(name, f"a frame packed in a way that is not known ({coding})", _GIVE, place)
    try:
        unpacker = zlib.decompressobj()
        body = unpacker.decompress(body, max(most_bytes, 1))
    except zlib.error as why:
        raise InputError(name, f"a batch that is not known ({why})", _GIVE, place) from why
    if not unpacker.eof:
        raise large
    return body


def batch_of(frame: Frame, header: Header, name: str, body: bytes | None = None) -> Batch:
    """The batch in a frame. `body` where it is unpacked already. InputError where its checksum fits but it is
    none that is known."""
    place = f"byte {frame.start}"
    body = unpacked(frame, name) if body is None else body
    try:
        batch = decoded(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as why:
        raise InputError(name, f"a batch that is not known ({why})", _GIVE, place) from why
    if batch.seq != frame.seq or batch.agent != header.agent:
        raise InputError(name, "a batch that is not this frame's", _GIVE, place)
    return batch


__all__ = [
    "CONTENT_TYPE",
    "HEADER_BYTES",
    "LEAD_BYTES",
    "MAGIC",
    "MOST_BATCH_BYTES",
    "MOST_FRAME_BYTES",
    "SUFFIX",
    "VERSION",
    "Fault",
    "Frame",
    "Header",
    "batch_of",
    "frames_of",
    "header_of",
    "is_agent_id",
    "pack_frame",
    "pack_header",
    "unpacked",
]
