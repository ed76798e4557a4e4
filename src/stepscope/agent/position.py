"""How far a spool has come: its agent's id, what is acknowledged, and up to where numbers may have left it.

The file has two places of 512 bytes that are written in turn, each with a checksum: a write that was torn
leaves the other one, and a full disk does not hinder it, since nothing is allocated.
"""

from __future__ import annotations

import os
from pathlib import Path
from zlib import crc32

import msgspec

NAME = "position"
_PLACE_BYTES = 512


class Position(msgspec.Struct, frozen=True):
    """`turn` counts writes. Every number up to `acknowledged` is kept by a receiver; no number above
    `reserved` has ever left: after a kill, numbers go on above it."""

    agent: str
    acknowledged: int = 0
    reserved: int = 0
    turn: int = 0


def read_position(folder: Path) -> Position | None:
    """The newer of the two places; `None` where there is none that is whole. OSError as of reading."""
    try:
        data = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return None
    found = [_unpack(data[at : at + _PLACE_BYTES]) for at in (0, _PLACE_BYTES)]
    return max((each for each in found if each is not None), key=lambda each: each.turn, default=None)


def write_position(folder: Path, position: Position, *, is_synced: bool = True) -> Position:
    """Written, and on the disk when it returns if `is_synced`: what was written, one turn on. OSError where
    it cannot."""
    written = msgspec.structs.replace(position, turn=position.turn + 1)
    file = os.open(folder / NAME, os.O_RDWR | os.O_CREAT, 0o640)
    try:
        if os.fstat(file).st_size < 2 * _PLACE_BYTES:
            _write(file, b"\0" * (2 * _PLACE_BYTES), 0)
        _write(file, _pack(written), written.turn % 2 * _PLACE_BYTES)
        if is_synced:
            os.fsync(file)
    finally:
        os.close(file)
    return written


def _write(file: int, data: bytes, at: int) -> None:
    if os.pwrite(file, data, at) != len(data):
        raise OSError("the position was written in part")


def _pack(position: Position) -> bytes:
    body = msgspec.json.encode(position)
    line = b"%08x %s\n" % (crc32(body), body)
    return line.ljust(_PLACE_BYTES, b" ")


def _unpack(place: bytes) -> Position | None:
    checksum, _, body = place.rstrip(b" \n\0").partition(b" ")
    if checksum != b"%08x" % crc32(body):
        return None
    try:
        return msgspec.json.decode(body, type=Position)
    except msgspec.MsgspecError:
        return None
