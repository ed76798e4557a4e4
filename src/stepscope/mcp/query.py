"""Rows of a report's tables: chosen, ordered and counted, without a language to evaluate."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stepscope.model.error import UsageError
from stepscope.model.report import Report
from stepscope.views.table import TABLES, Cell, Column, columns, table

MAX_ROWS = 50
DEFAULT_ROWS = 10
MAX_CONDITIONS = 8
MAX_TEXT = 200
"""Characters of a cell; a longer one ends in `…`."""

Test = Callable[[Any, Any], bool]


def _contains(cell: Any, value: Any) -> bool:
    return isinstance(cell, str) and isinstance(value, str) and value.lower() in cell.lower()


OPERATORS: dict[str, Test] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "contains": _contains,
}
"""An unknown cell fits no condition."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition; a row must fit all."""

    column: str
    op: str
    value: str | int | float | bool


def rows(
    report: Report,
    name: str,
    *,
    wanted: Sequence[str] = (),
    where: Sequence[Condition] = (),
    order_by: str | None = None,
    descending: bool = False,
    limit: int = DEFAULT_ROWS,
) -> dict[str, Any]:
    """`columns`, `rows`, and `matched`: how many fit, of which the first `limit` are given.

    Rows without a value in `order_by` come last. Raises UsageError for a name that is not there, with those
    that are.
    """
    if name not in TABLES:
        raise UsageError(f"no table {name[:40]!r}; there are: {', '.join(TABLES)}")
    found = table(report, name)
    place = {column.name: i for i, column in enumerate(found.columns)}
    chosen = [place_of(each, place, name) for each in wanted] or _telling(found.columns, found.rows)
    fitting = list(found.rows)
    for condition in where:
        at = place_of(condition.column, place, name)
        check(condition, found.columns[at])
        test = OPERATORS[condition.op]
        fitting = [row for row in fitting if row[at] is not None and test(row[at], condition.value)]
    if order_by is not None:
        at = place_of(order_by, place, name)
        known = [row for row in fitting if row[at] is not None]
        known.sort(key=lambda row: row[at], reverse=descending)  # type: ignore[arg-type, return-value]
        fitting = known + [row for row in fitting if row[at] is None]
    return {
        "table": name,
        "columns": [found.columns[i].name for i in chosen],
        "rows": [[short(row[i]) for i in chosen] for row in fitting[:limit]],
        "matched": len(fitting),
    }


def place_of(column: str, place: dict[str, int], name: str) -> int:
    """A column's place. Raises UsageError with the columns that there are."""
    if column not in place:
        raise UsageError(f"no column {column[:40]!r} in {name}; there are: {', '.join(place)}")
    return place[column]


def check(condition: Condition, column: Column) -> None:
    """Refuse a value that the column's cells cannot be compared with."""
    is_number = isinstance(condition.value, (int, float)) and not isinstance(condition.value, bool)
    fits = {
        "integer": is_number,
        "number": is_number,
        "text": isinstance(condition.value, str),
        "flag": isinstance(condition.value, bool) and condition.op in ("=", "!="),
    }[column.kind]
    if not fits or (condition.op == "contains" and column.kind != "text"):
        raise UsageError(f"{column.name} is a {column.kind}: {condition.op} cannot be asked of it so")


def _telling(all_: Sequence[Column], found: Sequence[tuple[Cell, ...]]) -> list[int]:
    """Columns that have a value in any row."""
    return [i for i in range(len(all_)) if any(row[i] is not None for row in found)] or list(range(len(all_)))


def short(cell: Cell) -> Cell:
    """A cell, cut where it is a long text; a share to four digits."""
    if isinstance(cell, float):
        return float(f"{cell:.5g}")
    if isinstance(cell, str) and len(cell) > MAX_TEXT:
        return cell[: MAX_TEXT - 1] + "…"
    return cell


def described() -> str:
    """The tables with their columns, for the tool's description."""
    return "; ".join(f"{name}({', '.join(c.name for c in columns(name))})" for name in TABLES)
