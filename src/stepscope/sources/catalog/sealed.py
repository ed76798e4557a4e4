"""Hours that a server sealed: Parquet of wide rows, a file or a folder of them, read by DuckDB (`[sql]`).

One row is a moment of one owner, one column a signal; what owners, sources and labels are stands in the rows
(`owner_text`, …), so that a file is read without its store. DuckDB's extensions are neither fetched nor
loaded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from stepscope.model.batch import BatchOwner
from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.model.sample import Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.sources.catalog.spool import NoJob
from stepscope.sources.spool_column import Whole
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
_FOOTER = 1 << 16
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_GIVE = "give files of the folder hours/ of a store, copied whole"


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
    return all(name.encode() in footer for name in ("owner_text", "source_text", "at_ns"))


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


def read_sealed(path: str, job: str | None = None) -> tuple[list[Telemetry], int]:
    """(telemetry of one job, bytes read); of several jobs the one with most samples, if none is named.

    UsageError without DuckDB, InputError for what cannot be read, NoJob where the job is not in it,
    RefusedError beyond a limit. A damaged file of a folder is left out and told in a note.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(f"{path}: Parquet needs an extra; pip install 'stepscope[sql]'") from error
    files, notes, whole = _files(path), [], Whole()
    if not files:
        raise InputError(path, "holds no hour that a server sealed", _GIVE)
    connection = duckdb.connect(":memory:", config=_OFFLINE)
    num_rows, num_files = 0, 0
    try:
        for each in files:
            try:
                num_rows += _read(connection, each, whole, MAX_ROWS - num_rows)
                num_files += 1
            except (duckdb.Error, msgspec.MsgspecError) as error:
                why = (str(error).strip().splitlines() or ["unreadable"])[0][:200]
                if len(files) == 1:
                    raise InputError(each, f"DuckDB cannot read it ({why})", _GIVE) from error
                notes.append(("store_damage", 1, f"{os.path.basename(each)}: {why}; the rest is used"))
    finally:
        connection.close()
    whole.close()
    chosen = _chosen(whole, job, path)
    found = whole.telemetry(path, chosen)
    if not found:
        raise InputError(path, "holds no sample", "give hours in which an agent ran")
    others = sorted(name for name in whole.jobs if name != chosen)
    if others:
        text = f"job {chosen} was read; there are also {', '.join(others[:5])}: choose by --job"
        notes.append(("spool_jobs", len(others), text))
    found[0] = replace(found[0], notes=(*notes, *found[0].notes))
    return found, sum(os.path.getsize(each) for each in files)


def _chosen(whole: Whole, job: str | None, path: str) -> str | None:
    if job in whole.jobs:
        return job
    if job is not None and whole.jobs:
        names = ", ".join(sorted(whole.jobs)[:10])
        raise NoJob(path, f"no job {job} in it", f"there are: {names}")
    return max(whole.jobs, key=lambda name: whole.jobs[name].num_samples, default=None)


def _read(connection: Cursor, path: str, whole: Whole, most_rows: int) -> int:
    one = ["".join(f"[{each}]" if each in "*?[" else each for each in path)]
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", one).fetchall()
    there = {str(row[0]) for row in described}
    missing = [name for name in NEEDED if name not in there]
    if missing:
        raise InputError(path, f"has no column {', '.join(missing)}", _GIVE)
    counted = connection.execute("SELECT count(*) FROM read_parquet(?)", one).fetchone()
    num_rows = int(counted[0]) if counted is not None else 0
    if num_rows > most_rows:
        raise RefusedError(f"{path}: more than {MAX_ROWS:,} rows with it: refused; give fewer hours")
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
    return num_rows


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
