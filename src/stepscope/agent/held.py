"""Batches that are in memory since the disk fails: the newest of them, bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator


class Held:
    """Frames by number, ascending. Above `most_bytes` the oldest go, and are counted."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._frames: deque[tuple[int, bytes]] = deque()
        self._num_bytes = 0
        self._lost: tuple[int, int, int] | None = None

    def __len__(self) -> int:
        return len(self._frames)

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return iter(self._frames)

    def add(self, seq: int, frame: bytes) -> int:
        """How many had to go for it."""
        self._frames.append((seq, frame))
        self._num_bytes += len(frame)
        num = 0
        while self._num_bytes > self._most_bytes and len(self._frames) > 1:
            lost = self.pop()
            num += 1
            first, _, count = self._lost or (lost, lost, 0)
            self._lost = (first, lost, count + 1)
        return num

    def pop(self) -> int:
        """Let the oldest go: its number."""
        seq, frame = self._frames.popleft()
        self._num_bytes -= len(frame)
        return seq

    def drop_to(self, seq: int) -> None:
        """A receiver has all up to a number."""
        while self._frames and self._frames[0][0] <= seq:
            self.pop()

    def take(self) -> list[tuple[int, bytes]]:
        """All of them; none is held any more."""
        taken = list(self._frames)
        self._frames.clear()
        self._num_bytes = 0
        return taken

    def lost(self) -> tuple[int, int, int] | None:
        """(first, last, count) of what went since this was last asked; `None` for nothing."""
        lost, self._lost = self._lost, None
        return lost
