"""Raw rows of an hour to its minutes and itself; hours to days and weeks.

Of gauges mean, least, most, last and 95th percentile; of counters what they grew by, in the place of a mean
(a fall counts from zero); of masks the bits that were set; of states and codes least, most and last. Of days
and weeks there is no percentile: it does not follow from those of hours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepscope.model.signal import SIGNALS
from stepscope.store.name import Names
from stepscope.store.retention import DAY_NS, HOUR_NS, MINUTE_NS, WEEK_NS
from stepscope.store.schema import ROLLUP_COLUMNS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection as Cursor

_MONDAY_NS = 4 * DAY_NS
"""1970-01-05, the first Monday."""
BEFORE_NS = 10 * MINUTE_NS
"""How far back the sample may lie from which a counter's growth at the hour's beginning is counted."""
STEPS: dict[str, str] = {
    "step_seconds": "s",
    "data_wait_seconds": "s",
    "tokens_per_second": "1/s",
}
"""Series of a rank's steps that are computed from its marks, with their units; others are logged values."""


def bucket_of(resolution: str, at_ns: int) -> tuple[int, int]:
    """[start, end) of the minute, hour, day or week that a time lies in."""
    if resolution == "week":
        start = (at_ns - _MONDAY_NS) // WEEK_NS * WEEK_NS + _MONDAY_NS
        return start, start + WEEK_NS
    width = {"minute": MINUTE_NS, "hour": HOUR_NS, "day": DAY_NS}[resolution]
    start = at_ns // width * width
    return start, start + width


def roll_hour(
    cursor: Cursor, names: Names, kind: str, signals: Sequence[tuple[str, str]], source: str, start_ns: int
) -> None:
    """Make the temporary tables `rolled_minute` and `rolled_hour` of rows in `source`, a relation with
    owner, source, at_ns and the column of each (signal, column), from `BEFORE_NS` before the hour to its
    end."""
    for resolution in ("minute", "hour"):
        cursor.execute(
            f"CREATE OR REPLACE TEMP TABLE rolled_{resolution} AS SELECT * FROM {resolution} LIMIT 0"
        )
    for signal, column in signals:
        number = names.ids["signal"][signal]
        known = SIGNALS.get(signal)
        shape = known.kind if known is not None else "gauge"
        mean, p95, increase, bits = f"avg({column})", f"quantile_cont({column}, 0.95)", "NULL", "NULL"
        rows = f"(SELECT owner, source, at_ns, {column} FROM {source} WHERE {column} IS NOT NULL)"
        if shape == "counter":
            mean = p95 = "NULL"
            increase = f"sum(CASE WHEN grew >= 0 THEN grew WHEN grew < 0 THEN {column} END)"
            lag = f"lag({column}) OVER (PARTITION BY owner, source ORDER BY at_ns)"
            rows = f"(SELECT *, {column} - {lag} AS grew FROM {rows})"
        elif shape != "gauge":
            mean = p95 = "NULL"
            bits = f"bit_or(CAST({column} AS BIGINT))" if shape == "mask" else "NULL"
        for resolution, width in (("minute", MINUTE_NS), ("hour", HOUR_NS)):
            cursor.execute(
                f"INSERT INTO rolled_{resolution} SELECT '{kind}', {number}, owner, source, "
                f"at_ns // {width} * {width} AS start_ns, {mean}, min({column}), max({column}), "
                f"arg_max({column}, at_ns), {p95}, count(*), {increase}, {bits} FROM {rows} "
                f"WHERE at_ns >= {start_ns} GROUP BY owner, source, start_ns"
            )


def write_hour(cursor: Cursor, kind: str, start_ns: int) -> None:
    """Put what `roll_hour` made in the place of what there was of the hour, and its day and week anew, in the
    transaction that is open."""
    columns = ", ".join(ROLLUP_COLUMNS)
    for resolution in ("minute", "hour"):
        _clear(cursor, resolution, kind, start_ns, start_ns + HOUR_NS)
        cursor.execute(f"INSERT INTO {resolution} ({columns}) SELECT {columns} FROM rolled_{resolution}")
    for resolution in ("day", "week"):
        start, end = bucket_of(resolution, start_ns)
        _clear(cursor, resolution, kind, start, end)
        cursor.execute(
            f"INSERT INTO {resolution} ({columns}) SELECT kind, signal, owner, source, {start}, "
            "sum(mean * num) / sum(num) FILTER (mean IS NOT NULL), min(least), max(most), "
            "arg_max(last, at_ns), NULL, sum(num), sum(increase), bit_or(bits) FROM hour "
            "WHERE kind = ? AND at_ns >= ? AND at_ns < ? GROUP BY kind, signal, owner, source",
            [kind, start, end],
        )


def _clear(cursor: Cursor, table: str, kind: str, start_ns: int, end_ns: int) -> None:
    cursor.execute(
        f"DELETE FROM {table} WHERE at_ns >= ? AND at_ns < ? AND kind = ?", [start_ns, end_ns, kind]
    )
