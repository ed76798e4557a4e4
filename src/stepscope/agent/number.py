"""Whose spool it is, how far its numbers have come, and which of them may leave it. Holds the folder's lock.

A number that has left must never name another batch, whatever happened in between: so numbers leave only up
to what is reserved on the disk, and after a kill they go on above that.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path

import msgspec

from stepscope.agent.position import Position, read_position, write_position
from stepscope.agent.segment import Segments
from stepscope.model.error import RefusedError

RESERVE = 1 << 20
"""Numbers that may leave the spool before its position must be written again."""
SKIP = 1 << 32
"""How far numbers skip where the position is lost: more than can have been in use behind the last segment."""


class Numbers:
    """Of one folder. `agent` is the id of a spool that is new. `next` is the number of the next batch."""

    def __init__(self, folder: Path, agent: str) -> None:
        self._folder = folder
        self._position = Position(agent)
        self._lock: int | None = None
        self.next = 1
        self.is_looked = False
        """Whether the folder could be looked into: before that, the id and the numbers are a guess."""
        self._is_new = False

    @property
    def agent(self) -> str:
        return self._position.agent

    @property
    def acknowledged(self) -> int:
        return self._position.acknowledged

    def look(self, segments: Segments) -> None:
        """Find out whose spool it is and how far it has come. OSError where the folder cannot be read, or
        (after all that) not be locked; RefusedError where another process has it."""
        failed: OSError | None = None
        try:
            self.claim()
        except OSError as error:  # read-only: what is there can be shipped all the same
            failed = error
        position = read_position(self._folder)
        found = segments.find(position.agent if position is not None else None)
        last_seq = segments.last_seq
        if position is None and found is not None:  # lost or damaged: numbers must not be used twice
            position = Position(found, reserved=last_seq + SKIP)
        self._is_new = position is None
        self._position = position or self._position
        self.next = max(self._position.reserved, self._position.acknowledged, last_seq) + 1
        self.is_looked = True
        if failed is not None:
            raise failed

    def claim(self) -> None:
        """Make the folder ours. RefusedError where another process has it, OSError where it cannot be."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._lock is not None:
            return
        try:
            file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o640)
        except OSError:
            file = os.open(self._folder / "lock", os.O_RDONLY)  # of a disk that is read-only now
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise RefusedError(
                f"{self._folder}: another agent writes this spool; end it, or name another folder"
            ) from None
        self._lock = file

    def release(self, *, is_in_order: bool) -> None:
        """Give the folder back; `is_in_order`: the next one may go on with the next number."""
        if self._lock is None:
            return
        if is_in_order:
            with contextlib.suppress(OSError):
                self._write(msgspec.structs.replace(self._position, reserved=self.next - 1))
        os.close(self._lock)
        self._lock = None

    def reserve(self, seq: int | None = None) -> None:
        """Numbers up to `RESERVE` from here may leave; with `seq`, only where that one comes near the end of
        those that may. OSError where that cannot be written."""
        if seq is None or self._is_new or seq > self._position.reserved - RESERVE // 2:
            self._write(msgspec.structs.replace(self._position, reserved=self.next - 1 + RESERVE))

    def may_leave(self, seq: int) -> bool:
        """Whether no later process can use the number again: it is reserved, or the id is on no disk yet."""
        return self._is_new or (self.is_looked and seq <= self._position.reserved)

    def acknowledge(self, seq: int) -> bool:
        """A receiver has everything up to `seq`. False where that says nothing new, or cannot be."""
        if not self._position.acknowledged < seq < self.next:
            return False
        self._position = msgspec.structs.replace(self._position, acknowledged=seq)
        if not self._is_new:
            # A position that is lost costs shipping twice, which a receiver sees: no need to wait for it.
            with contextlib.suppress(OSError):
                self._position = write_position(self._folder, self._position, is_synced=False)
        return True

    def _write(self, position: Position) -> None:
        self._position = write_position(self._folder, position)
        self._is_new = False
