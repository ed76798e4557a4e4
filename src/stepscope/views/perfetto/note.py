"""What a slice says beside its name: the arguments that were recorded, as the viewer lists them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import ABSENT_I32, ABSENT_I64, I64, Trace
from stepscope.views.perfetto.packet import Note


@dataclass(frozen=True, slots=True)
class _Column:
    """One argument: its name in the viewer, and its column of a side table (`part` of a column of three)."""

    name: str
    table: str
    column: str
    is_text: bool = False
    part: int | None = None


COLUMNS = (
    _Column("correlation", "correlations", "correlation"),
    _Column("external id", "ops", "external_id"),
    _Column("input dims", "ops", "dims_id", is_text=True),
    _Column("input types", "ops", "types_id", is_text=True),
    _Column("device", "gpu", "device"),
    _Column("stream", "gpu", "stream"),
    _Column("bytes", "gpu", "bytes"),
    *(_Column(f"grid {axis}", "gpu", "grid", part=i) for i, axis in enumerate("xyz")),
    *(_Column(f"block {axis}", "gpu", "block", part=i) for i, axis in enumerate("xyz")),
    _Column("registers per thread", "gpu", "registers"),
    _Column("shared memory bytes", "gpu", "shared_bytes"),
    _Column("collective", "comms", "collective_id", is_text=True),
    _Column("dtype", "comms", "dtype_id", is_text=True),
    _Column("process group", "comms", "group_id", is_text=True),
    _Column("group size", "comms", "group_size"),
    _Column("elements in", "comms", "in_nelems"),
    _Column("elements out", "comms", "out_nelems"),
)
"""The arguments that are shown; what else was recorded (stacks, concrete inputs) stays in the trace."""
EVENT = len(COLUMNS) + 1
WRITTEN_DURATION = EVENT + 1
NAMES = (*(column.name for column in COLUMNS), "event", "duration as written, ns")
"""Every argument's name: the id of the one at place `i` is `i + 1`. `event` is the event's place in its file,
as `span` in a report."""

Notes = Callable[[npt.NDArray[np.int64]], list[list[Note]]]


def note_texts(trace: Trace) -> list[int]:
    """Ids of the texts that notes refer to."""
    ids = [getattr(getattr(trace, c.table), c.column) for c in COLUMNS if c.is_text]
    used = np.unique(np.concatenate(ids)) if ids else np.zeros(0, np.int32)
    return [int(i) for i in used.tolist() if i >= 0]


def notes_of(trace: Trace) -> Notes:
    """A function from core rows to the notes of each."""
    places: dict[str, npt.NDArray[np.int32]] = {}
    columns: list[tuple[int, bool, npt.NDArray[np.int32], npt.NDArray[Any]]] = []
    for number, column in enumerate(COLUMNS, 1):
        table = getattr(trace, column.table)
        if column.table not in places:
            place = np.full(len(trace.spans.ts_ns), -1, dtype=np.int32)
            place[table.row] = np.arange(len(table.row), dtype=np.int32)
            places[column.table] = place
        values = getattr(table, column.column)
        values = values if column.part is None else values[:, column.part]
        if len(values):
            columns.append((number, column.is_text, places[column.table], values))
    index, duration = trace.spans.index, trace.spans.dur_ns

    def notes(rows: I64) -> list[list[Note]]:
        found: list[list[Note]] = [[(EVENT, i, False)] for i in index[rows].tolist()]
        for number, is_text, place, values in columns:
            at = place[rows]
            which = np.flatnonzero(at >= 0)
            chosen = values[at[which]]
            absent = -1 if is_text else ABSENT_I32 if chosen.dtype == np.int32 else ABSENT_I64
            is_there = chosen > -1 if is_text else chosen != absent
            for i, value in zip(which[is_there].tolist(), chosen[is_there].tolist(), strict=True):
                found[i].append((number, value + 1 if is_text else value, is_text))
        for i in np.flatnonzero(duration[rows] < 0).tolist():
            found[i].append((WRITTEN_DURATION, int(duration[rows[i]]), False))
        return found

    return notes
