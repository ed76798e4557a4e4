"""Documents: alarms, incidents, reports, captures, silences, tokens, …, each a body that its owner reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from stepscope.store.database import Database
from stepscope.store.piece import Piece
from stepscope.store.row import Rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor


@dataclass(slots=True)
class Stored:
    """A stored document, as `contract.Document`."""

    kind: str
    id: str
    job: str | None
    run: str | None
    at_ns: int
    body: bytes


class Documents:
    """Keeps them whole: a reader sees the one before or the one after."""

    def __init__(self, database: Database, rows: Rows) -> None:
        self._db, self._rows = database, rows

    def put(self, kind: str, id_: str, body: bytes, job: str | None, run: str | None, at_ns: int) -> None:
        """In the place of the one with this kind and id."""
        with self._db.writing() as cursor:
            cursor.execute("DELETE FROM document WHERE kind = ? AND id = ?", [kind, id_])
            row = [kind, id_, job, run, at_ns, body]
            cursor.execute("INSERT INTO document VALUES (?, ?, ?, ?, ?, ?)", row)

    def get(self, kind: str, id_: str) -> bytes | None:
        def read(cursor: Cursor, asked: list[Piece]) -> bytes | None:
            sql = "SELECT body FROM document WHERE kind = ? AND id = ?"
            row = cursor.execute(sql, [kind, id_]).fetchone()
            return bytes(row[0]) if row is not None else None

        return self._rows.look(read, None)

    def list(
        self, kind: str, job: str | None, start_ns: int | None, end_ns: int | None, limit: int
    ) -> tuple[Stored, ...]:
        """Newest first; `at_ns` in [start, end)."""
        where: list[str] = ["kind = ?"]
        given: list[str | int] = [kind]
        for condition, value in (("job = ?", job), ("at_ns >= ?", start_ns), ("at_ns < ?", end_ns)):
            if value is not None:
                where.append(condition)
                given.append(value)

        def read(cursor: Cursor, asked: list[Piece]) -> tuple[Stored, ...]:
            rows = cursor.execute(
                f"SELECT id, job, run, at_ns, body FROM document WHERE {' AND '.join(where)} "
                f"ORDER BY at_ns DESC, id LIMIT {int(limit)}",
                given,
            ).fetchall()
            return tuple(Stored(kind, *row) for row in rows)

        return self._rows.look(read, ())

    def remove(self, kind: str, id_: str) -> bool:
        """Whether there was one."""
        if self.get(kind, id_) is None:
            return False
        with self._db.writing() as cursor:
            cursor.execute("DELETE FROM document WHERE kind = ? AND id = ?", [kind, id_])
        return True
