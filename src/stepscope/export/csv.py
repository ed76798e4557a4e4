"""Tables of a report as CSV files."""

from __future__ import annotations

from typing import BinaryIO

from stepscope.views import csv
from stepscope.views.table import Table


def write(table: Table, sink: BinaryIO) -> None:
    """Write one table."""
    sink.write(csv.render(table))
