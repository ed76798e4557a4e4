"""Bytes in: a file's text in chunks, decompressed in a thread of its own where it is compressed."""

from __future__ import annotations

import queue
import threading
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from stepscope.model.error import InputError
from stepscope.trace.limits import Limits

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
COMPRESSED_CHUNK = 1 << 20
QUEUE_CHUNKS = 3


TRAILER = 8


def _gzip_header_size(data: bytes) -> int | None:
    """Bytes before a gzip member's deflate stream (RFC 1952), `None` where there is no whole header."""
    if len(data) < 10 or not data.startswith(GZIP):
        return None
    flags, at = data[3], 10
    if flags & 4:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (8, 16):
        if flags & flag:
            end = data.find(b"\0", at)
            if end < 0:
                return None
            at = end + 1
    if flags & 2:
        at += 2
    return at if at <= len(data) else None


class Text:
    """The decompressed text of one input, chunk by chunk, with what was noticed on the way.

    After iteration: `damage` says what was wrong with the compressed stream (`None`: nothing),
    `num_bytes` is the size as it lies on disk and `sha256` its digest where asked for.
    """

    def __init__(self, stream: BinaryIO, name: str, limits: Limits, *, with_digest: bool) -> None:
        self.name = name
        self.damage: str | None = None
        self.num_bytes = 0
        self._stream = stream
        self._limits = limits
        self._digest = None
        if with_digest:
            import hashlib  # 5 ms that a plain load need not wait for

            self._digest = hashlib.sha256()
        self._ahead = b""

    @property
    def sha256(self) -> str | None:
        """The digest of the bytes read."""
        return self._digest.hexdigest() if self._digest is not None else None

    def open(self) -> Iterator[bytes] | None:
        """Pieces of decompressed text in order; `None` where the text is plain: then `read_into` has it.

        Raises InputError where a cap is passed or the codec is missing.
        """
        self._ahead = self._read(len(GZIP) + len(ZSTD))
        if self._ahead.startswith(GZIP):
            return self._threaded(self._gunzip(self._ahead + self._read(COMPRESSED_CHUNK)))
        if self._ahead.startswith(ZSTD):
            return self._threaded(self._unzstd(self._ahead + self._read(COMPRESSED_CHUNK)))
        return None

    def read_into(self, view: memoryview) -> int:
        """Fill `view` with the next plain text; 0 at the end. No copy is made on the way."""
        if self._ahead:
            size = min(len(self._ahead), len(view))
            view[:size] = self._ahead[:size]
            self._ahead = self._ahead[size:]
            return size
        try:
            size = self._stream.readinto(view) or 0  # type: ignore[attr-defined]
        except OSError as error:
            mend = "check the disk or copy the file again"
            raise InputError(
                self.name, error.strerror or "cannot be read", mend, f"byte {self.num_bytes}"
            ) from error
        self.num_bytes += size
        if self._digest is not None:
            self._digest.update(view[:size])
        return size

    def _read(self, size: int) -> bytes:
        try:
            data = self._stream.read(size)
        except OSError as error:
            mend = "check the disk or copy the file again"
            raise InputError(
                self.name, error.strerror or "cannot be read", mend, f"byte {self.num_bytes}"
            ) from error
        self.num_bytes += len(data)
        if self._digest is not None:
            self._digest.update(data)
        return data

    def _check(self, num_out: int) -> None:
        limits = self._limits
        if num_out > limits.max_output:
            what = f"more than {limits.max_output >> 30} GB of text come out of it"
            raise InputError(self.name, what, "record fewer steps, or split the file")
        if num_out > limits.ratio_from and num_out > limits.max_ratio * self.num_bytes:
            what = (
                f"{num_out >> 20} MB of text from {self.num_bytes:,} bytes: more than "
                f"{limits.max_ratio:g} to 1, as in a decompression bomb"
            )
            raise InputError(self.name, what, "unpack it by hand if you trust it")

    def _gunzip(self, head: bytes) -> Iterator[bytes]:
        """All members of a gzip file; a broken stream ends the text and is noted.

        The deflate stream is read raw and its checksum compared here: a codec that checks it itself
        withholds the last piece of text when it is wrong.
        """
        from isal import isal_zlib

        num_out, data = 0, head
        while data:
            start = _gzip_header_size(data)
            if start is None:
                self.damage = (
                    "the gzip stream ends too early"
                    if GZIP.startswith(data[:2])
                    else "bytes that are no gzip follow the gzip stream"
                )
                return
            decoder, checksum, size = isal_zlib.decompressobj(wbits=-15), 0, 0
            data = data[start:] or self._read(COMPRESSED_CHUNK)
            while data and not decoder.eof:
                try:
                    piece = decoder.decompress(data, self._limits.chunk)
                except (isal_zlib.error, zlib.error, EOFError, ValueError) as error:  # type: ignore[misc]
                    self.damage = f"the gzip stream is damaged ({error})"
                    return
                checksum, size = isal_zlib.crc32(piece, checksum), size + len(piece)
                num_out += len(piece)
                self._check(num_out)
                if piece:
                    yield piece
                if not decoder.eof:
                    data = decoder.unconsumed_tail or self._read(COMPRESSED_CHUNK)
            trailer = decoder.unused_data if decoder.eof else b""
            while decoder.eof and len(trailer) < TRAILER and (more := self._read(COMPRESSED_CHUNK)):
                trailer += more
            if len(trailer) < TRAILER:
                self.damage = "the gzip stream ends too early"
                return
            if trailer[:TRAILER] != checksum.to_bytes(4, "little") + (size & 0xFFFFFFFF).to_bytes(
                4, "little"
            ):
                self.damage = "the gzip checksum is wrong"
            data = (trailer[TRAILER:] or self._read(COMPRESSED_CHUNK)).lstrip(b"\0")

    def _unzstd(self, head: bytes) -> Iterator[bytes]:
        """Zstandard, where its codec is installed."""
        try:
            import zstandard
        except ImportError as error:
            mend = "pip install 'stepscope[remote]', or decompress it with zstd -d"
            raise InputError(self.name, "is zstd-compressed, and the codec is not installed", mend) from error
        decoder, num_out, data = zstandard.ZstdDecompressor().decompressobj(), 0, head
        while data:
            for at in range(0, len(data), 1 << 16):
                try:
                    piece = decoder.decompress(data[at : at + (1 << 16)])
                except zstandard.ZstdError as error:
                    self.damage = f"the zstd stream is damaged ({error})"
                    return
                num_out += len(piece)
                self._check(num_out)
                if piece:
                    yield piece
                if decoder.eof:
                    return
            data = self._read(COMPRESSED_CHUNK)
        self.damage = "the zstd stream ends too early"

    def _threaded(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """The same pieces, made ahead by a thread; an error of the thread is raised here."""
        ahead: queue.Queue[bytes | BaseException | None] = queue.Queue(QUEUE_CHUNKS)
        is_over = threading.Event()

        def work() -> None:
            try:
                for piece in pieces:
                    if is_over.is_set():
                        return
                    ahead.put(piece)
                ahead.put(None)
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the text is read
                ahead.put(error)

        thread = threading.Thread(target=work, name="stepscope-reader", daemon=True)
        thread.start()
        try:
            while (item := ahead.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            # A reader that nobody listens to must not stand in a full queue.
            is_over.set()
            while thread.is_alive():
                try:
                    ahead.get_nowait()
                except queue.Empty:
                    thread.join(0.01)
