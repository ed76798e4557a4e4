"""Checksums of sealed files, in their names: `device-123-1a2b3c4d.parquet`."""

from __future__ import annotations

import re
from zlib import crc32

SUFFIX = ".parquet"
_SUM = re.compile(r"-\d+-([0-9a-f]{8})\.parquet$")
_CHUNK_BYTES = 1 << 20


def is_sound(path: str) -> bool:
    """Whether the bytes of a file are those that its name tells of; a name without a checksum tells nothing.
    OSError where it cannot be read."""
    found = _SUM.search(path)
    return found is None or _sum(path) == int(found[1], 16)


def summed(path: str, of: str) -> str:
    """`path` with the checksum of the bytes of the file `of` in it."""
    return f"{path.removesuffix(SUFFIX)}-{_sum(of):08x}{SUFFIX}"


def _sum(path: str) -> int:
    value = 0
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = crc32(chunk, value)
    return value
