"""Hours that a server sealed: Parquet of samples, marks and lines, a file or a folder of them, read by DuckDB
(`[sql]`).

One row of samples is a moment of one owner, one column a signal; what owners, sources, labels and rings are
stands in the rows (`owner_text`, …), so that a file is read without its store. DuckDB's extensions are
neither fetched nor loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.model.batch import BatchOwner, Lines, Marks
from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.model.log import Log
from stepscope.model.sample import Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.model.stuck import Stack
from stepscope.sources.catalog.spool import NoJob
from stepscope.sources.spool_column import Whole, job_of
from stepscope.sources.spool_log import logs_of, stacks_of_lines
from stepscope.sources.sum import is_sound
from stepscope.sources.wide_row import Meanings, samples_of_rows

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

FORMAT = "sealed"
MAGIC = b"PAR1"
MAX_ROWS = 20_000_000
"""Moments of owners: two days of a hundred devices at 1 Hz."""
MAX_FILES = 10_000
TEXTS = ("owner", "source", "labels", "missing")
NEEDED = ("at_ns", "window_ns", *TEXTS, *(f"{each}_text" for each in TEXTS))
_MARKED = (
    ("owner_text", "source_text", "at_ns"),
    ("record_kind", "mono_ns", "ring"),
    ("labels_text", "log", "at_ns"),
)
"""Columns that tell a file of samples, of marks, of lines."""
_COLUMNS = ("number", "record_kind", "flags", "step", "mono_ns", "real_ns", "a", "b", "c")
_FOOTER = 1 << 16
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_GIVE = "give files of the folder hours/ of a store, copied whole"


class _Ring(msgspec.Struct):
    """What a file of marks says of a ring: who writes it, as it was known when the hour was sealed."""

    ring: str
    host: str
    agent: str
    identity: dict[str, str | int | list[str]] = {}
    names: list[str] = []
    last_ns: int | None = None
    is_alive: bool | None = None
    held: list[tuple[int, int]] = []


@dataclass(frozen=True, slots=True)
class SealedRead:
    """Hours of one job. `marks` are batches: `sources.marks` puts them together."""

    telemetry: tuple[Telemetry, ...]
    marks: tuple[Marks, ...]
    logs: tuple[Log, ...]
    stacks: tuple[Stack, ...]
    num_bytes: int


def is_sealed(path: str) -> bool:
    """Whether a file is one, or a folder holds one, by what stands in its footer. Needs no DuckDB."""
    return bool(_files(path))


def _is_file(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            if file.read(4) != MAGIC:
                return False
            file.seek(max(os.path.getsize(path) - _FOOTER, 0))
            footer = file.read(_FOOTER)
    except OSError:
        return False
    return any(all(name.encode() in footer for name in names) for names in _MARKED)


def _files(path: str) -> list[str]:
    if not os.path.isdir(path):
        return [path] if path.endswith(".parquet") and os.path.isfile(path) and _is_file(path) else []
    found: list[str] = []
    for folder, folders, files in os.walk(path):
        folders.sort()
        found += [os.path.join(folder, each) for each in sorted(files) if each.endswith(".parquet")]
        if len(found) > MAX_FILES:
            raise RefusedError(f"{path}: more than {MAX_FILES:,} files: refused; give fewer hours")
    return [each for each in found if _is_file(each)]


def read_sealed(path: str, job: str | None = None) -> SealedRead:
    """Samples, marks and lines of one job; of several jobs the one with most marks and samples, if none is
    named.

    UsageError without DuckDB, InputError for what cannot be read, NoJob where the job is not in it,
    RefusedError beyond a limit. A damaged file of a folder is left out and told in a note.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(f"{path}: Parquet needs an extra; pip install 'stepscope[sql]'") from error
    files, notes, whole = _files(path), list[tuple[str, int, str]](), Whole()
    if not files:
        raise InputError(path, "holds no hour that a server sealed", _GIVE)
    connection = duckdb.connect(":memory:", config=_OFFLINE)
    num_rows = num_unnamed = 0
    firsts: dict[tuple[str, str], int] = {}
    try:
        for each in files:
            try:
                if not is_sound(each):
                    raise ValueError("its checksum is wrong")
                num, unnamed = _read(connection, each, whole, MAX_ROWS - num_rows, firsts)
                num_rows += num
                num_unnamed += unnamed
            except (duckdb.Error, msgspec.MsgspecError, OSError, ValueError) as error:
                why = (str(error).strip().splitlines() or ["unreadable"])[0][:200]
                if len(files) == 1:
                    raise InputError(each, f"DuckDB cannot read it ({why})", _GIVE) from error
                notes.append(("store_damage", 1, f"{os.path.basename(each)}: {why}; the rest is used"))
    finally:
        connection.close()
    whole.marks = _counted_anew(whole.marks, firsts)
    whole.close()
    if num_unnamed:
        text = "records of marks whose ring is not named: sealed by an earlier version; ask the server"
        notes.append(("store_unknown", num_unnamed, text))
    chosen = _chosen(whole, job, path)
    found = whole.telemetry(path, chosen)
    marks = tuple(each for each in whole.marks if chosen is None or job_of(each) in (None, chosen))
    logs = tuple(logs_of(whole.lines, path, chosen))
    stacks = tuple(stacks_of_lines(whole.lines, chosen))
    if not (found or marks or logs or stacks):
        raise InputError(path, "holds no sample, mark or line", "give hours in which an agent ran")
    others = sorted(name for name in whole.jobs if name != chosen)
    if others:
        text = f"job {chosen} was read; there are also {', '.join(others[:5])}"
        notes.append(("spool_jobs", len(others), f"{text}: choose by --job" if job is None else text))
    if found:
        found[0] = replace(found[0], notes=(*notes, *found[0].notes))
    elif notes:
        found = [Telemetry(path, FORMAT, (), "sample", notes=tuple(notes))]
    num_bytes = sum(os.path.getsize(each) for each in files)
    return SealedRead(tuple(found), marks, logs, stacks, num_bytes)


