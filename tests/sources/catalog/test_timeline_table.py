"""Timeline tables in Parquet: columns, units, rows that are left out, and a table that is none."""

from __future__ import annotations

import sys
from pathlib import Path

import duckdb
import pytest

from stepscope.model.error import InputError, UsageError
from stepscope.sources.catalog.timeline_table import is_timeline_table, read

ROW = "0 AS dp_rank, 1 AS stage, 4 AS rank, 7 AS step, 'forward-compute' AS optype, 0 AS seq_id"


def written(path: Path, select: str) -> str:
    connection = duckdb.connect()
    connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet)")
    connection.close()
    return str(path)


def test_seconds_become_nanoseconds_and_bad_rows_are_counted(tmp_path: Path) -> None:
    select = " UNION ALL ".join(
        f"SELECT {ROW}, {start}::FLOAT AS start_ts, {duration}::FLOAT AS duration, -1 AS mc, 3 AS mb_id"
        for start, duration in (("2.5", "0.25"), ("0.5", "1"), ("'nan'", "1"), ("1", "-1"), ("NULL", "1"))
    )
    table = read(written(tmp_path / "a[1].parquet", select))
    assert table.start_ns.tolist() == [500_000_000, 2_500_000_000]
    assert table.duration_ns.tolist() == [1_000_000_000, 250_000_000]
    assert (table.kinds, table.num_odd) == (("forward-compute",), 3)
    assert (table.chunk.tolist(), table.micro_batch.tolist()) == ([0, 0], [3, 3])


def test_chunk_and_micro_batch_may_be_absent(tmp_path: Path) -> None:
    table = read(written(tmp_path / "a.parquet", f"SELECT {ROW}, 1.0 AS start_ts, 2.0 AS duration"))
    assert (table.chunk.tolist(), table.micro_batch.tolist()) == ([0], [-1])


def test_parquet_of_something_else_names_what_it_lacks(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", "SELECT 1 AS rank, 2 AS step")
    assert not is_timeline_table(path)
    with pytest.raises(
        InputError, match=r"has no column dp_rank, stage, optype, start_ts, duration, seq_id; give"
    ):
        read(path)


def test_a_cut_file_is_an_input_error_of_one_line(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", f"SELECT {ROW}, 1.0 AS start_ts, 2.0 AS duration")
    assert is_timeline_table(path)
    Path(path).write_bytes(Path(path).read_bytes()[:-30])
    with pytest.raises(InputError, match="DuckDB cannot read it") as raised:
        read(path)
    assert "\n" not in str(raised.value)


def test_without_duckdb_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a.parquet", f"SELECT {ROW}, 1.0 AS start_ts, 2.0 AS duration")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(UsageError) as raised:
        read(path)
    assert str(raised.value) == f"{path}: Parquet needs an extra; pip install 'stepscope[sql]'"
