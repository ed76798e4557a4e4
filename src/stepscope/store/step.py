"""Marks of a window, and the series of steps that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.model.batch import BatchOwner, Happened, Marks
from stepscope.model.mark import PHASES, RankMarks
from stepscope.model.sample import F64
from stepscope.model.trace import I64
from stepscope.sources.marks import marks_of_batches
from stepscope.store.name import text_of
from stepscope.store.piece import Piece
from stepscope.store.retention import HOUR_NS
from stepscope.store.ring import Ring
from stepscope.store.row import Rows, filled

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

BEFORE_NS = HOUR_NS
"""How far before a window a step may begin that ends in it."""
_DATA = PHASES.index("data")
MARK_FIELDS = {
    "number": "number", "record_kind": "record_kind", "flags": "flags", "step": "step", "mono_ns": "mono_ns",
    "real_ns": "at_ns", "a": "a", "b": "b", "c": "c",
}  # fmt: skip


class StepReader:
    """Marks back from rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def batches(
        self, cursor: Cursor, asked: list[Piece], rings: Sequence[Ring], start_ns: int, end_ns: int
    ) -> list[Marks]:
        """One batch a ring, records by number; `seq` is 0. Numbers count from the window's first record where
        the ring began before it, since what lies before is not missing."""
        if not rings:
            return []
        relation, _ = self._rows.relation(cursor, asked, "mark", (), start_ns, end_ns)
        chosen = ", ".join(str(each.id) for each in rings)
        found = cursor.execute(
            f"SELECT * FROM {relation} WHERE ring IN ({chosen}) ORDER BY ring, number"
        ).fetchnumpy()
        return self._of_columns(found, {each.id: each for each in rings}, end_ns)

    @staticmethod
    def _of_columns(found: dict[str, Any], rings: dict[int, Ring], end_ns: int) -> list[Marks]:
        ids = filled(found["ring"])
        columns = {name: filled(found[column]) for name, column in MARK_FIELDS.items()}
        cuts = np.flatnonzero(np.diff(ids)) + 1
        batches = []
        for part in np.split(np.arange(len(ids)), cuts):
            if not len(part):
                continue
            ring = rings[int(ids[part[0]])]
            mine: dict[str, Any] = {name: column[part].tolist() for name, column in columns.items()}
            is_whole = not ring.held or mine["number"][0] == ring.held[0][0]
            if not is_whole:
                mine["number"] = [each - mine["number"][0] for each in mine["number"]]
            goes_on = ring.last_ns is not None and ring.last_ns >= end_ns
            batches.append(
                Marks(
                    agent=ring.agent, seq=0, host=ring.host, ring=ring.ring, identity=ring.identity,
                    names=ring.names, num_lost=ring.num_lost, is_alive=True if goes_on else ring.is_alive,
                    **mine,
                )
            )  # fmt: skip
        return batches

    def marks(
        self, rings: Sequence[Ring], ends: Sequence[Happened], start_ns: int, end_ns: int
    ) -> list[RankMarks]:
        """As `contract.Store.marks`."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[Marks]:
            return self.batches(cursor, asked, rings, start_ns, end_ns)

        return marks_of_batches(self._rows.look(read, []), ends)

    def series(
        self, rings: Sequence[Ring], start_ns: int, end_ns: int
    ) -> list[tuple[Ring, dict[str, tuple[I64, F64]]]]:
        """Of each ring its step series with times in the window: signal -> (times, values)."""

        def read(cursor: Cursor, asked: list[Piece]) -> list[Marks]:
            return self.batches(cursor, asked, rings, start_ns - BEFORE_NS, end_ns)

        return self._series(self._rows.look(read, []), rings, start_ns, end_ns)

    @staticmethod
    def _series(
        batches: Sequence[Marks], rings: Sequence[Ring], start_ns: int, end_ns: int
    ) -> list[tuple[Ring, dict[str, tuple[I64, F64]]]]:
        of = {(each.host, each.ring): each for each in rings}
        found = []
        for batch in batches:
            (marks,) = marks_of_batches([batch])
            series = {
                name: (at_ns[inside], value[inside])
                for name, (at_ns, value) in series_of(marks).items()
                if (inside := (at_ns >= start_ns) & (at_ns < end_ns) & np.isfinite(value)).any()
            }
            if series:
                found.append((of[batch.host, batch.ring], series))
        return found

    def hour(self, cursor: Cursor, piece: Piece, start_ns: int, end_ns: int) -> list[tuple[str, str]]:
        """Make the temporary table `hour_steps` of the hour's steps, those of a file that does not count yet
        too: (signal, its column) of each."""
        keeper = self._rows.keeper
        rings = {each.id: each for each in list(keeper.rings.values())}
        pieces = self._rows.pieces.named(cursor, "mark", start_ns - BEFORE_NS, end_ns)
        found = cursor.execute(
            f"SELECT * FROM {self._rows.pieces.relation([*pieces, piece])} "
            f"WHERE at_ns >= {start_ns - BEFORE_NS} AND at_ns < {end_ns} ORDER BY ring, number"
        ).fetchnumpy()
        batches = self._of_columns(found, rings, end_ns)
        all_series = self._series(batches, list(rings.values()), start_ns, end_ns)
        names = sorted({name for _, series in all_series for name in series})
        owners = keeper.settle("owner", [owner_text(ring) for ring, _ in all_series])
        parts = [
            (owner, names.index(name), at_ns, value)
            for owner, (_, series) in zip(owners, all_series, strict=True)
            for name, (at_ns, value) in series.items()
        ]
        num = sum(len(each[2]) for each in parts)
        rows: dict[str, Any] = {f"s{place}": np.full(num, np.nan) for place in range(len(names))}
        rows["owner"] = np.concatenate(
            [np.zeros(0, np.int32), *(np.full(len(at), own, np.int32) for own, _, at, _ in parts)]
        )
        rows["source"] = np.full(num, -1, dtype=np.int32)
        rows["at_ns"] = np.concatenate([np.zeros(0, np.int64), *(at for _, _, at, _ in parts)])
        begin = 0
        for _, place, at_ns, value in parts:
            rows[f"s{place}"][begin : begin + len(at_ns)] = value
            begin += len(at_ns)
        cursor.execute("CREATE OR REPLACE TEMP TABLE hour_steps AS SELECT * FROM rows")
        return [(name, f"s{place}") for place, name in enumerate(names)]


def owner_text(ring: Ring) -> str:
    """The owner of a ring's step series."""
    return text_of([ring.host, BatchOwner(kind="rank", host=ring.host, name=ring.ring)])


