"""The reader of step rings: a file that a training process writes while we read it.

The file is read, never mapped: whoever cuts a mapped file ends its reader by a signal. A record counts only
where its sequence is the one that belongs to its place and its CRC fits; without CRCs, where two copies in
turn are the same. Nothing of the file is trusted: numbers are bounded, texts freed of control characters.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import struct
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from stepscope.model.error import InputError
from stepscope.model.mark import Identity
from stepscope.model.redact import without_secrets
from stepscope_sdk import ring_abi as abi

_NUMPY = {"Q": "u8", "H": "u2", "I": "u4", "q": "i8", "d": "f8"}
RECORD = np.dtype(
    {
        "names": [each.name for each in abi.RECORD],
        "formats": ["<" + _NUMPY[each.kind] for each in abi.RECORD],
        "offsets": [each.offset for each in abi.RECORD],
        "itemsize": abi.RECORD_BYTES,
    }
)  # fmt: skip
MOST_RECORDS = 1 << 22
FIRST_NS, LAST_NS = 946_684_800_000_000_000, 4_102_444_800_000_000_000
"""2000 and 2100: a wall clock outside was never set, or is no time."""
MOST_LOOKS = 3
"""At records behind which there is a whole one already: so often torn, they are damaged."""
_MOST_NUMBER = 1 << 56
"""No ring comes to so many records: at a million a second it takes two thousand years."""
_LOOKED_AT = 4_096
_GIVE = "give a file that stepscope_sdk wrote (…/NAME.ring)"
_TEXTS = (
    "job", "run", "host", "boot_id", "pod_uid", "pod", "namespace", "container", "container_id",
    "scheduler_job", "task", "framework", "script",
)  # fmt: skip
_NUMBERS = ("rank", "local_rank", "world_size", "restart", "pid")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Part:
    """What one look gave: whole `records` in order (dtype `RECORD`), `number` the place of each since the
    ring began, and how many before the last of them are lost: overwritten before they were read, or, of these
    `num_damaged`, not whole though nothing can have overwritten them."""

    records: npt.NDArray[np.void]
    number: npt.NDArray[np.int64]
    num_lost: int
    num_damaged: int = 0


class RingReader:
    """Reads one ring again and again, each record once. Keeps the file open until `close`."""

    def __init__(self, path: str, start: int = 0) -> None:
        """From the `start`-th record on. InputError for what is no ring or not ready; OSError where it cannot
        be opened."""
        self.path = path
        # O_NONBLOCK: a pipe under a ring's name must not make us wait for its writer.
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            at = os.fstat(self._file)
            if not stat.S_ISREG(at.st_mode):
                raise InputError(path, "no step ring: not a file", _GIVE)
            head = self._head()
            if len(head) < abi.HEADER_BYTES or head[:8] != abi.MAGIC:
                raise InputError(path, "no step ring, or not ready yet", _GIVE)
            version, header, size, num = struct.unpack_from("<IIII", head, 8)
            if version != abi.VERSION:
                raise InputError(path, f"a step ring of version {version}, known is {abi.VERSION}", _GIVE)
            if (
                not abi.HEADER_BYTES <= header <= abi.HEADER_BYTES << 8
                or size != abi.RECORD_BYTES
                or not 2 <= num <= MOST_RECORDS
                or num & (num - 1)
            ):
                raise InputError(path, "a damaged step ring: its header makes no sense", _GIVE)
            if at.st_size < header + num * size:
                raise InputError(path, "a step ring that is cut", _GIVE)
        except BaseException:
            self.close()
            raise
        self._header, self._num, self._next = header, num, max(start, 0)
        self._has_crc = bool(_number(head, "has_crc"))

    def identity(self) -> Identity:
        """Who writes, as far as it is known now."""
        head = self._whole_head()
        texts = {name: _text(head, name) or None for name in _TEXTS}
        numbers = {name: value if (value := _number(head, name)) >= 0 else None for name in _NUMBERS}
        uuids = tuple(each for each in _text(head, "device_uuids").split(",") if each)
        return Identity(**texts, **numbers, device_uuids=uuids)  # type: ignore[arg-type]

    def created_ns(self) -> tuple[int, int]:
        """CLOCK_MONOTONIC and CLOCK_REALTIME when the ring was made; where the second is no time that of the
        file's last change."""
        head = self._head().ljust(abi.HEADER_BYTES, b"\0")
        real = _number(head, "created_real_ns")
        if not FIRST_NS <= real < LAST_NS:
            real = os.fstat(self._file).st_mtime_ns
        return _number(head, "created_mono_ns"), real

    def names(self) -> tuple[str, ...]:
        """Names of values, phases and modules so far."""
        head = self._head().ljust(abi.HEADER_BYTES, b"\0")
        at = abi.place(abi.HEADER, "names").offset
        num = min(_number(head, "num_names"), abi.MAX_NAMES)
        return tuple(_clean(head[at + n * abi.NAME_BYTES :][: abi.NAME_BYTES]) for n in range(num))

    def poll(self) -> Part:
        """Every whole record since the last look."""
        # One more than told: the writer may have died between a record and its count.
        newest = self._num_written() + 1
        first = max(self._next, newest - 1 - self._num)
        if newest <= first:
            return Part(np.empty(0, RECORD), np.empty(0, np.int64), 0)
        numbers = np.arange(first, newest, dtype=np.int64)
        records = np.empty(len(numbers), RECORD)
        is_whole = np.zeros(len(numbers), np.bool_)
        for _ in range(MOST_LOOKS):
            wanted = np.flatnonzero(~is_whole)
            records[wanted], is_whole[wanted] = self._look(numbers[wanted])
            known = np.flatnonzero(is_whole)
            # Records are written one after the other: before a whole one none is being written, only torn in
            # our copy, overtaken, or damaged. What lies behind the last whole one waits for the next look.
            if not len(known) or is_whole[: known[-1] + 1].all():
                break
        found = np.flatnonzero(is_whole)
        if not len(found):
            return Part(records[:0], numbers[:0], 0)
        last = int(numbers[found[-1]])
        num_lost = last + 1 - self._next - len(found)
        self._next = last + 1
        # The writer may have gone on meanwhile: what it has come to by now is no damage.
        torn = numbers[: found[-1]][~is_whole[: found[-1]]]
        num_damaged = int((torn >= self._num_written() - self._num).sum()) if len(torn) else 0
        return Part(records[found], numbers[found], num_lost, num_damaged)

    def has_damage(self) -> bool:
        """Whether the ring tells of records, or holds bytes where these would be, and none is whole."""
        head = self._head().ljust(abi.HEADER_BYTES, b"\0")
        is_empty = not _number(head, "num_written") and not any(os.pread(self._file, 1 << 16, self._header))
        return not is_empty and not self._scanned()

    def _num_written(self) -> int:
        """How many records were written. The header's count is a hint: where no whole record bears it out, or
        more follow than it knows of, the records themselves are counted."""
        told = _number(self._head().ljust(abi.HEADER_BYTES, b"\0"), "num_written")
        if told <= _MOST_NUMBER:
            copy, is_whole = self._look(np.array([max(told - 1, 0), told + 1], dtype=np.int64))
            # Of a ring that nobody wrote into the first place is empty, or just being written.
            is_borne_out = is_whole[0] if told else is_whole[0] or int(copy["seq"][0]) <= 2
            if is_borne_out and not is_whole[1]:
                return told
        return self._scanned() or min(told, _MOST_NUMBER)

    def _scanned(self) -> int:
        """One more than the highest number of a whole record, 0 where there is none."""
        places = np.arange(self._num, dtype=np.int64)
        number = (self._copy(places)["seq"] // np.uint64(2)).astype(np.int64) - 1
        likely = number[(number >= 0) & (number <= _MOST_NUMBER) & (number % self._num == places)]
        likely = np.sort(likely)[::-1]
        for low in range(0, len(likely), _LOOKED_AT):
            some = np.sort(likely[low : low + _LOOKED_AT])
            whole = some[self._look(some)[1]]
            if len(whole):
                return int(whole[-1]) + 1
        return 0

    def is_alive(self) -> bool:
        """Whether the writer still holds the file; works over namespaces of pids."""
        asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(self._file, fcntl.F_GETLK, asked)
        return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)

    def is_removed(self) -> bool:
        """Whether the file has no name any more; its writer may go on writing into it."""
        return os.fstat(self._file).st_nlink == 0

    def close(self) -> None:
        """Let go of the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> RingReader:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self.close()

    def _look(self, numbers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.void], npt.NDArray[np.bool_]]:
        """A copy of these records, and which of them are whole."""
        copy = self._copy(numbers)
        good = copy["seq"] == (2 * numbers + 2).astype(np.uint64)
        if self._has_crc:
            raw, size = copy.tobytes(), abi.RECORD_BYTES
            rows = np.flatnonzero(good)
            good[rows] = [_is_whole(raw[row * size : (row + 1) * size]) for row in rows.tolist()]
        elif good.any():
            one, two = (each.view(np.uint8).reshape(len(numbers), -1) for each in (copy, self._copy(numbers)))
            good &= (one == two).all(axis=1)
        return copy, good

    def _copy(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """Copies of the places of ascending `numbers` of one ring's length; zeros beyond the end."""
        size = abi.RECORD_BYTES
        area = bytearray(len(numbers) * size)
        cuts = np.flatnonzero((np.diff(numbers) != 1) | (numbers[1:] % self._num == 0)) + 1
        for run in np.split(np.arange(len(numbers)), cuts):
            place = int(numbers[run[0]]) % self._num
            raw = os.pread(self._file, len(run) * size, self._header + place * size)
            area[run[0] * size : run[0] * size + len(raw)] = raw
        return np.frombuffer(bytes(area), RECORD)

    def _head(self) -> bytes:
        return os.pread(self._file, abi.HEADER_BYTES, 0)

    def _whole_head(self) -> bytes:
        """The header as it stood still: a text that is being written is read again."""
        at = abi.place(abi.HEADER, "job").offset
        head = self._head()
        for _ in range(MOST_LOOKS):
            again = self._head()
            if again[at:] == head[at:]:
                break
            head = again
        return head.ljust(abi.HEADER_BYTES, b"\0")


def _is_whole(raw: bytes) -> bool:
    return crc32(raw[16:], crc32(raw[:12])) == int.from_bytes(raw[12:16], "little")


def _number(head: bytes, name: str) -> int:
    at = abi.place(abi.HEADER, name)
    return int(struct.unpack_from("<" + at.kind, head, at.offset)[0])


def _text(head: bytes, name: str) -> str:
    at = abi.place(abi.HEADER, name)
    return without_secrets(_clean(head[at.offset : at.offset + at.size]))[0]


def _clean(raw: bytes) -> str:
    return _CONTROL.sub(" ", raw.split(b"\0", 1)[0].decode("utf-8", "replace")).strip()
