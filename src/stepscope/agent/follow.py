"""Follows a text file that somebody writes: whole lines, each once, over rotation and truncation."""

from __future__ import annotations

import os
import stat

MOST_BYTES = 256 << 10
"""Of one look: what is more waits for the next."""


class Follower:
    """One path. `is_from_end`: what is there when it is first seen is not told."""

    def __init__(self, path: str, *, is_from_end: bool = False, owner_uid: int | None = None) -> None:
        self.path, self._owner_uid = path, owner_uid
        self._is_from_end = is_from_end
        self._inode: int | None = None
        self._offset = 0
        self._rest = b""

    def lines(self) -> list[str]:
        """New lines. OSError where it cannot be read, or is not the file of whom it should be.

        The path may have been named by somebody who may read less than we: links are not followed at its
        end, and `owner_uid` must own the file.
        """
        file = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            said = os.fstat(file)
            if not stat.S_ISREG(said.st_mode):
                raise OSError(f"{self.path}: no regular file")
            if self._owner_uid is not None and said.st_uid != self._owner_uid:
                raise PermissionError(f"{self.path}: it is not the job's own file")
            if self._inode is None and self._is_from_end:
                self._offset = said.st_size
            elif said.st_ino != self._inode or said.st_size < self._offset:
                self._offset, self._rest = 0, b""
            self._inode = said.st_ino
            data = os.pread(file, MOST_BYTES, self._offset)
        finally:
            os.close(file)
        self._offset += len(data)
        *whole, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MOST_BYTES:
            self._rest = b""  # a line without end is no log
        return [line.decode("utf-8", "replace").rstrip("\r") for line in whole]
