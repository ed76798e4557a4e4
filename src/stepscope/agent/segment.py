"""The segments of a spool on its disk: written in turn, bounded, read from any number on.

Nothing here decides what to do about a disk that fails: every OSError goes to the caller, and what was
written before it is whole.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stepscope.model.error import InputError
from stepscope.sources.formats.frame import (
    HEADER_BYTES,
    SUFFIX,
    Fault,
    Frame,
    Header,
    frames_of,
    header_of,
    pack_header,
)


@dataclass(slots=True)
class Segment:
    """One file: frames `first_seq` to `last_seq` (below `first_seq`: none yet)."""

    path: Path
    first_seq: int
    last_seq: int
    num_bytes: int
    num_frames: int = 0


@dataclass(frozen=True, slots=True)
class Dropped:
    """Frames that were given up for room, of which none had been acknowledged."""

    first_seq: int
    last_seq: int
    num_frames: int


class Segments:
    """The segments of one agent in one folder. One thread at a time."""

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self.folder = folder
        self.segment_bytes = segment_bytes
        self.segments: list[Segment] = []
        self.num_bytes = 0
        self.damage: list[tuple[str, Fault]] = []
        """What was found damaged, by file name: the caller tells it and empties the list."""
        self._file: int | None = None
        self._cursor: tuple[Path, int, int] | None = None
        """(segment, byte, number): frames up to that number end at that byte."""

    @property
    def last_seq(self) -> int:
        """Of all that was ever written here, as far as the folder tells; 0 for nothing."""
        return max((each.last_seq for each in self.segments), default=0)

    def find(self, agent: str | None) -> str | None:
        """Look at what is there: the id given, else that of the first segment, `None` of an empty folder. Cut
        tails are taken off."""
        for path in sorted(self.folder.glob(f"*{SUFFIX}")):
            found = self._scan(path)
            if found is None:
                continue
            header, segment = found
            agent = agent or header.agent
            if header.agent != agent:  # put there by hand: not ours to ship, nor to delete
                continue
            if segment.num_frames:
                self.segments.append(segment)
                self.num_bytes += segment.num_bytes
            else:
                with contextlib.suppress(OSError):
                    path.unlink()
        return agent

    def _scan(self, path: Path) -> tuple[Header, Segment] | None:
        size = path.stat().st_size
        if size < HEADER_BYTES:  # killed before its header was whole
            self.damage.append((path.name, Fault(0, size, True)))
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        faults: list[Fault] = []
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                header = header_of(data[:HEADER_BYTES], path.name)
            except InputError:
                self.damage.append((path.name, Fault(0, size, False)))
                return None
            segment = Segment(path, header.first_seq, header.first_seq - 1, size)
            for frame in frames_of(data, header, faults):
                segment.last_seq = frame.seq
                segment.num_frames += 1
        self.damage += [(path.name, fault) for fault in faults]
        if faults and faults[-1].start + faults[-1].num_bytes == size:
            segment.num_bytes = faults[-1].start
            with contextlib.suppress(OSError):
                os.truncate(path, faults[-1].start)
        return header, segment

    def write(self, agent: str, seq: int, frame: bytes) -> None:
        """Behind the last one, in a new segment where that is full or numbers skip."""
        current = self.segments[-1] if self._file is not None else None
        if (
            current is None
            or current.last_seq + 1 != seq
            or current.num_bytes + len(frame) > max(self.segment_bytes, HEADER_BYTES + len(frame))
        ):
            current = self._begin(agent, seq)
        assert self._file is not None
        try:
            _write_all(self._file, frame)
        except OSError:
            # The part that was written must not stay: a later frame would lie behind it.
            try:
                os.ftruncate(self._file, current.num_bytes)
                os.lseek(self._file, current.num_bytes, os.SEEK_SET)
            except OSError:
                self.end()
            raise
        current.num_bytes += len(frame)
        current.num_frames += 1
        current.last_seq = seq
        self.num_bytes += len(frame)

    def _begin(self, agent: str, seq: int) -> Segment:
        self.sync()
        self.end()
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{seq:020d}{SUFFIX}"
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640)
        try:
            _write_all(file, pack_header(Header(agent, seq)))
            _sync_folder(self.folder)
        except OSError:
            os.close(file)
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        self._file = file
        segment = Segment(path, seq, seq - 1, HEADER_BYTES)
        self.segments.append(segment)
        self.num_bytes += HEADER_BYTES
        return segment

    def sync(self) -> None:
        """What was written is on the disk when this returns."""
        if self._file is not None:
            os.fsync(self._file)

    def descriptor(self) -> int | None:
        """A copy of the open file's descriptor, for another thread to sync and close."""
        return os.dup(self._file) if self._file is not None else None

    def end(self) -> None:
        """Write no more into the current segment."""
        if self._file is not None:
            file, self._file = self._file, None
            with contextlib.suppress(OSError):
                os.close(file)
            if not self.segments[-1].num_frames:
                empty = self.segments.pop()
                self.num_bytes -= empty.num_bytes
                with contextlib.suppress(OSError):
                    empty.path.unlink()

    def can_drop(self, acknowledged: int | None = None) -> bool:
        """Whether there is a segment that is not being written; and, with a number given, whether all of the
        oldest one is acknowledged."""
        if len(self.segments) < (2 if self._file is not None else 1):
            return False
        return acknowledged is None or self.segments[0].last_seq <= acknowledged

    def drop_oldest(self, acknowledged: int) -> Dropped | None:
        """Give up the oldest segment: what of it was not acknowledged, `None` where all was."""
        oldest = self.segments[0]
        with contextlib.suppress(FileNotFoundError):
            oldest.path.unlink()
        del self.segments[0]
        self.num_bytes -= oldest.num_bytes
        if oldest.last_seq <= acknowledged:
            return None
        first = max(oldest.first_seq, acknowledged + 1)
        return Dropped(first, oldest.last_seq, min(oldest.num_frames, oldest.last_seq - first + 1))

    def frames_after(self, seq: int, most_bytes: int) -> list[Frame]:
        """Frames above a number, oldest first: `most_bytes` of them together at most, or one."""
        found: list[Frame] = []
        left = most_bytes
        for segment in list(self.segments):
            if segment.last_seq <= seq:
                continue
            try:
                for frame in self._of(segment, seq):
                    if found and len(frame.raw) > left:
                        return found
                    found.append(frame)
                    left -= len(frame.raw)
            except (OSError, InputError):  # taken away or overwritten from outside
                self._lose(segment)
        return found

    def _lose(self, segment: Segment) -> None:
        if segment is self.segments[-1]:
            self.end()
        if segment in self.segments:
            self.segments.remove(segment)
            self.num_bytes -= segment.num_bytes
        self.damage.append((segment.path.name, Fault(0, segment.num_bytes, False)))

    def _of(self, segment: Segment, seq: int) -> Iterator[Frame]:
        start = HEADER_BYTES
        if self._cursor is not None and self._cursor[0] == segment.path and self._cursor[2] <= seq:
            start = self._cursor[1]
        faults: list[Fault] = []
        with segment.path.open("rb") as file:
            header = header_of(file.read(HEADER_BYTES), segment.path.name)
            file.seek(start)
            data = file.read(segment.num_bytes - start)
        for frame in frames_of(data, header, faults, 0):
            if frame.seq <= seq:
                self._cursor = (segment.path, start + frame.end, frame.seq)
            else:
                yield frame


def _write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def _sync_folder(folder: Path) -> None:
    """So that a new segment's name is on the disk too."""
    file = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
