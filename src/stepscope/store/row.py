"""Rows of a window, from the live table and from sealed files alike, in columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from stepscope.store.database import Database, first_line
from stepscope.store.error import StoreFullError
from stepscope.store.keep import Keeper
from stepscope.store.piece import Piece, Pieces
from stepscope.store.schema import KINDS, LINE_COLUMNS, MARK_COLUMNS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

Columns = dict[str, npt.NDArray[Any]]
T = TypeVar("T")
_SAMPLE = ("at_ns", "owner", "source", "labels", "window_ns", "missing", "n")
_TRIES = 4


class Rows:
    """Reads, and reads again without a file that turns out damaged."""

    def __init__(self, database: Database, keeper: Keeper, pieces: Pieces) -> None:
        self._db, self.keeper, self.pieces = database, keeper, pieces

    def look(self, read: Callable[[Cursor, list[Piece]], T], absent: Any) -> T:
        """What `read` finds in one snapshot; it adds the files that it asks for to the list it is given.
        `absent` where nothing can be read: then `pieces.notes()` say why."""
        for _ in range(_TRIES):
            asked: list[Piece] = []
            try:
                with self._db.reading() as cursor:
                    return read(cursor, asked)
            except self._db.error as error:
                cursor = self._db.cursor()
                try:
                    if not self.pieces.find_damaged(cursor, asked) and not asked:
                        raise StoreFullError(self._db.folder, first_line(error)) from error
                finally:
                    cursor.close()
        found: T = absent
        return found

    def relation(
        self,
        cursor: Cursor,
        asked: list[Piece],
        kind: str,
        signals: Sequence[str],
        start_ns: int,
        end_ns: int,
    ) -> tuple[str, tuple[str, ...]]:
        """(what stands behind FROM, the signals it has): live rows and sealed ones of the window."""
        pieces = self.pieces.named(cursor, kind, start_ns, end_ns)
        asked += pieces
        fixed = _SAMPLE if kind in KINDS else MARK_COLUMNS if kind == "mark" else LINE_COLUMNS
        live = set(self.keeper.columns.get(kind, ()))
        sealed = {name for each in pieces for name in each.columns}
        known = tuple(name for name in signals if name in live or name in sealed)
        window = f"at_ns >= {start_ns} AND at_ns < {end_ns}"

        def chosen(there: set[str]) -> str:
            each = [f'"{name}"' if name in there else f'CAST(NULL AS DOUBLE) AS "{name}"' for name in known]
            return ", ".join([*fixed, *each])

        sql = f"SELECT {chosen(live)} FROM raw_{kind} WHERE {window}"
        if pieces:
            sql += f" UNION ALL SELECT {chosen(sealed)} FROM {self.pieces.relation(pieces)} WHERE {window}"
        return f"({sql})", known


def filled(column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A column of numbers with NaN, or -1 in a whole one, where it has none."""
    if isinstance(column, np.ma.MaskedArray):
        if column.dtype.kind == "f":
            return np.asarray(column.filled(np.nan))
        return np.asarray(column.filled(-1 if column.dtype.kind == "i" else None))
    return np.asarray(column)
