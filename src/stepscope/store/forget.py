"""What is too old, or too much, goes: the list first, then the files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.store.database import Database
from stepscope.store.piece import Pieces
from stepscope.store.retention import HOUR_NS, Retention
from stepscope.store.schema import SEALED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

PAST = ("alarm", "audit", "capture", "incident", "report", "segment", "hourly")
"""Kinds of documents that tell of the past; the others hold until they are removed."""


class Forgetter:
    """Looks once an hour for what is old, each time for what is too much."""

    def __init__(self, database: Database, pieces: Pieces, retention: Retention) -> None:
        self._db, self._pieces, self._retention = database, pieces, retention
        self._hour = -1

    def forget(self, cursor: Cursor, as_of_ns: int) -> None:
        """What is too old at this time, or more than may be kept."""
        kept = self._retention
        gone = []
        for kind in (*SEALED, "minute"):
            age = kept.minutes_ns if kind == "minute" else kept.raw_ns
            gone += cursor.execute(
                "SELECT path FROM piece WHERE kind = ? AND end_ns <= ?", [kind, as_of_ns - age]
            ).fetchall()
        gone += self._too_much(cursor, {row[0] for row in gone})
        if gone:
            self._remove(cursor, [row[0] for row in gone])
        if as_of_ns // HOUR_NS == self._hour:
            return
        kinds = ", ".join(f"'{kind}'" for kind in PAST)
        with self._db.writing(cursor):
            cursor.execute("DELETE FROM minute WHERE at_ns < ?", [as_of_ns - kept.minutes_ns])
            for table, column in (
                ("hour", "at_ns"),
                ("day", "at_ns"),
                ("week", "at_ns"),
                ("event", "at_ns"),
                ("stretch", "last_ns"),
            ):
                cursor.execute(f"DELETE FROM {table} WHERE {column} < ?", [as_of_ns - kept.coarser_ns])
            cursor.execute(
                f"DELETE FROM document WHERE kind IN ({kinds}) AND at_ns < ?", [as_of_ns - kept.coarser_ns]
            )
            # The newest row of each is what counts: they are only ever added to.
            cursor.execute("DELETE FROM ack WHERE n < (SELECT max(b.n) FROM ack b WHERE b.agent = ack.agent)")
            cursor.execute("DELETE FROM ring WHERE n < (SELECT max(b.n) FROM ring b WHERE b.id = ring.id)")
            self._pieces.point("before commit")
        self._pieces.point("committed")
        self._hour = as_of_ns // HOUR_NS

    def _too_much(self, cursor: Cursor, gone: set[str]) -> list[tuple[str]]:
        most = self._retention.most_bytes
        if most is None:
            return []
        rows = cursor.execute(
            "SELECT path, num_bytes FROM piece ORDER BY kind = 'minute', start_ns, path"
        ).fetchall()
        left = [row for row in rows if row[0] not in gone]
        total = sum(row[1] for row in left)
        found = []
        for path, num_bytes in left:
            if total <= most:
                break
            found.append((path,))
            total -= num_bytes
        return found

    def _remove(self, cursor: Cursor, paths: list[str]) -> None:
        with self._db.writing(cursor):
            cursor.execute("DELETE FROM piece WHERE path IN (SELECT unnest(?))", [paths])
            self._pieces.point("before commit")
        self._pieces.point("committed")
        self._pieces.doom(paths)
        self._pieces.point("doomed")
