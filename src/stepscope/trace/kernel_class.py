"""Kernel classes, read from the table beside this file; editable without touching code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from stepscope.model.error import UsageError

CLASSES = (
    "gemm",
    "convolution",
    "attention",
    "normalization",
    "softmax",
    "elementwise",
    "reduction",
    "embedding",
    "optimizer",
    "communication",
    "copy",
    "set",
    "triton",
    "other",
)
_TENSOR_CORE = {"yes": True, "no": False, "-": None}


@dataclass(frozen=True, slots=True)
class ClassRow:
    """One line of the table. `tensor_core` is `None` where the name does not tell."""

    cls: str
    tensor_core: bool | None
    pattern: re.Pattern[str]


def parse_table(text: str, name: str) -> tuple[ClassRow, ...]:
    """Rows of a class table: tab-separated class, tensor_core, pattern, note; `#` starts a comment line.

    Raises UsageError naming the line of an unknown class, a bad flag or a pattern that does not compile.
    """
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.split("\t")
        if len(fields) < 3 or fields[0] not in CLASSES or fields[1] not in _TENSOR_CORE:
            raise UsageError(f"{name} line {number}: want class, yes|no|-, pattern separated by tabs")
        try:
            pattern = re.compile(fields[2], re.IGNORECASE)
        except re.error as error:
            raise UsageError(f"{name} line {number}: the pattern does not compile: {error}") from error
        rows.append(ClassRow(fields[0], _TENSOR_CORE[fields[1]], pattern))
    return tuple(rows)


@lru_cache(maxsize=1)
def table() -> tuple[ClassRow, ...]:
    """The packaged table."""
    name = "kernel_classes.tsv"
    return parse_table(resources.files("stepscope.trace").joinpath(name).read_text("utf-8"), name)


def classify(name: str, rows: Iterable[ClassRow] | None = None) -> tuple[str, bool | None]:
    """(class, tensor_core) of a kernel name; `("other", None)` where no row matches."""
    for row in table() if rows is None else rows:
        if row.pattern.search(name):
            return row.cls, row.tensor_core
    return "other", None
