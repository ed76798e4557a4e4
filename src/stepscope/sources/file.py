"""A whole file in memory, unpacked: for formats that cannot be read piece by piece."""

from __future__ import annotations

import hashlib
import os
import zlib
from dataclasses import dataclass

from stepscope.model.error import InputError, RefusedError

GZIP = b"\x1f\x8b"
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FileLimits:
    """What a file may ask of us at most."""

    max_bytes: int = 1 << 30
    """Of the unpacked text."""
    ratio_from: int = 100 << 20
    """Unpacked bytes from which the ratio is looked at."""
    max_ratio: float = 250.0


@dataclass(frozen=True, slots=True)
class Whole:
    """A file's bytes, unpacked, with the size and digest of the file as it lies on disk."""

    data: bytes
    num_bytes: int
    sha256: str


def head(path: str, size: int = 64) -> bytes:
    """The first bytes of a regular file, unpacked; empty where it cannot be read: reading it will say why."""
    if not os.path.isfile(path):
        return b""
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
        return zlib.decompressobj(31).decompress(start, size) if start.startswith(GZIP) else start[:size]
    except (OSError, zlib.error):
        return b""


def read(path: str, limits: FileLimits | None = None) -> Whole:
    """A file, plain or gzip. InputError where it is missing or damaged, RefusedError beyond a limit."""
    limits = limits or FileLimits()
    digest, num_bytes = hashlib.sha256(), 0
    unpacked = bytearray()
    try:
        with open(path, "rb") as file:
            data = file.read(CHUNK)
            decoder = zlib.decompressobj(31) if data.startswith(GZIP) else None
            while data:
                digest.update(data)
                num_bytes += len(data)
                while data:
                    room = limits.max_bytes + 1 - len(unpacked)
                    if decoder is None:
                        unpacked += data[:room]
                        data = b""
                    else:
                        unpacked += decoder.decompress(data, min(room, CHUNK))
                        data = decoder.unconsumed_tail
                        if decoder.eof:
                            data = decoder.unused_data.lstrip(b"\0")
                            decoder = zlib.decompressobj(31)
                    _check(path, num_bytes, len(unpacked), limits)
                data = file.read(CHUNK)
    except FileNotFoundError as error:
        raise InputError(path, "no such file", "check the path") from error
    except PermissionError as error:
        raise InputError(
            path, "no permission to read it", f"ask its owner, or run: chmod a+r {path}"
        ) from error
    except OSError as error:
        raise InputError(path, error.strerror or "cannot be read", "check the path and the disk") from error
    except zlib.error as error:
        what = f"the gzip stream is damaged ({error})"
        raise InputError(path, what, "copy it again, or record again", f"byte {num_bytes}") from error
    if not unpacked:
        raise InputError(path, "the file is empty", "was the job ended while it exported? record again")
    return Whole(bytes(unpacked), num_bytes, digest.hexdigest())


def _check(path: str, num_bytes: int, num_out: int, limits: FileLimits) -> None:
    if num_out > limits.max_bytes:
        what = f"more than {limits.max_bytes >> 20} MB come out of it: refused"
        raise RefusedError(f"{path}: {what}; record a shorter history (max_entries)")
    if num_out > limits.ratio_from and num_out > limits.max_ratio * num_bytes:
        what = (
            f"{num_out >> 20} MB of text from {num_bytes:,} bytes: more than "
            f"{limits.max_ratio:g} to 1, as in a decompression bomb"
        )
        raise RefusedError(f"{path}: {what}; unpack it by hand if you trust it")
