"""What is remembered of owners, labels, sources, rings and agents goes once nothing is left of them.

Every process has an owner of its own, every run labels, every rank a ring: without an end the store would
remember more with every job. A name goes where neither a row, nor a file, nor a rollup has its number, twice
in a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope.store.database import Database
from stepscope.store.keep import Keeper
from stepscope.store.piece import Pieces
from stepscope.store.retention import DAY_NS, Retention
from stepscope.store.ring import Ring
from stepscope.store.schema import KINDS, ROLLUPS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

LEAST_NAMES = 10_000
"""Of all kinds: fewer are not worth a look."""
MOST_RINGS = 100_000
"""The youngest so many are remembered, and all of which marks are kept."""
_COLUMNS = ("owner", "labels", "source", "missing")
Used = dict[str, set[int]]


class Pruner:
    """Looks once a day, by the time that ages are counted from."""

    def __init__(self, database: Database, keeper: Keeper, pieces: Pieces, retention: Retention) -> None:
        self._db, self._keeper, self._pieces, self._retention = database, keeper, pieces, retention
        self._day = -1
        self._before: Used = {}
        self.least_names, self.most_rings = LEAST_NAMES, MOST_RINGS

    def prune(self, cursor: Cursor, as_of_ns: int) -> None:
        """Let go of what nothing is left of."""
        if as_of_ns // DAY_NS == self._day:
            return
        with self._db.lock:
            names = self._keeper.names
            known = {kind: set(names.ids[kind].values()) for kind in _COLUMNS}
            rings = list(self._keeper.rings.values())
        old = self._old(rings, as_of_ns)
        before_ns = as_of_ns - self._retention.coarser_ns
        is_worth_it = sum(map(len, known.values())) >= self.least_names
        used = self._sealed(cursor) if is_worth_it else None
        with self._db.writing(cursor):
            gone: Used = {}
            if used is not None:
                live = self._live(cursor)
                idle = {kind: known[kind] - used[kind] - live[kind] for kind in _COLUMNS}
                gone = {kind: each & self._before.get(kind, set()) for kind, each in idle.items()}
                self._before = idle
            self._keeper.forget(cursor, gone, old, before_ns)
            self._pieces.point("before commit")
        self._pieces.point("committed")
        self._day = as_of_ns // DAY_NS

    def _old(self, rings: list[Ring], as_of_ns: int) -> list[Ring]:
        """Rings of which no marks are kept, and that are too old or too many."""
        kept = self._retention
        ended = [each for each in rings if each.last_ns is not None and each.last_ns < as_of_ns - kept.raw_ns]
        ended.sort(key=lambda each: each.last_ns or 0)
        num_over = max(len(rings) - self.most_rings, 0)
        return [
            each
            for place, each in enumerate(ended)
            if place < num_over or (each.last_ns or 0) < as_of_ns - kept.coarser_ns
        ]

    def _sealed(self, cursor: Cursor) -> Used | None:
        """Numbers that files, rollups and stretches have; `None` where a file cannot be read: what it holds
        is not known then."""
        found: Used = {kind: set() for kind in _COLUMNS}
        asked = [("stretch", ("owner", "labels")), ("event", ("labels",))]
        # What minutes have their hours have too, and for no shorter time.
        asked += [(table, ("owner", "source")) for table in ROLLUPS if table != "minute"]
        for kind in (*KINDS, "line"):
            pieces = self._pieces.named(cursor, kind, -1 << 62, 1 << 62)
            named = cursor.execute("SELECT count(*) FROM piece WHERE kind = ?", [kind]).fetchone()
            if named is not None and named[0] != len(pieces):
                return None
            # Owners and labels of samples are in the stretches.
            columns = ("labels",) if kind == "line" else ("source", "missing")
            asked += [(self._pieces.relation([each]), columns) for each in pieces]
        try:
            _gather(cursor, asked, found)
        except self._db.error:
            return None
        return found

    @staticmethod
    def _live(cursor: Cursor) -> Used:
        found: Used = {kind: set() for kind in _COLUMNS}
        asked = [(f"raw_{kind}", _COLUMNS) for kind in KINDS]
        _gather(cursor, [*asked, ("raw_line", ("labels",)), ("event", ("labels",))], found)
        return found


def _gather(cursor: Cursor, asked: list[tuple[str, tuple[str, ...]]], found: Used) -> None:
    for relation, columns in asked:
        for column in columns:
            rows = cursor.execute(f"SELECT DISTINCT {column} FROM {relation}").fetchall()
            found[column].update(row[0] for row in rows if row[0] is not None)
