"""Tables as CSV that a spreadsheet can open without running anything."""

from __future__ import annotations

import csv
import io

from stepscope.views.table import Cell, Table

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
"""What makes a spreadsheet take a text for a formula (OWASP, CSV injection), in full width too."""


def render(table: Table) -> bytes:
    """Header and rows in UTF-8 (RFC 4180); an unknown cell is empty, a flag `true` or `false`."""
    sink = io.StringIO()
    writer = csv.writer(sink, lineterminator="\r\n")
    writer.writerow(column.name for column in table.columns)
    writer.writerows([_written(cell) for cell in row] for row in table.rows)
    return sink.getvalue().encode("utf-8", "replace")


def _written(cell: Cell) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, str):
        return inert(cell)
    return repr(cell)


def inert(text: str) -> str:
    """A text that no spreadsheet takes for a formula: one that begins like one gets an apostrophe."""
    plain = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    is_formula = plain.startswith(_FORMULA) or plain.lstrip().startswith(_FORMULA)
    return f"'{plain}" if is_formula else plain