def _counted_anew(marks: list[Marks], firsts: Mapping[tuple[str, str], int]) -> list[Marks]:
    """Numbers from the first record that is here on, where the ring began before: what lies before it is in
    other files and was not lost."""
    least: dict[tuple[str, str], int] = {}
    for each in marks:
        key = (each.host, each.ring)
        least[key] = min(least.get(key, each.number[0]), *each.number)
    return [
        msgspec.structs.replace(each, number=[number - base for number in each.number])
        if (base := least[each.host, each.ring]) != firsts[each.host, each.ring]
        else each
        for each in marks
    ]


def _chosen(whole: Whole, job: str | None, path: str) -> str | None:
    if job in whole.jobs:
        return job
    if job is not None and whole.jobs:
        names = ", ".join(sorted(whole.jobs)[:10])
        raise NoJob(path, f"no job {job} in it", f"there are: {names}")
    return max(
        whole.jobs,
        key=lambda name: (whole.jobs[name].num_records, whole.jobs[name].num_samples),
        default=None,
    )


def _read(
    connection: Cursor, path: str, whole: Whole, most_rows: int, firsts: dict[tuple[str, str], int]
) -> tuple[int, int]:
    """(rows of a file that were taken, records of marks whose ring is not named)."""
    one = ["".join(f"[{each}]" if each in "*?[" else each for each in path)]
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", one).fetchall()
    there = {str(row[0]) for row in described}
    counted = connection.execute("SELECT count(*) FROM read_parquet(?)", one).fetchone()
    num_rows = int(counted[0]) if counted is not None else 0
    if num_rows > most_rows:
        raise RefusedError(f"{path}: more than {MAX_ROWS:,} rows with it: refused; give fewer hours")
    if "record_kind" in there:
        return num_rows, 0 if _read_marks(connection, one, there, whole, firsts) else num_rows
    if "log" in there:
        _read_lines(connection, one, whole)
    else:
        _read_samples(connection, path, one, there, whole)
    return num_rows, 0


