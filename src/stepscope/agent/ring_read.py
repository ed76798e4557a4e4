"""How far each ring was read: so that an agent that starts again goes on there, and does not send all anew.

The file lies in the spool's folder and never says more than the spool holds on its disk: what it forgets is
read and sent again, which a receiver sees by the ring's name and the record's number.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

from stepscope.model.batch import Batch, Marks

NAME = "rings"
MOST_RINGS = 4096
"""The ones heard of last; as many as are read at a time."""


class RingRead(msgspec.Struct, frozen=True, array_like=True):
    """Records of a ring below `next` are kept. `is_over`: so is that its writer has ended."""

    next: int
    is_over: bool = False


class RingsRead:
    """Of one spool's folder, by the name of the ring's file, which no other ring ever has."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME
        self._rings: dict[str, RingRead] = {}
        self._written: dict[str, RingRead] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):  # lost or damaged: all is read again
            self._rings = msgspec.json.decode(self._path.read_bytes(), type=dict[str, RingRead])

    def of(self, ring: str) -> RingRead | None:
        """How far that one was read; `None` where it never was."""
        return self._rings.get(ring)

    def take(self, batch: Batch) -> None:
        """A batch is in the spool."""
        if not isinstance(batch, Marks):
            return
        before = self._rings.pop(batch.ring, RingRead(0))  # to the end: the ones heard of last stay
        next_ = max([before.next, *(number + 1 for number in batch.number[-1:])])
        self._rings[batch.ring] = RingRead(next_, batch.is_alive is False)
        while len(self._rings) > MOST_RINGS:
            del self._rings[next(iter(self._rings))]

    def copy(self) -> dict[str, RingRead]:
        """As it is now, for `write` once what it tells of is on the disk."""
        return dict(self._rings)

    def write(self, rings: dict[str, RingRead]) -> None:
        """Put it in the file's place, whole or not at all. Nothing is raised: the file may be old."""
        if rings == self._written:
            return
        new = self._path.with_name(NAME + ".new")
        with contextlib.suppress(OSError):
            new.write_bytes(msgspec.json.encode(rings))
            os.replace(new, self._path)
            self._written = rings
