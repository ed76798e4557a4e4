"""The reader of step rings: a file that a training process writes while we read it.

A record counts only where its sequence was even and the same before and after it was copied, and where its
CRC fits: a copy that was torn is left for the next look.
"""

from __future__ import annotations

import fcntl
import os
import struct
from dataclasses import dataclass
from zlib import crc32

import numpy as np
import numpy.typing as npt

from stepscope.model.error import InputError
from stepscope.model.mark import Identity
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
_GIVE = "give a file that stepscope_sdk wrote (…/NAME.ring)"
_TEXTS = (
    "job", "run", "host", "boot_id", "pod_uid", "pod", "namespace", "container", "container_id",
    "scheduler_job", "task", "framework", "script",
)  # fmt: skip
_NUMBERS = ("rank", "local_rank", "world_size", "restart", "pid")


@dataclass(frozen=True, slots=True)
class Part:
    """What one look gave: whole `records` in order (dtype `RECORD`), `number` the place of each since the
    ring began, and how many were overwritten before they were read."""

    records: npt.NDArray[np.void]
    number: npt.NDArray[np.int64]
    num_lost: int


class RingReader:
    """Reads one ring again and again, each record once."""

    def __init__(self, path: str) -> None:
        """InputError for what is no ring or not ready; OSError where it cannot be opened."""
        self.path = path
        with open(path, "rb") as file:
            head = file.read(abi.HEADER_BYTES)
        if len(head) < abi.HEADER_BYTES or head[:8] != abi.MAGIC:
            raise InputError(path, "no step ring, or not ready yet", _GIVE)
        version, header, size, num = struct.unpack_from("<IIII", head, 8)
        if version != abi.VERSION:
            raise InputError(path, f"a step ring of version {version}, known is {abi.VERSION}", _GIVE)
        if (
            header < abi.HEADER_BYTES
            or size != abi.RECORD_BYTES
            or not 2 <= num <= MOST_RECORDS
            or num & (num - 1)
        ):
            raise InputError(path, "a damaged step ring: its header makes no sense", _GIVE)
        if os.path.getsize(path) < header + num * size:
            raise InputError(path, "a step ring that is cut", _GIVE)
        self._map = np.memmap(path, dtype=np.uint8, mode="r", shape=(header + num * size,))
        self._header, self._num = header, num
        self._next = 0

    def identity(self) -> Identity:
        """Who writes, as far as it is known now."""
        texts = {name: self._text(name) or None for name in _TEXTS}
        numbers = {name: value if (value := self._int(name)) >= 0 else None for name in _NUMBERS}
        uuids = tuple(each for each in self._text("device_uuids").split(",") if each)
        return Identity(**texts, **numbers, device_uuids=uuids)  # type: ignore[arg-type]

    def names(self) -> tuple[str, ...]:
        """Names of values, phases and modules so far."""
        at = abi.place(abi.HEADER, "names").offset
        num = min(max(self._int("num_names"), 0), abi.MAX_NAMES)
        return tuple(self._at(at + n * abi.NAME_BYTES, abi.NAME_BYTES) for n in range(num))

    def poll(self) -> Part:
        """Every whole record since the last look."""
        area = self._map[self._header :].view(RECORD)
        before = area["seq"].copy()
        copy = area.copy()
        after = area["seq"].copy()
        good = (before == after) & (before % 2 == 0) & (before > 0) & (copy["seq"] == before)
        number = (before // 2).astype(np.int64) - 1
        good &= (number >= self._next) & (number % self._num == np.arange(self._num))
        rows = np.flatnonzero(good)
        rows = rows[np.argsort(number[rows], kind="stable")]
        if self._int("has_crc"):
            rows = rows[[_is_whole(copy[row].tobytes()) for row in rows.tolist()]] if len(rows) else rows
        # What lies behind a record that is being written waits with it: order is kept.
        found = number[rows]
        if not len(found):
            return Part(copy[rows], found, 0)
        newest = int(found[-1])
        oldest = max(self._next, newest - self._num + 1)
        lost = oldest - self._next
        gap = np.flatnonzero(found != np.arange(len(found)) + found[0])
        if len(gap) and newest - int(found[0]) < self._num // 2:
            rows, found = rows[: gap[0]], found[: gap[0]]
        lost = max(int(found[-1]) + 1 - self._next - len(found), 0)
        self._next = int(found[-1]) + 1
        return Part(copy[rows], found, lost)

    def is_alive(self) -> bool:
        """Whether the writer still holds the file; works over namespaces of pids."""
        with open(self.path, "rb") as file:
            asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = fcntl.fcntl(file, fcntl.F_GETLK, asked)
        return bool(struct.unpack("hhqqi4x", answer)[0] != fcntl.F_UNLCK)

    def _int(self, name: str) -> int:
        at = abi.place(abi.HEADER, name)
        return int(struct.unpack("<" + at.kind, self._map[at.offset : at.offset + at.size].tobytes())[0])

    def _text(self, name: str) -> str:
        at = abi.place(abi.HEADER, name)
        return self._at(at.offset, at.size)

    def _at(self, offset: int, size: int) -> str:
        raw = self._map[offset : offset + size].tobytes()
        return raw.split(b"\0", 1)[0].decode("utf-8", "replace")


def _is_whole(raw: bytes) -> bool:
    return crc32(raw[16:], crc32(raw[:12])) == int.from_bytes(raw[12:16], "little")
