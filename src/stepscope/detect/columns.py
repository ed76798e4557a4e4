"""State in columns: one row a series, all arrays of one object equally long."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I64

Rows = I64 | slice
"""Row numbers, or a slice where it is all of them: a slice copies nothing."""


class Columns:
    """Arrays named by `FIELDS`: name → (dtype, width, value of a fresh row); width 0 is one number a row."""

    FIELDS: ClassVar[dict[str, tuple[Any, int, Any]]] = {}

    def __init__(self) -> None:
        for name, (dtype, width, _) in self.FIELDS.items():
            setattr(self, name, np.empty((0, width) if width else 0, dtype))

    def grow(self, num_rows: int) -> None:
        """Make it so many rows; new ones are fresh. Never fewer."""
        for name, (dtype, width, fresh) in self.FIELDS.items():
            old: npt.NDArray[Any] = getattr(self, name)
            new = np.full((num_rows - len(old), width) if width else num_rows - len(old), fresh, dtype)
            setattr(self, name, np.concatenate((old, new)))

    def clear(self, rows: Rows) -> None:
        """Make these rows fresh."""
        for name, (_, _, fresh) in self.FIELDS.items():
            getattr(self, name)[rows] = fresh

    @property
    def num_bytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.FIELDS)
