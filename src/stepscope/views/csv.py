"""Tables as CSV that a spreadsheet can open without running anything."""

from __future__ import annotations

import csv
import io
import re

from stepscope.views.table import Cell, Table

_FORMULA = re.compile(
    r"""^(?=[\t\r]|[\s"]*[=+\-@＝＋－＠])|([;\t\r\n])(?=(?:[^\S\t\r\n]|")*[=+\-@＝＋－＠])"""
)
"""Where a spreadsheet may take what follows for a formula (OWASP, CSV injection), in full width too: at the
beginning, and behind what separates cells where a file is opened with another separator than ours. Then a
quotation mark of ours is in the middle of a cell, and protects nothing."""


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
    """A text that no spreadsheet takes for a formula: what could begin one gets an apostrophe in front."""
    return _FORMULA.sub(r"\1'", text.replace("\0", "\N{REPLACEMENT CHARACTER}"))
