"""The text of a trace that comes in chunks, gzip or plain, within caps of size and ratio; packed again."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from isal import isal_zlib

from stepscope.model.error import InputError
from stepscope.trace.limits import Limits

GZIP = b"\x1f\x8b"
_USUAL = Limits()
_GIVE = "give the trace that torch.profiler exported (*.json or *.json.gz)"


def unpacked(chunks: Iterable[bytes], name: str, limits: Limits = _USUAL) -> Iterator[bytes]:
    """Pieces of its text. InputError where it is damaged, cut, or beyond a cap."""
    given = iter(chunks)
    head = b""
    while len(head) < 2 and (chunk := next(given, None)) is not None:
        head += chunk
    if not head.startswith(GZIP):
        yield from _plain(head, given, name, limits)
        return
    num_in = num_out = 0
    unpacker = isal_zlib.decompressobj(16 + zlib.MAX_WBITS)
    data: bytes | None = head
    while data is not None:
        num_in += len(data)
        while data:
            try:
                piece = unpacker.decompress(data, limits.chunk)
            except (isal_zlib.error, zlib.error) as error:  # type: ignore[misc]
                raise InputError(name, f"is damaged gzip ({error})", _GIVE, f"byte {num_in}") from error
            num_out += len(piece)
            if num_out > limits.max_output or (
                num_out > limits.ratio_from and num_out > limits.max_ratio * num_in
            ):
                raise InputError(name, "holds too much text for its size", "record fewer steps")
            yield piece
            data = unpacker.unconsumed_tail
            if unpacker.eof:
                data = unpacker.unused_data.lstrip(b"\0")  # another member, or padding
                if data:
                    unpacker = isal_zlib.decompressobj(16 + zlib.MAX_WBITS)
        data = next(given, None)
        if data and unpacker.eof:
            unpacker = isal_zlib.decompressobj(16 + zlib.MAX_WBITS)
    if not unpacker.eof:
        raise InputError(name, "is gzip that breaks off", "send it again", f"byte {num_in}")


def packed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The same text as gzip, packed fast."""
    packer = isal_zlib.compressobj(1, isal_zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def _plain(head: bytes, given: Iterator[bytes], name: str, limits: Limits) -> Iterator[bytes]:
    size = 0
    data: bytes | None = head
    while data is not None:
        size += len(data)
        if size > limits.max_output:
            raise InputError(name, f"is larger than {limits.max_output >> 30} GB", "record fewer steps")
        yield data
        data = next(given, None)
