"""Traces of captures: whole ones of abnormal windows and references, of the others a summary by op."""

from __future__ import annotations

import gzip
import hashlib
import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from stepscope.model.error import InputError, StepscopeError
from stepscope.store.database import Database
from stepscope.store.piece import TRACES, Piece, Pieces
from stepscope.store.retention import Retention
from stepscope.store.row import Rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

Summarise = Callable[[str], bytes]
"""From a trace's path to what `stepscope export ops` says of it."""
MOST_SHARE = 0.1
"""Of the whole trace a summary may take."""
REFERENCE = "reference"
"""Documents of this kind, with the id `JOB/RUN/CAPTURE`, hold a capture's whole traces for good."""
_SAFE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class Traces:
    """Files in a folder a capture. No name that a client gave is a path."""

    def __init__(
        self,
        database: Database,
        rows: Rows,
        pieces: Pieces,
        retention: Retention,
        summarise: Summarise | None,
    ) -> None:
        self._db, self._rows, self._pieces = database, rows, pieces
        self._retention, self._summarise = retention, summarise

    def put(
        self, job: str, run: str, capture: int, ring: str, rank: int | None, body: bytes, at_ns: int
    ) -> str:
        """As `contract.Store.put_trace`."""
        path = f"{_folder(job, run, capture)}/{_name(ring)}.json.gz"
        self._pieces.put(path, body)
        with self._db.writing() as cursor:
            key = [job, run, capture, ring]
            cursor.execute("DELETE FROM trace WHERE job = ? AND run = ? AND capture = ? AND ring = ?", key)
            cursor.execute(
                "INSERT INTO trace VALUES (?, ?, ?, ?, ?, ?, true, ?, ?)",
                [*key, rank, path, len(body), at_ns],
            )
        return self._pieces.whole(path)

    def paths(self, job: str, run: str, capture: int, *, is_whole: bool = True) -> tuple[str, ...]:
        """Paths by rank, of whole traces or of summaries."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[tuple[str]]:
            return cursor.execute(
                "SELECT path FROM trace WHERE job = ? AND run = ? AND capture = ? AND is_whole = ? "
                "ORDER BY rank, ring",
                [job, run, capture, is_whole],
            ).fetchall()

        found = (self._pieces.whole(row[0]) for row in self._rows.look(read, []))
        return tuple(path for path in found if os.path.exists(path))

    def summarise(self, job: str, run: str, capture: int) -> None:
        """As `contract.Store.summarise_traces`. A trace that cannot be read, or whose summary is more than a
        tenth of it, leaves nothing but the fact that it was there."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[tuple[str, str, int]]:
            return cursor.execute(
                "SELECT ring, path, num_bytes FROM trace "
                "WHERE job = ? AND run = ? AND capture = ? AND is_whole",
                [job, run, capture],
            ).fetchall()

        for ring, path, num_bytes in self._rows.look(read, []):
            body = self._summary(path)
            # The least a gzip of a few ops takes: of a tiny trace a tenth would hold nothing.
            is_small = body is not None and len(body) <= max(MOST_SHARE * num_bytes, 1024)
            summary = f"{_folder(job, run, capture)}/{_name(ring)}.ops.json.gz"
            if body is not None and is_small:
                self._pieces.put(summary, body)
            self._pieces.point("renamed")
            with self._db.writing() as cursor:
                cursor.execute(
                    "UPDATE trace SET path = ?, is_whole = false, num_bytes = ? WHERE path = ?",
                    [summary, len(body) if body is not None and is_small else 0, path],
                )
            self._pieces.doom([path])

    def _summary(self, path: str) -> bytes | None:
        if self._summarise is None:
            return None
        try:
            return gzip.compress(self._summarise(self._pieces.whole(path)), mtime=0)
        except (StepscopeError, OSError):
            return None

    def tend(self, as_of_ns: int) -> None:
        """Summaries in the place of whole traces that are too old or too many, oldest captures first;
        summaries that are too old go. References stay."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[tuple[str, str, int, int, int]]:
            return cursor.execute(
                "SELECT job, run, capture, sum(num_bytes), max(at_ns) FROM trace WHERE is_whole "
                f"AND NOT EXISTS (SELECT 1 FROM document WHERE document.kind = '{REFERENCE}' AND "
                "document.id = trace.job || '/' || trace.run || '/' || trace.capture) "
                "GROUP BY job, run, capture ORDER BY max(at_ns), capture"
            ).fetchall()

        found = self._rows.look(read, [])
        total = sum(int(row[3]) for row in found)
        most = self._retention.most_trace_bytes
        for job, run, capture, num_bytes, at_ns in found:
            is_old = at_ns < as_of_ns - self._retention.traces_ns
            if not is_old and (most is None or total <= most):
                continue
            self.summarise(job, run, capture)
            total -= int(num_bytes)
        cut = as_of_ns - self._retention.coarser_ns

        def old(cursor: Cursor, asked: list[Piece]) -> list[tuple[str]]:
            return cursor.execute("SELECT path FROM trace WHERE NOT is_whole AND at_ns < ?", [cut]).fetchall()

        paths = [row[0] for row in self._rows.look(old, [])]
        if paths:
            with self._db.writing() as cursor:
                cursor.execute("DELETE FROM trace WHERE path IN (SELECT unnest(?))", [paths])
            self._pieces.doom(paths)


def reference_id(job: str, run: str, capture: int) -> str:
    """The id of the document that holds a capture's traces."""
    return f"{job}/{run}/{capture}"


def _folder(job: str, run: str, capture: int) -> str:
    if not 0 <= capture < 1 << 62:
        raise InputError("trace", f"no number of a capture ({capture})", "give the one that was agreed")
    key = hashlib.sha256(f"{job}\0{run}".encode()).hexdigest()[:20]
    return f"{TRACES}/{key}-{capture}"


def _name(ring: str) -> str:
    stem = ring.removesuffix(".ring")
    return stem if _SAFE.fullmatch(stem) else hashlib.sha256(ring.encode()).hexdigest()[:32]