def series_of(marks: RankMarks) -> dict[str, tuple[I64, F64]]:
    """Step series of a rank, each at its step's end: `step_seconds`, `data_wait_seconds` (phases `data` that
    end within the step), `tokens_per_second`; and the values that the loop logged, at their own times."""
    steps, phases = marks.steps, marks.phases
    found: dict[str, tuple[I64, F64]] = {
        name: (each.at_ns, each.value) for name, each in marks.values.items()
    }
    if not len(steps):
        return found
    seconds = (steps.end_ns - steps.start_ns) / 1e9
    found["step_seconds"] = (steps.end_ns, seconds)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(seconds > 0, steps.tokens / seconds, np.nan)
    if np.isfinite(rate).any():
        found["tokens_per_second"] = (steps.end_ns, rate)
    is_data = phases.phase == _DATA
    if is_data.any():
        place = np.searchsorted(steps.end_ns, phases.end_ns[is_data])
        inside = place < len(steps)
        inside[inside] &= steps.start_ns[place[inside]] <= phases.start_ns[is_data][inside]
        lasted = (phases.end_ns - phases.start_ns)[is_data][inside] / 1e9
        waited = np.bincount(place[inside], weights=lasted, minlength=len(steps)).astype(np.float64)
        told = ~steps.is_shadow  # its phases were left out to measure what marks cost
        found["data_wait_seconds"] = (steps.end_ns[told], waited[told])
    return found
