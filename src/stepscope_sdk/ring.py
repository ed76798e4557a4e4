"""The writer of a step ring: a mark is a few stores into mapped memory, without a system call.

A mark that finds the ring taken (another thread, or a collector or signal handler that runs inside a mark)
waits in a short queue and is written by the next one: no mark ever blocks.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import struct
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from zlib import crc32

from stepscope_sdk import ring_abi as abi

_HEAD = struct.Struct("<QHH")
_BODY = struct.Struct("<qqqqdd")
_REST = struct.Struct("<HHI48s")
_NUM_WRITTEN = abi.place(abi.HEADER, "num_written").offset >> 3
_NUM_NAMES = abi.place(abi.HEADER, "num_names").offset >> 3
_NAMES = abi.place(abi.HEADER, "names").offset
NAN = float("nan")
MOST_WAITING = 1024

Record = tuple[int, int, int, int, int, int, float, float]
"""kind, flags, step, mono_ns, real_ns, a, b, c"""
Write = Callable[..., int]

_open: weakref.WeakSet[Ring] = weakref.WeakSet()


class Ring:
    """One ring file, held by this process until it is closed. `write` is what marks are written with."""

    write: Write

    def __init__(
        self,
        path: str,
        identity: Mapping[str, str | int],
        *,
        num_records: int = abi.NUM_RECORDS,
        has_crc: bool = True,
        mode: int = 0o640,
        group: int | None = None,
        folder: int | None = None,
    ) -> None:
        """Make the file (in the open `folder`, where `path` is relative to one); `group` is a group's number.

        OSError where that cannot be done: the caller goes on without marks.
        """
        if num_records & (num_records - 1) or num_records < 2:
            raise ValueError(f"{num_records} records: not a power of two")
        self.path = path
        self.identity = dict(identity)
        size = abi.HEADER_BYTES + num_records * abi.RECORD_BYTES
        # O_EXCL: a link or a file that somebody planted under this name is never followed nor written.
        how = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, how, mode, dir_fd=folder)
        try:
            if group is not None:
                os.fchown(self._file, -1, group)
            os.fchmod(self._file, mode)  # whatever the umask is
            _reserve(self._file, size)  # a full disk says so here, not by a signal in a mark
            hold(self._file)
            self._map = mmap.mmap(self._file, size)
        except OSError:
            os.close(self._file)
            os.unlink(path, dir_fd=folder)
            raise
        self._bytes = memoryview(self._map)
        self._words = self._bytes.cast("Q")
        self._names: dict[str, int] = {}
        self._naming = threading.Lock()
        self.write = _writer(self._bytes, self._words, num_records - 1, has_crc)
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
        self._bytes[0:8] = abi.MAGIC
        _open.add(self)

    def set(self, **values: str | int) -> None:
        """Write fields of the header. Text that is too long is cut."""
        for name, value in values.items():
            at = abi.place(abi.HEADER, name)
            if at.kind == "s":
                self._bytes[at.offset : at.offset + at.size] = _cut(str(value), at.size)
            else:
                struct.pack_into("<" + at.kind, self._bytes, at.offset, int(value))

    def name(self, text: str) -> int:
        """The place of a name in the table of names; -1 where the table is full or just being written."""
        found = self._names.get(text)
        if found is not None:
            return found
        # Never waits: this may run in a signal handler that interrupted this very function.
        if not self._naming.acquire(False):
            return -1
        try:
            number = len(self._names)
            if number >= abi.MAX_NAMES:
                return -1
            at = _NAMES + number * abi.NAME_BYTES
            self._bytes[at : at + abi.NAME_BYTES] = _cut(text, abi.NAME_BYTES)
            self._words[_NUM_NAMES] = number + 1
            self._names[text] = number
            return number
        finally:
            self._naming.release()

    def close(self) -> None:
        """Let go of the file; it stays, for whoever reads it. Later marks raise ValueError."""
        _open.discard(self)
        try:
            self._words.release()
            self._bytes.release()
            self._map.close()
        except BufferError:  # another thread is in a mark at this instant: the mapping goes with the process
            pass
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _writer(view: memoryview, words: memoryview, mask: int, has_crc: bool) -> Write:
    """The function that writes records. Its state lives in its own names: they are faster than attributes."""
    lock = threading.Lock()
    acquire, release = lock.acquire, lock.release
    waiting: deque[Record] = deque(maxlen=MOST_WAITING)
    pack_head, pack_body, pack_rest = _HEAD.pack, _BODY.pack, _REST.pack_into
    monotonic_ns, time_ns = time.monotonic_ns, time.time_ns
    first = abi.HEADER_BYTES
    number = 0

    def put(
        kind: int, flags: int, step: int, mono: int, real: int, a: int, b: float, c: float
    ) -> None:  # with the lock held
        nonlocal number
        seq = 2 * number + 2
        # All that may fail for what was given comes before the first store.
        body = pack_body(step, mono, real, a, b, c)
        head = pack_head(seq, kind, flags)
        crc = crc32(body, crc32(head)) if has_crc else 0
        at = first + ((number & mask) << 6)
        word = at >> 3
        words[word] = seq - 1
        pack_rest(view, at + 8, kind, flags, crc, body)
        words[word] = seq
        number += 1
        words[_NUM_WRITTEN] = number

    def drain() -> None:
        while waiting and acquire(False):
            try:
                while waiting:
                    put(*waiting.popleft())
            except struct.error:  # what was given for that one is no number: it goes, the others stay
                pass
            finally:
                release()

    def write(
        kind: int,
        flags: int,
        step: int,
        a: int = 0,
        b: float = NAN,
        c: float = NAN,
        at: tuple[int, int] | None = None,
    ) -> int:
        """Write one record of now, or of `at` (CLOCK_MONOTONIC, CLOCK_REALTIME); its monotonic time in ns."""
        if at is None:
            mono, real = monotonic_ns(), time_ns()
        else:
            mono, real = at
        if waiting:
            drain()
        if acquire(False):
            try:
                put(kind, flags, step, mono, real, a, b, c)
            finally:
                release()
        else:
            waiting.append((kind, flags, step, mono, real, a, b, c))
        if waiting:
            drain()
        return mono

    return write


def _reserve(file: int, size: int) -> None:
    """Room for the whole file, zeros; OSError where there is none."""
    try:
        os.posix_fallocate(file, 0, size)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
            raise
        for at in range(0, size, abi.HEADER_BYTES):  # a file system that cannot: what is written has room
            if os.pwrite(file, bytes(min(abi.HEADER_BYTES, size - at)), at) == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None


def hold(file: int) -> None:
    """Lock the whole file for as long as it is open: the sign of life. OSError where another holds it.

    A lock of the open file, not of the process: one of the process is lost as soon as this process closes
    any descriptor of the file, as a reader in it would.
    """
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, asked)
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and isinstance(error, BlockingIOError | PermissionError):
            raise
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a kernel that has no others


def is_held(file: int) -> bool:
    """Whether somebody holds the open file by `hold`; works over namespaces of processes."""
    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    answer = fcntl.fcntl(file, fcntl.F_GETLK, asked)
    return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)


def _cut(text: str, size: int) -> bytes:
    """`size` bytes of text, ended by a zero byte at least; no character is cut in two."""
    raw = text.encode("utf-8", "replace").replace(b"\0", b" ")[: size - 1]
    return raw.decode("utf-8", "ignore").encode().ljust(size, b"\0")


def _abandon() -> None:
    """In a forked child: no ring of the parent is reachable any more, not even by a mark that the fork
    interrupted: its next store finds the view released. The parent keeps its file and its lock."""
    for ring in list(_open):
        ring.close()


os.register_at_fork(after_in_child=_abandon)
