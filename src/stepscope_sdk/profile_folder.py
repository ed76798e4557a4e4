"""The folder of traces: whose it is, its room, and what goes when it is full."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from stepscope_sdk import ring_abi as abi

MOST_BYTES = 1 << 30
"""Bound of the folder, unless `$STEPSCOPE_TRACE_BYTES` says another."""
_CAPTURE = "capture-"


class Folder(NamedTuple):
    """`is_shared`: it lies where other users may write too, so that it must be ours to be used."""

    path: str
    most_bytes: int = MOST_BYTES
    is_shared: bool = False

    def has_room(self, num_bytes: int) -> bool:
        """Whether so many bytes may be written now: it can be made and written, nobody else has put his own
        in its place, and the disk is not full."""
        at = self.path
        while not os.path.isdir(at):
            at = os.path.dirname(at) or "/"
        if not os.access(at, os.W_OK | os.X_OK) or (at == self.path and not self._is_ours()):
            return False
        disk = os.statvfs(at)
        return disk.f_bavail * disk.f_frsize >= num_bytes

    def make(self, path: str) -> None:
        """Make a folder in it. OSError where it cannot be used."""
        os.makedirs(self.path, mode=0o750, exist_ok=True)
        if not self._is_ours():
            raise PermissionError(f"{self.path}: not a folder of this user")
        os.makedirs(path, mode=0o750, exist_ok=True)

    def _is_ours(self) -> bool:
        at = os.lstat(self.path)
        return not self.is_shared or (stat.S_ISDIR(at.st_mode) and at.st_uid == os.geteuid())

    def make_room(self, *, keep: str) -> None:
        """Remove the oldest captures until it holds no more than `most_bytes`, never the one in `keep`.
        Several ranks may do so at once: what is gone already is no error."""
        from shutil import rmtree

        found = []
        with suppress(OSError), os.scandir(self.path) as entries:
            for each in entries:
                if each.name.startswith(_CAPTURE) and each.is_dir(follow_symlinks=False):
                    with suppress(OSError), os.scandir(each.path) as files:
                        size = sum(file.stat(follow_symlinks=False).st_size for file in files)
                        found.append((each.stat().st_mtime_ns, size, each.path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= self.most_bytes:
                return
            if os.path.abspath(path) != os.path.abspath(keep):
                rmtree(path, ignore_errors=True)
                total -= size


def folder_of(ring_path: str, environment: Mapping[str, str]) -> Folder:
    """The traces of the process of this ring: `$STEPSCOPE_TRACE_DIR`, else `traces` beside the ring; with the
    user's number where all users of a host have their rings."""
    text = environment.get("STEPSCOPE_TRACE_BYTES", "").strip()
    most_bytes = int(text) if text.isdecimal() else MOST_BYTES
    given = environment.get("STEPSCOPE_TRACE_DIR")
    if given:
        return Folder(os.path.abspath(given), most_bytes)
    run_dir = os.path.dirname(os.path.abspath(ring_path))
    is_shared = bool(os.stat(run_dir).st_mode & stat.S_IWOTH)
    name = f"{abi.TRACES}-{os.geteuid()}" if is_shared else abi.TRACES
    return Folder(os.path.join(run_dir, name), most_bytes, is_shared)


def remove(path: str) -> None:
    """Remove a trace, and its folder where it was the last in it."""
    remove_file(path)
    with suppress(OSError):
        os.rmdir(os.path.dirname(path))


def remove_file(path: str) -> None:
    """Remove a file that may not be there."""
    with suppress(OSError):
        os.unlink(path)
