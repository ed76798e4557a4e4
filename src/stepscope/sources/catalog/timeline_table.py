"""Timeline tables of pipelines in Parquet: one row an operation of a worker, read by DuckDB (`[sql]`).

The columns are those of ByteDance's published straggler traces: `dp_rank`, `stage`, `rank`, `step`, `optype`,
`start_ts` and `duration` (seconds), `seq_id`, `mc` (model chunk), `mb_id` (micro-batch). Others are passed
over, and `mc` and `mb_id` may be absent. DuckDB's extensions are neither fetched nor loaded.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.model.table import Timeline

FORMAT = "timeline-table"
MAGIC = b"PAR1"
MAX_ROWS = 50_000_000
"""Operations of one table; beyond, memory is asked for in tens of gigabytes."""
NEEDED = ("dp_rank", "stage", "rank", "step", "optype", "start_ts", "duration", "seq_id")
MAX_SECONDS = 4.0e9
"""Seconds that nanoseconds in 64 bits hold, with room."""
_FOOTER = 1 << 16
_GIVE = "give a table with the columns " + ", ".join(NEEDED)
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


def is_parquet(start: bytes) -> bool:
    """Whether a file that begins so is Parquet."""
    return start.startswith(MAGIC)


def is_timeline_table(path: str) -> bool:
    """Whether a file is Parquet and names the columns in its footer. Needs no DuckDB."""
    try:
        with open(path, "rb") as file:
            if file.read(4) != MAGIC:
                return False
            file.seek(max(os.path.getsize(path) - _FOOTER, 0))
            footer = file.read(_FOOTER)
    except OSError:
        return False
    return all(name.encode() in footer for name in ("optype", "start_ts", "dp_rank"))


def read(path: str) -> Timeline:
    """The timeline of a file.

    Raises UsageError without DuckDB, InputError for what is no such table, RefusedError beyond a limit.
    """
    try:
        import duckdb
    except ImportError as error:
        raise UsageError(f"{path}: Parquet needs an extra; pip install 'stepscope[sql]'") from error
    connection = duckdb.connect(":memory:", config=_OFFLINE)
    try:
        one = [_literal(path)]
        described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", one).fetchall()
        there = {str(row[0]).lower() for row in described}
        missing = [name for name in NEEDED if name not in there]
        if missing:
            raise InputError(path, f"has no column {', '.join(missing)}", _GIVE)
        ((num_rows,),) = connection.execute("SELECT count(*) FROM read_parquet(?)", one).fetchall()
        if num_rows > MAX_ROWS:
            what = f"has {num_rows:,} rows, more than {MAX_ROWS:,}: refused"
            raise RefusedError(f"{path}: {what}; give fewer steps")
        wanted = ", ".join(_column(name, there) for name in _TYPES)
        columns = connection.execute(f"SELECT {wanted} FROM read_parquet(?)", one).fetchnumpy()
    except duckdb.Error as error:
        first = str(error).strip().splitlines()[0][:200] if str(error).strip() else "unreadable"
        raise InputError(path, f"DuckDB cannot read it ({first})", "is the copy complete?") from error
    finally:
        connection.close()
    return _timeline(columns, path)


_TYPES = {
    "step": "BIGINT",
    "rank": "BIGINT",
    "stage": "BIGINT",
    "dp_rank": "BIGINT",
    "optype": "VARCHAR",
    "start_ts": "DOUBLE",
    "duration": "DOUBLE",
    "seq_id": "BIGINT",
    "mc": "BIGINT",
    "mb_id": "BIGINT",
}
_ABSENT = {"mc": 0, "mb_id": -1}


def _column(name: str, there: set[str]) -> str:
    if name not in there:
        return f"CAST({_ABSENT[name]} AS BIGINT) AS {name}"
    read = f"TRY_CAST({name} AS {_TYPES[name]})"
    return f"{f'COALESCE({read}, {_ABSENT[name]})' if name in _ABSENT else read} AS {name}"


def _literal(path: str) -> str:
    """The path alone: DuckDB would expand a pattern in it."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in path)


def _timeline(columns: dict[str, Any], path: str) -> Timeline:
    num = len(columns["step"])
    sound = np.ones(num, dtype=bool)
    whole: dict[str, npt.NDArray[np.int64]] = {}
    for name, type_ in _TYPES.items():
        if type_ == "BIGINT":
            sound &= ~np.ma.getmaskarray(columns[name])
            whole[name] = np.ma.filled(columns[name], 0).astype(np.int64)
    times = {}
    for name in ("start_ts", "duration"):
        values = np.ma.filled(np.ma.asarray(columns[name], dtype=np.float64), np.nan)
        with np.errstate(invalid="ignore"):
            sound &= np.isfinite(values) & (np.abs(values) < MAX_SECONDS)
        times[name] = np.where(sound, values, 0.0)
    sound &= ~np.ma.getmaskarray(columns["optype"]) & (times["duration"] >= 0)
    whole["mc"] = np.maximum(whole["mc"], 0)  # -1: of no chunk
    for name in ("rank", "stage", "dp_rank", "mc"):
        sound &= (whole[name] >= 0) & (whole[name] < 1 << 31)
    if not sound.any():
        raise InputError(path, "holds no usable row" if num else "holds no row", _GIVE)
    kinds, kind = np.unique(np.ma.filled(columns["optype"], "").astype(str)[sound], return_inverse=True)
    start, duration = (
        np.rint(times[name][sound] * 1e9).astype(np.int64) for name in ("start_ts", "duration")
    )
    kept = {name: values[sound] for name, values in whole.items()}
    order = np.lexsort((duration, start, kept["rank"], kept["step"]))
    return Timeline(
        name=path,
        kinds=tuple(kinds.tolist()),
        step=kept["step"][order],
        rank=kept["rank"][order],
        stage=kept["stage"][order],
        data_parallel_rank=kept["dp_rank"][order],
        kind=kind.reshape(-1)[order].astype(np.int32),
        start_ns=start[order],
        duration_ns=duration[order],
        sequence=kept["seq_id"][order],
        chunk=kept["mc"][order],
        micro_batch=kept["mb_id"][order],
        num_odd=int(num - sound.sum()),
    )
