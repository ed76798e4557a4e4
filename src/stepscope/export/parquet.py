"""Tables of a report as Parquet files, written by DuckDB (the extra `[sql]`).

Its extensions are neither fetched nor loaded: Parquet is built in.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import duckdb

from stepscope.views.table import Column, Table

_TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "flag": "BOOLEAN"}
_OFFLINE: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
_MAX = 2**63


def write(table: Table, sink: BinaryIO) -> None:
    """Write one table. A column of integers beyond 64 bits becomes one of doubles."""
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        path = Path(folder) / "table.parquet"
        connection = duckdb.connect(":memory:", config=_OFFLINE)
        try:
            types = ", ".join(
                f"{_quoted(column.name)} {_type(table, i, column)}" for i, column in enumerate(table.columns)
            )
            connection.execute(f"CREATE TABLE rows ({types})")
            if table.rows:
                places = ", ".join("?" * len(table.columns))
                connection.executemany(f"INSERT INTO rows VALUES ({places})", list(map(list, table.rows)))
            target = str(path).replace("'", "''")
            connection.execute(f"COPY rows TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        finally:
            connection.close()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sink)


def write_columns(columns: Mapping[str, Any], sink: BinaryIO) -> None:
    """Write columns of NumPy, of equal length: what is too long for rows."""
    with tempfile.TemporaryDirectory(prefix="stepscope-") as folder:
        path = Path(folder) / "table.parquet"
        connection = duckdb.connect(":memory:", config=_OFFLINE)
        try:
            connection.register("given", dict(columns))
            target = str(path).replace("'", "''")
            connection.execute(f"COPY (SELECT * FROM given) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        finally:
            connection.close()
        with path.open("rb") as file:
            shutil.copyfileobj(file, sink)


def _type(table: Table, place: int, column: Column) -> str:
    if column.kind == "integer":
        values = (row[place] for row in table.rows)
        if any(isinstance(value, int) and not -_MAX <= value < _MAX for value in values):
            return "DOUBLE"
    return _TYPES[column.kind]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
