"""Sealed files: Parquet that appears whole or not at all, and the list of those that count.

The name of a file ends in the CRC-32 of its bytes: Parquet that is damaged within a page reads as other
data. A file counts once the transaction that names it in `piece` is on the disk; what the list does not name
is a leftover of a kill and is removed at the start. Files that are no longer named stay for a while: a reader
may still hold a list that has them.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from stepscope.sources.sum import is_sound, summed
from stepscope.store.database import Database, first_line
from stepscope.store.error import StoreFullError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

HOURS, MINUTES, TRACES = "hours", "minutes", "traces"
_TEMPORARY = ".part"
_ROW_GROUP = 16384
"""Rows: a device's hour at 1 Hz is a quarter, so that one device of many is found without the others."""
_COMPACT_LEVEL = 6
_LOOK_BYTES = 16 << 20
"""That are read anew at a time."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One sealed file: `path` within the store's folder; rows of `kind` with times in [start, end).
    `columns` are its signals."""

    path: str
    kind: str
    start_ns: int
    end_ns: int
    num_rows: int
    num_bytes: int
    columns: tuple[str, ...] = ()


class Pieces:
    """The files of a store, and which of them turned out damaged."""

    def __init__(self, database: Database, point: Callable[[str], None]) -> None:
        self._db, self.point = database, point
        self.folder = database.folder
        self._damaged: dict[str, tuple[str, Piece]] = {}
        self._sound: dict[str, tuple[int, int]] = {}
        """Path -> (time of change, inode) of the file whose checksum was found right."""
        self._doomed: list[str] = []
        self._due: list[str] = []
        self._lock = threading.Lock()
        for name in (HOURS, MINUTES, TRACES):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)

    def named(self, cursor: Cursor, kind: str, start_ns: int, end_ns: int) -> list[Piece]:
        """Whole files of a kind that may hold rows of [start, end), in order of time."""
        rows = cursor.execute(
            "SELECT path, kind, start_ns, end_ns, num_rows, num_bytes, columns FROM piece "
            "WHERE kind = ? AND start_ns < ? AND end_ns > ? ORDER BY start_ns, path",
            [kind, end_ns, start_ns],
        ).fetchall()
        found = [Piece(a, b, c, d, e, f, tuple(msgspec.json.decode(g))) for a, b, c, d, e, f, g in rows]
        return [each for each in found if self._is_there(each)]

    def _is_there(self, piece: Piece) -> bool:
        if piece.path in self._damaged:
            return False
        try:
            found = os.stat(self.whole(piece.path))
            if found.st_size != piece.num_bytes:
                self._tell(piece, f"it has {found.st_size:,} bytes and not {piece.num_bytes:,}")
                return False
            stamp = (found.st_mtime_ns, found.st_ino)
            if self._sound.get(piece.path) != stamp:
                if not is_sound(self.whole(piece.path)):
                    self._tell(piece, "its checksum is wrong")
                    return False
                self._sound[piece.path] = stamp
        except FileNotFoundError:
            self._tell(piece, "it is gone")
            return False
        except OSError as error:
            self._tell(piece, f"it cannot be read ({error.strerror})")
            return False
        return True

    def find_damaged(self, cursor: Cursor, pieces: Sequence[Piece]) -> bool:
        """After a read that failed: look at each file by itself. Whether one was found that is damaged."""
        found = False
        for piece in pieces:
            try:
                path = literal(self.whole(piece.path))
                cursor.execute("SELECT count(COLUMNS(*)) FROM read_parquet(?)", [path]).fetchall()
            except self._db.error as error:
                self._tell(piece, f"DuckDB cannot read it ({first_line(error)})")
                found = True
        return found

    def _tell(self, piece: Piece, why: str) -> None:
        with self._lock:
            self._damaged.setdefault(piece.path, (why, piece))

    def look_again(self, cursor: Cursor) -> None:
        """Read files anew, those first that were not read for longest, so that all are within some days:
        what rots on the disk changes no time."""
        rows = cursor.execute(
            "SELECT path, kind, start_ns, end_ns, num_rows, num_bytes FROM piece"
        ).fetchall()
        pieces = {row[0]: Piece(*row) for row in rows}
        with self._lock:
            for path in [each for each in self._sound if each not in pieces]:
                del self._sound[path]
            self._due = [each for each in self._due if each in pieces] or sorted(pieces)
            left = _LOOK_BYTES
            looked = []
            while self._due and left > 0:
                looked.append(pieces[self._due.pop()])
                left -= looked[-1].num_bytes
        for piece in looked:
            self._sound.pop(piece.path, None)
            self._is_there(piece)

    def notes(
        self, start_ns: int | None = None, end_ns: int | None = None
    ) -> tuple[tuple[str, int, str], ...]:
        """Damaged files, of this window alone, as notes of a source: (code, count, detail)."""
        mend = "restore it from a copy, the rest is used"
        with self._lock:
            found = sorted(self._damaged.items())
        return tuple(
            ("store_damage", 1, f"{path}: {why}; {mend}")
            for path, (why, piece) in found
            if (start_ns is None or piece.end_ns > start_ns) and (end_ns is None or piece.start_ns < end_ns)
        )

    def relation(self, pieces: Sequence[Piece]) -> str:
        """What stands behind FROM to read these; columns that a file lacks are absent in its rows."""
        quoted = (literal(self.whole(each.path)).replace("'", "''") for each in pieces)
        paths = ", ".join(f"'{each}'" for each in quoted)
        is_mixed = len({each.columns for each in pieces}) > 1
        return f"read_parquet([{paths}]{', union_by_name = true' if is_mixed else ''})"

    def whole(self, path: str) -> str:
        """The path of a file, as the system takes it."""
        return os.path.join(self.folder, path)

    def write(self, cursor: Cursor, select: str, path: str, names: Sequence[object] = ()) -> tuple[str, int]:
        """Put what a query gives into a file of this name with its checksum behind: (path, bytes). It is on
        the disk, and no part of the store yet. StoreFullError where it cannot be written."""
        self._db.has_room()
        whole = self.whole(path)
        temporary = whole + _TEMPORARY
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        try:
            quoted = temporary.replace("'", "''")
            cursor.execute(
                f"COPY ({select}) TO '{quoted}' (FORMAT parquet, COMPRESSION zstd, "
                f"COMPRESSION_LEVEL {_COMPACT_LEVEL}, ROW_GROUP_SIZE {_ROW_GROUP})",
                list(names),
            )
            self.point("written")
            _sync(temporary)
            self.point("synced")
            path = summed(path, temporary)
            whole = self.whole(path)
            os.replace(temporary, whole)
            _sync(os.path.dirname(whole))
            _sync(os.path.dirname(os.path.dirname(whole)))
            self.point("renamed")
            return path, os.path.getsize(whole)
        except (OSError, self._db.error) as error:
            for leftover in (temporary, whole):
                with contextlib.suppress(OSError):
                    os.unlink(leftover)
            raise StoreFullError(self.folder, first_line(error)) from error

    def put(self, path: str, body: bytes) -> None:
        """The same of bytes."""
        self._db.has_room()
        whole = self.whole(path)
        temporary = whole + _TEMPORARY
        try:
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            with open(temporary, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, whole)
            _sync(os.path.dirname(whole))
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise StoreFullError(self.folder, first_line(error)) from error

    @staticmethod
    def name(cursor: Cursor, piece: Piece) -> None:
        """Let a file count, in the transaction that is open."""
        columns = msgspec.json.encode(piece.columns).decode()
        cursor.execute(
            "INSERT INTO piece VALUES (?, ?, ?, ?, ?, ?, ?)",
            [piece.path, piece.kind, piece.start_ns, piece.end_ns, piece.num_rows, piece.num_bytes, columns],
        )

    def doom(self, paths: Sequence[str]) -> None:
        """Remove these, which count no more, when `sweep` is called the time after next."""
        with self._lock:
            self._doomed += paths

    def sweep(self) -> None:
        """Remove what was doomed before the last call."""
        with self._lock:
            for path in self._doomed:
                self._sound.pop(path, None)
            doomed, self._doomed = self._doomed, []
            for path in doomed:
                self._damaged.pop(path, None)
        for path in doomed:
            with contextlib.suppress(OSError):
                os.unlink(self.whole(path))
                os.rmdir(os.path.dirname(self.whole(path)))

    def remove_leftovers(self) -> int:
        """Files that nothing names, after a kill: how many there were."""
        cursor = self._db.cursor()
        try:
            rows = cursor.execute("SELECT path FROM piece UNION ALL SELECT path FROM trace").fetchall()
        finally:
            cursor.close()
        named, num = {row[0] for row in rows}, 0
        for name in (HOURS, MINUTES, TRACES):
            for folder, _, files in os.walk(self.whole(name), topdown=False):
                for file in files:
                    path = os.path.relpath(os.path.join(folder, file), self.folder)
                    if path not in named:
                        with contextlib.suppress(OSError):
                            os.unlink(self.whole(path))
                            num += 1
                if folder != self.whole(name):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
        return num


def literal(path: str) -> str:
    """A path as DuckDB takes it: its name is no pattern."""
    return "".join(f"[{each}]" if each in "*?[" else each for each in path)


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
