"""The writer of a step ring: a mark is a few stores into mapped memory, without a system call.

A mark that finds the ring taken (another thread, or a collector that runs inside a mark) waits in a short
queue and is written by the next one: no mark ever blocks.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
import threading
import time
from collections import deque
from collections.abc import Mapping
from zlib import crc32

from stepscope_sdk import ring_abi as abi

_RECORD = struct.Struct("<QHHIqqqqdd")
_HEAD = struct.Struct("<QHH")
_BODY = struct.Struct("<qqqqdd")
NAN = float("nan")
MOST_WAITING = 1024


class Ring:
    """One ring file, held by this process until it is closed."""

    def __init__(
        self,
        path: str,
        identity: Mapping[str, str | int],
        *,
        num_records: int = abi.NUM_RECORDS,
        has_crc: bool = True,
        mode: int = 0o640,
    ) -> None:
        """Make the file. OSError where that cannot be done: the caller goes on without marks."""
        if num_records & (num_records - 1) or num_records < 2:
            raise ValueError(f"{num_records} records: not a power of two")
        self.path = path
        size = abi.HEADER_BYTES + num_records * abi.RECORD_BYTES
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        try:
            os.posix_fallocate(self._file, 0, size)  # a full disk says so here, not by a signal in a mark
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # of this process alone, not of a fork
            self._map = mmap.mmap(self._file, size)
        except OSError:
            os.close(self._file)
            os.unlink(path)
            raise
        self._words = memoryview(self._map).cast("Q")
        self._mask = num_records - 1
        self._has_crc = has_crc
        self._num = 0
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, int, int, int, int, int, float, float]] = deque(maxlen=MOST_WAITING)
        self._names: dict[str, int] = {}
        self.set(
            version=abi.VERSION,
            header_bytes=abi.HEADER_BYTES,
            record_bytes=abi.RECORD_BYTES,
            num_records=num_records,
            created_mono_ns=time.monotonic_ns(),
            created_real_ns=time.time_ns(),
            pid=os.getpid(),
            has_crc=int(has_crc),
            **identity,
        )
        self._map[0:8] = abi.MAGIC

    def set(self, **values: str | int) -> None:
        """Write fields of the header. Text that is too long is cut."""
        for name, value in values.items():
            at = abi.place(abi.HEADER, name)
            if at.kind == "s":
                text = str(value).encode("utf-8", "replace")[: at.size - 1]
                self._map[at.offset : at.offset + at.size] = text.ljust(at.size, b"\0")
            else:
                struct.pack_into("<" + at.kind, self._map, at.offset, int(value))

    def name(self, text: str) -> int:
        """The place of a name in the table of names, -1 where the table is full."""
        found = self._names.get(text)
        if found is not None:
            return found
        with self._lock:
            if text in self._names:
                return self._names[text]
            number = len(self._names)
            if number >= abi.MAX_NAMES:
                return -1
            at = abi.place(abi.HEADER, "names").offset + number * abi.NAME_BYTES
            raw = text.encode("utf-8", "replace")[: abi.NAME_BYTES - 1]
            self._map[at : at + abi.NAME_BYTES] = raw.ljust(abi.NAME_BYTES, b"\0")
            self._names[text] = number
            self._words[abi.place(abi.HEADER, "num_names").offset >> 3] = number + 1
            return number

    def write(self, kind: int, flags: int, step: int, a: int = 0, b: float = NAN, c: float = NAN) -> int:
        """Write one record of now; its CLOCK_MONOTONIC time in nanoseconds."""
        mono = time.monotonic_ns()
        record = (kind, flags, step, mono, time.time_ns(), a, b, c)
        if not self._lock.acquire(False):
            self._waiting.append(record)
            return mono
        try:
            while self._waiting:
                self._put(*self._waiting.popleft())
            self._put(*record)
        finally:
            self._lock.release()
        return mono

    def _put(
        self, kind: int, flags: int, step: int, mono: int, real: int, a: int, b: float, c: float
    ) -> None:
        number = self._num
        at = abi.HEADER_BYTES + (number & self._mask) * abi.RECORD_BYTES
        seq = 2 * number + 2
        body = _BODY.pack(step, mono, real, a, b, c)
        head = _HEAD.pack(seq, kind, flags)
        crc = crc32(body, crc32(head)) if self._has_crc else 0
        words = self._words
        words[at >> 3] = seq - 1
        self._map[at + 8 : at + 64] = head[8:] + crc.to_bytes(4, "little") + body
        words[at >> 3] = seq
        self._num = number + 1
        words[8] = number + 1  # num_written

    def close(self) -> None:
        """Let go of the file; it stays, for whoever reads it."""
        self._words.release()
        self._map.close()
        os.close(self._file)