def _read_marks(
    connection: Cursor, one: list[str], there: set[str], whole: Whole, firsts: dict[tuple[str, str], int]
) -> bool:
    """Whether its rings are named. `firsts`: the number of each ring's first record that ever came."""
    if "ring_text" not in there:
        return False
    columns = ", ".join("at_ns AS real_ns" if name == "real_ns" else name for name in _COLUMNS)
    rows = connection.execute(
        f"SELECT ring, {columns} FROM read_parquet(?) WHERE ring_text IS NOT NULL ORDER BY ring, number", one
    ).fetchnumpy()
    pairs = connection.execute(
        "SELECT ring, any_value(ring_text) FROM read_parquet(?) WHERE ring_text IS NOT NULL GROUP BY ring",
        one,
    ).fetchall()
    texts = {int(number): msgspec.json.decode(text, type=_Ring) for number, text in pairs}
    for part in np.split(np.arange(len(rows["ring"])), np.flatnonzero(np.diff(rows["ring"])) + 1):
        if not len(part):
            continue
        ring = texts[int(rows["ring"][part[0]])]
        mine = {name: np.ma.getdata(rows[name])[part].tolist() for name in _COLUMNS}
        is_last = ring.last_ns is None or max(mine["real_ns"]) >= ring.last_ns
        firsts[ring.host, ring.ring] = ring.held[0][0] if ring.held else 0
        whole.take(
            Marks(
                agent=ring.agent, seq=0, host=ring.host, ring=ring.ring, identity=ring.identity,
                names=ring.names, is_alive=ring.is_alive if is_last else True, **mine,
            )
        )  # fmt: skip
    return True


def _read_lines(connection: Cursor, one: list[str], whole: Whole) -> None:
    rows = connection.execute(
        "SELECT host, log, name, labels_text, list(at_ns ORDER BY at_ns, n), list(text ORDER BY at_ns, n) "
        "FROM read_parquet(?) GROUP BY ALL ORDER BY 1, 2, 3, 4",
        one,
    ).fetchall()
    for host, log, name, labels, at_ns, text in rows:
        said = msgspec.json.decode(labels, type=dict[str, str]) if labels is not None else {}
        whole.take(Lines("store", 0, host, log, name, at_ns, text, said))


def _read_samples(connection: Cursor, path: str, one: list[str], there: set[str], whole: Whole) -> None:
    missing = [name for name in NEEDED if name not in there]
    if missing:
        raise InputError(path, f"has no column {', '.join(missing)}", _GIVE)
    signals = [name for name in SIGNALS if name in there]
    numbers = {
        name: f"coalesce(CAST({name} AS BIGINT), -1) AS {name}"
        for name in ("owner", "source", "labels", "missing", "window_ns")
    }
    chosen = ["CAST(at_ns AS BIGINT) AS at_ns", *numbers.values()]
    chosen += [f'CAST("{name}" AS DOUBLE) AS "{name}"' for name in signals]
    columns = connection.execute(f"SELECT {', '.join(chosen)} FROM read_parquet(?)", one).fetchnumpy()
    texts: dict[str, dict[int, str]] = {}
    for name in TEXTS:
        pairs = connection.execute(
            f"SELECT DISTINCT {name}, {name}_text FROM read_parquet(?) WHERE {name} IS NOT NULL", one
        ).fetchall()
        texts[name] = dict(pairs)
    for batch in samples_of_rows(_plain(columns), signals, _meanings(texts)):
        whole.take(batch)


def _plain(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: column.filled(np.nan) if isinstance(column, np.ma.MaskedArray) else column
        for name, column in columns.items()
    }


def _meanings(texts: Mapping[str, Mapping[int, str]]) -> Meanings:
    source = tuple[str, str, int | None, int | None]
    return Meanings(
        owner=lambda number: msgspec.json.decode(texts["owner"][number], type=tuple[str, BatchOwner])[1],
        source=lambda number: msgspec.json.decode(texts["source"][number], type=source),
        labels=lambda number: msgspec.json.decode(texts["labels"][number], type=dict[str, str]),
        missing=lambda number: msgspec.json.decode(texts["missing"][number], type=list[tuple[str, str, int]]),
    )
