"""Rings that forget, kept whole: records are copied to a ring of the same layout that is large enough.

What is kept is a step ring itself: whatever reads rings reads it, and it can be diagnosed again later.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from stepscope.model.error import InputError
from stepscope.sources.ring import RingReader
from stepscope_sdk import ring_abi as abi

MOST_RECORDS = 1 << 21
"""Of one rank: 128 MiB. A step has about ten records; of a longer run the newest stay."""


class Keeper:
    """Keeps every ring of a folder. `poll` often enough that no ring turns over between two looks."""

    def __init__(self, live: Path, kept: Path, most_records: int = MOST_RECORDS) -> None:
        self._live, self._kept, self._most = live, kept, most_records
        self._rings: dict[str, _Ring] = {}

    @property
    def num_steps(self) -> int:
        """Steps that have ended, of the rank with the most."""
        return max((ring.num_steps for ring in self._rings.values()), default=0)

    @property
    def ranks(self) -> list[int | None]:
        """Of the rings so far."""
        return [ring.reader.identity().rank for ring in self._rings.values()]

    def poll(self) -> None:
        """Copy what is new. A ring that cannot be read yet is tried again the next time."""
        for path in sorted(self._live.glob("*" + abi.SUFFIX)):
            ring = self._rings.get(path.name)
            if ring is None:
                try:
                    ring = _Ring(RingReader(str(path)), self._kept / path.name, self._most)
                except (InputError, OSError, ValueError):
                    continue
                self._rings[path.name] = ring
            ring.poll()

    @property
    def alive(self) -> list[str]:
        """Paths of the live rings whose writer still holds them."""
        return [ring.reader.path for ring in self._rings.values() if ring.is_alive()]

    def flush(self) -> None:
        """Make what was kept so far readable."""
        for ring in self._rings.values():
            ring.flush()

    def close(self) -> None:
        """Read what is left, and make all of it readable."""
        for ring in self._rings.values():
            ring.poll()
            ring.flush()
            ring.close()


class _Ring:
    def __init__(self, reader: RingReader, path: Path, most: int) -> None:
        self.reader, self.path, self.most = reader, path, most
        self.num_steps = 0
        self._num = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def poll(self) -> None:
        part = self.reader.poll()
        if not len(part.records):
            return
        self.num_steps += int((part.records["kind"] == abi.kind_number("step_end")).sum())
        raw = part.records.tobytes()
        for first, last in _runs(part.number.tolist(), self.most):
            at = abi.HEADER_BYTES + (int(part.number[first]) % self.most) * abi.RECORD_BYTES
            os.pwrite(self._file, raw[first * abi.RECORD_BYTES : last * abi.RECORD_BYTES], at)
        self._num = int(part.number[-1]) + 1

    def is_alive(self) -> bool:
        try:
            return self.reader.is_alive()
        except OSError:
            return False

    def flush(self) -> None:
        size = 2
        while size < min(self._num, self.most):
            size *= 2
        with open(self.reader.path, "rb") as file:
            header = bytearray(file.read(abi.HEADER_BYTES))
        struct.pack_into("<I", header, abi.place(abi.HEADER, "num_records").offset, size)
        os.ftruncate(self._file, abi.HEADER_BYTES + size * abi.RECORD_BYTES)
        os.pwrite(self._file, bytes(header), 0)

    def close(self) -> None:
        os.close(self._file)


def _runs(numbers: list[int], most: int) -> list[tuple[int, int]]:
    """Stretches of records that lie side by side in a ring of `most` records."""
    cuts = [n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1] + 1 or numbers[n] % most == 0]
    return list(zip([0, *cuts], [*cuts, len(numbers)], strict=True))
