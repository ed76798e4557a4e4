"""Hours that are over become Parquet, with their rollups, in one transaction; what is too old is forgotten.

An hour is over by the times of its rows and not by the clock alone: a clock that is set ahead seals nothing
early, and rows of the future wait for their hour. Rows that come late make another file of their hour, and
the hour is rolled up again from all of them.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from stepscope.store import rollup
from stepscope.store.database import Database
from stepscope.store.forget import Forgetter
from stepscope.store.keep import Keeper
from stepscope.store.moment import hour_name
from stepscope.store.piece import HOURS, MINUTES, Piece, Pieces, literal
from stepscope.store.prune import Pruner
from stepscope.store.retention import DAY_NS, HOUR_NS, Retention
from stepscope.store.schema import KINDS, LINE_COLUMNS, MARK_COLUMNS, ROLLUP_COLUMNS, SEALED
from stepscope.store.step import StepReader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

_ORDER = {"mark": "ring, number", "line": "host, log, name, at_ns"}


class Sealer:
    """Seals, compacts and forgets, one call at a time."""

    def __init__(
        self,
        database: Database,
        keeper: Keeper,
        pieces: Pieces,
        retention: Retention,
        now_ns: Callable[[], int],
        steps: StepReader,
    ) -> None:
        self._db, self._keeper, self._pieces = database, keeper, pieces
        self._retention, self._now_ns, self._steps = retention, now_ns, steps
        self._forgetter = Forgetter(database, pieces, retention)
        self._pruner = Pruner(database, keeper, pieces, retention)
        self._lock = threading.Lock()

    def as_of_ns(self) -> int:
        """The time that ages are counted from: the clock, but not a day beyond the newest row, so that a
        clock that is set far ahead forgets nothing."""
        with self._db.lock:
            newest = max((each[1] for each in self._keeper.acks.values()), default=0)
        now = self._now_ns()
        return min(now, newest + DAY_NS) if newest else now

    def tend(self) -> None:
        """All that is due."""
        with self._lock:
            self._pieces.sweep()
            cursor = self._db.cursor()
            try:
                as_of = self.as_of_ns()
                for kind in SEALED:
                    for start in self._over(cursor, kind):
                        self._seal(cursor, kind, start)
                for start in self._whole_days(cursor, as_of):
                    self._compact(cursor, start)
                self._forgetter.forget(cursor, as_of)
                self._pruner.prune(cursor, as_of)
                self._pieces.look_again(cursor)
            finally:
                cursor.close()

    def _over(self, cursor: Cursor, kind: str) -> list[int]:
        """Starts of the hours that are to be sealed, ascending."""
        rows = cursor.execute(f"SELECT DISTINCT at_ns // {HOUR_NS} FROM raw_{kind} ORDER BY 1").fetchall()
        with self._db.lock:
            newest = sorted(each[1] for each in self._keeper.acks.values())
        # One agent whose clock is ahead says nothing of the others.
        seen = newest[-2] if len(newest) > 1 else newest[-1] if newest else 0
        now = self._now_ns()
        grace, late = self._retention.grace_ns, self._retention.late_ns
        starts = [row[0] * HOUR_NS for row in rows]
        return [
            start
            for start in starts
            if now >= (end := start + HOUR_NS) + grace and (seen >= end + grace or now >= end + late)
        ]

    def _seal(self, cursor: Cursor, kind: str, start: int) -> None:
        end = start + HOUR_NS
        with self._db.lock:
            n = self._keeper.n
        rows = f"FROM raw_{kind} WHERE at_ns >= {start} AND at_ns < {end} AND n <= {n}"
        found = cursor.execute(f"SELECT count(*) {rows}").fetchone()
        num_rows = int(found[0]) if found is not None else 0
        if start <= 0 or self._is_forgotten(cursor, kind, start):
            with self._db.writing(cursor):
                cursor.execute(
                    f"DELETE {rows}" if start > 0 else f"DELETE FROM raw_{kind} WHERE at_ns < {end}"
                )
            return
        signals = self._signals(cursor, kind, rows)
        path = f"{HOURS}/{hour_name(start)}/{kind}-{n}.parquet"
        path, num_bytes = self._pieces.write(cursor, self._select(kind, signals, rows), path)
        piece = Piece(path, kind, start, end, num_rows, num_bytes, signals)
        is_rolled = self._roll(cursor, piece)
        with self._db.writing(cursor):
            cursor.execute(f"DELETE {rows}")
            self._keeper.names.write(cursor)
            self._pieces.name(cursor, piece)
            if kind in KINDS:
                cursor.execute(
                    f"INSERT INTO stretch SELECT '{kind}', owner, labels, {start}, min(at_ns), max(at_ns) "
                    "FROM read_parquet(?) GROUP BY owner, labels",
                    [literal(self._pieces.whole(path))],
                )
            if is_rolled:
                self._bring_back(cursor, start)
                rollup.write_hour(cursor, kind, start)
            self._pieces.point("before commit")
        self._pieces.point("committed")

    @staticmethod
    def _is_forgotten(cursor: Cursor, kind: str, start: int) -> bool:
        """Whether the hour was rolled up and its files are gone since: rows that come so late would put
        themselves in the place of all the others."""
        for table in ("hour", "piece"):
            at = "at_ns" if table == "hour" else "start_ns"
            sql = f"SELECT 1 FROM {table} WHERE kind = ? AND {at} = ? LIMIT 1"
            if (cursor.execute(sql, [kind, start]).fetchone() is None) == (table == "hour"):
                return False
        return True

    def _signals(self, cursor: Cursor, kind: str, rows: str) -> tuple[str, ...]:
        """Signals that these rows hold any value of."""
        if kind not in KINDS:
            return ()
        with self._db.lock:
            names = sorted(self._keeper.columns[kind])
        if not names:
            return ()
        counts = ", ".join(f'count("{name}")' for name in names)
        found = cursor.execute(f"SELECT {counts} {rows}").fetchone() or ()
        return tuple(name for name, num in zip(names, found, strict=True) if num)

    @staticmethod
    def _select(kind: str, signals: tuple[str, ...], rows: str) -> str:
        """Rows for a file, with the texts that their numbers mean: it can be read without the store."""
        if kind in KINDS:
            texts = ("owner", "source", "labels", "missing")
            joins = " ".join(
                f"LEFT JOIN name {each} ON {each}.kind = '{each}' AND {each}.id = r.{each}" for each in texts
            )
            columns = [f"r.{name}" for name in ("at_ns", *texts, "window_ns", "n")]
            columns += [f"{each}.text AS {each}_text" for each in texts] + [f'r."{name}"' for name in signals]
            order = "r.owner, r.source, r.at_ns, r.n"
        elif kind == "line":
            joins = "LEFT JOIN name labels ON labels.kind = 'labels' AND labels.id = r.labels"
            columns = [f"r.{name}" for name in LINE_COLUMNS] + ["labels.text AS labels_text"]
            order = "r.host, r.log, r.name, r.at_ns"
        else:
            said = "SELECT id, arg_max(body, n) AS text FROM ring GROUP BY id"
            joins = f"LEFT JOIN ({said}) ring ON ring.id = r.ring"
            columns, order = [f"r.{name}" for name in MARK_COLUMNS], "r.ring, r.number"
            columns.append("ring.text AS ring_text")
        return f"SELECT {', '.join(columns)} FROM (SELECT * {rows}) r {joins} ORDER BY {order}"

    def _roll(self, cursor: Cursor, piece: Piece) -> bool:
        """The rollups of the hour, from all its files: whether they could be made. They are not where one of
        its files is damaged: what was rolled up from it stays."""
        start, end, kind = piece.start_ns, piece.end_ns, piece.kind
        if kind == "line":
            return False
        named = cursor.execute(
            "SELECT count(*) FROM piece WHERE kind = ? AND start_ns = ?", [kind, start]
        ).fetchone()
        before = self._pieces.named(cursor, kind, start, end)
        if named is not None and len(before) < named[0]:
            return False
        with contextlib.suppress(self._db.error):
            signals: list[tuple[str, str]]
            if kind == "mark":
                signals = self._steps.hour(cursor, piece, start, end)
                source = "hour_steps"
            else:
                near = self._pieces.named(cursor, kind, start - rollup.BEFORE_NS, start)
                parts = [*near, *before, piece]
                signals = [
                    (name, f'"{name}"') for name in sorted({n for each in parts for n in each.columns})
                ]
                source = (
                    f"(SELECT * FROM {self._pieces.relation(parts)} "
                    f"WHERE at_ns >= {start - rollup.BEFORE_NS} AND at_ns < {end})"
                )
            self._keeper.settle("signal", [name for name, _ in signals])
            rollup.roll_hour(cursor, self._keeper.names, kind, signals, source, start)
            return True
        self._pieces.find_damaged(cursor, [*before])
        return False

    def _bring_back(self, cursor: Cursor, start: int) -> None:
        """Minutes of the hour's day that are in a file already, back into the table: they are changed."""
        day = start // DAY_NS * DAY_NS
        columns = ", ".join(ROLLUP_COLUMNS)
        pieces = self._pieces.named(cursor, "minute", day, day + DAY_NS)
        for each in pieces:
            path = literal(self._pieces.whole(each.path))
            cursor.execute(f"INSERT INTO minute ({columns}) SELECT {columns} FROM read_parquet(?)", [path])
            cursor.execute("DELETE FROM piece WHERE path = ?", [each.path])
        self._pieces.doom([each.path for each in pieces])

    def _whole_days(self, cursor: Cursor, as_of: int) -> list[int]:
        """Days whose minutes go into a file: over, and nothing of them waits to be sealed."""
        rows = cursor.execute(f"SELECT DISTINCT at_ns // {DAY_NS} FROM minute ORDER BY 1").fetchall()
        days = [row[0] * DAY_NS for row in rows]
        waiting = [
            found[0]
            for kind in SEALED
            if (found := cursor.execute(f"SELECT min(at_ns) FROM raw_{kind}").fetchone())
            and found[0] is not None
        ]
        first = min(waiting, default=as_of)
        return [day for day in days if day + DAY_NS <= min(first, as_of - self._retention.late_ns)]

    def _compact(self, cursor: Cursor, start: int) -> None:
        end = start + DAY_NS
        rows = f"FROM minute WHERE at_ns >= {start} AND at_ns < {end}"
        found = cursor.execute(f"SELECT count(*) {rows}").fetchone()
        num_rows = int(found[0]) if found is not None else 0
        with self._db.lock:
            n = self._keeper.n
        path = f"{MINUTES}/{hour_name(start)[:10]}/minute-{n}.parquet"
        columns = ", ".join(ROLLUP_COLUMNS)
        select = f"SELECT {columns} {rows} ORDER BY signal, owner, source, at_ns"
        path, num_bytes = self._pieces.write(cursor, select, path)
        with self._db.writing(cursor):
            cursor.execute(f"DELETE {rows}")
            self._pieces.name(cursor, Piece(path, "minute", start, end, num_rows, num_bytes))
            self._pieces.point("before commit")
        self._pieces.point("committed")
