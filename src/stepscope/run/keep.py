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
    """Keeps every ring of a folder. `poll` often enough that no ring turns over between two looks.

    A disk that takes nothing, and rings that the script removes, renames or cuts, are told by `lost`, never
    raised: what was kept until then stays readable.
    """

    def __init__(self, live: Path, kept: Path, most_records: int = MOST_RECORDS) -> None:
        self._live, self._kept, self._most = live, kept, most_records
        self._rings: dict[tuple[int, int], _Ring] = {}
        self._why: str | None = None

    @property
    def num_steps(self) -> int:
        """Steps that have ended, of the rank with the most."""
        return max((ring.num_steps for ring in self._rings.values()), default=0)

    @property
    def ranks(self) -> list[int | None]:
        """Of the rings so far."""
        return [ring.reader.identity().rank for ring in self._rings.values()]

    @property
    def lost(self) -> str | None:
        """How many records could not be kept, and why; `None` where all were."""
        num = sum(ring.num_lost for ring in self._rings.values())
        why = next((ring.why for ring in self._rings.values() if ring.why is not None), self._why)
        return None if why is None else f"{num} marks could not be kept: {why}"

    def poll(self) -> None:
        """Copy what is new. A ring that cannot be read yet is tried again the next time."""
        for path in sorted(self._live.glob("*" + abi.SUFFIX)):
            try:
                found = path.stat()
                key = (found.st_dev, found.st_ino)  # one that is renamed is still the same
                if key not in self._rings:
                    self._rings[key] = self._opened(path)
            except (InputError, OSError, ValueError):
                continue
        for ring in self._rings.values():
            ring.poll()

    def _opened(self, path: Path) -> _Ring:
        reader = RingReader(str(path))
        try:
            return _Ring(reader, self._kept / path.name, self._most)
        except OSError as error:
            reader.close()
            self._why = f"{path.name}: {_word(error)}"
            raise

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
        self.num_steps = self.num_lost = 0
        self.why: str | None = None
        self._num = 0
        self._header = reader.header()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:  # now, while there is room: without it nothing of what is kept can be read
            _write(self._file, self._header, 0)
        except OSError:
            os.close(self._file)
            raise

    def poll(self) -> None:
        try:
            part = self.reader.poll()
            header = self.reader.header()
        except OSError as error:
            self._lose(error, 0)
            return
        if not len(part.records):
            return
        if len(header) == abi.HEADER_BYTES and header.startswith(abi.MAGIC):  # of one that is cut, the last
            self._header = header
        self.num_steps += int((part.records["kind"] == abi.kind_number("step_end")).sum())
        raw = part.records.tobytes()
        for first, last in _runs(part.number.tolist(), self.most):
            at = abi.HEADER_BYTES + (int(part.number[first]) % self.most) * abi.RECORD_BYTES
            try:
                _write(self._file, raw[first * abi.RECORD_BYTES : last * abi.RECORD_BYTES], at)
                self._num = int(part.number[last - 1]) + 1
            except OSError as error:
                self._lose(error, last - first)

    def _lose(self, error: OSError, num: int) -> None:
        self.why = self.why or f"{self.path.name}: {_word(error)}"
        self.num_lost += num

    def is_alive(self) -> bool:
        try:
            return self.reader.is_alive()
        except OSError:
            return False

    def flush(self) -> None:
        size = 2
        while size < min(self._num, self.most):
            size *= 2
        header = bytearray(self._header)
        struct.pack_into("<I", header, abi.place(abi.HEADER, "num_records").offset, size)
        # What is in the file counts: of a header that says more, a reader would count the rest as lost.
        struct.pack_into("<Q", header, abi.place(abi.HEADER, "num_written").offset, self._num)
        try:
            os.ftruncate(self._file, abi.HEADER_BYTES + size * abi.RECORD_BYTES)
            _write(self._file, bytes(header), 0)
        except OSError as error:
            self._lose(error, 0)

    def close(self) -> None:
        os.close(self._file)


def _write(file: int, data: bytes, at: int) -> None:
    """All of it: the last write on a disk that runs full takes a part and says nothing."""
    while data:
        num = os.pwrite(file, data, at)
        data, at = data[num:], at + num


def _word(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _runs(numbers: list[int], most: int) -> list[tuple[int, int]]:
    """Stretches of records that lie side by side in a ring of `most` records."""
    cuts = [n for n in range(1, len(numbers)) if numbers[n] != numbers[n - 1] + 1 or numbers[n] % most == 0]
    return list(zip([0, *cuts], [*cuts, len(numbers)], strict=True))
