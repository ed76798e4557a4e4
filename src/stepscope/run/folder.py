"""The folder of one run: rings and captures live there, and nothing of it stays unless it is asked for."""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PREFIX = "stepscope-run-"
_LOCK = "held"
NEW_SECONDS = 60.0
PLACES = ("/dev/shm", tempfile.gettempdir())
"""Memory first: a mark in a file on a disk may wait for that disk."""


@dataclass(slots=True)
class Folder:
    """`live` holds the rings that processes write now, `kept` the same ones whole, `traces` captures.

    `kept` is on a disk where there is one: it grows with the run.
    """

    live: Path
    kept: Path
    traces: Path
    _lock: int

    def remove(self) -> None:
        """Take it away, whatever is in it."""
        os.close(self._lock)
        for each in (self.live, self.kept.parent):
            shutil.rmtree(each, ignore_errors=True)


def make(places: Sequence[str] = PLACES) -> Folder:
    """A folder that only this user may enter. OSError where no place takes one."""
    live = _made(places)
    kept = Path(tempfile.mkdtemp(prefix=PREFIX))
    for each in (kept / "rings", kept / "traces"):
        each.mkdir()
    lock = os.open(live / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (kept / _LOCK).symlink_to(live / _LOCK)
    return Folder(live, kept / "rings", kept / "traces", lock)


def _made(places: Sequence[str]) -> Path:
    for place in places[:-1]:
        try:
            return Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        except OSError:
            continue
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=places[-1]))


def sweep(now_s: float, places: Sequence[str] = PLACES) -> None:
    """Take away folders of this user whose `stepscope run` was killed. `now_s`: seconds since the epoch."""
    for place in set(places):
        for path in Path(place).glob(PREFIX + "*"):
            if _is_left(path, now_s):
                shutil.rmtree(path, ignore_errors=True)


def _is_left(path: Path, now_s: float) -> bool:
    try:
        found = path.lstat()
        is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
        # One that is new may be about to be locked.
        if not is_ours or now_s - found.st_mtime < NEW_SECONDS:
            return False
        lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # its lock went with the folder that it pointed to
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return not _has_writer(path)


def _has_writer(path: Path) -> bool:
    """Whether a script that outlived its `stepscope run` still marks there."""
    from stepscope.model.error import InputError
    from stepscope.sources.ring import RingReader

    for ring in path.glob("*.ring"):
        try:
            if RingReader(str(ring)).is_alive():
                return True
        except (InputError, OSError):
            continue
    return False
