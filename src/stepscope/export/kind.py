"""What `stepscope export` can write, as a table."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO

from stepscope.offline import Diagnosed
from stepscope.views.table import Table


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file. `module` has `write`: of a trace's columns (`is_of_traces`), or of one table of the
    report. `extra` is what must be installed for it."""

    name: str
    module: str
    is_of_traces: bool
    suffix: str
    extra: str | None = None

    def writer_of_traces(self) -> Callable[[Diagnosed, BinaryIO], str | None]:
        """What writes the traces of a report, and says what was left out."""
        writer: Callable[[Diagnosed, BinaryIO], str | None] = importlib.import_module(self.module).write
        return writer

    def writer_of_table(self) -> Callable[[Table, BinaryIO], None]:
        """What writes one table. Raises ModuleNotFoundError where the extra is absent."""
        writer: Callable[[Table, BinaryIO], None] = importlib.import_module(self.module).write
        return writer


KINDS = {
    kind.name: kind
    for kind in (
        Kind("ops", "stepscope.export.ops", True, ".json"),
        Kind("csv", "stepscope.export.csv", False, ".csv"),
        Kind("parquet", "stepscope.export.parquet", False, ".parquet", extra="sql"),
        Kind("speedscope", "stepscope.export.speedscope", True, ".json"),
    )
}
