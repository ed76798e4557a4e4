"""State in columns: one row a series, all arrays of one object equally long."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I64

Rows = I64 | slice
"""Row numbers, or a slice where it is all of them: a slice copies nothing."""
Fields = dict[str, tuple[Any, int, Any]]
"""Name → (dtype, width, value of a fresh row); width 0 is one number a row."""
GROWTH = 1.5


class Columns:
    """Arrays named by `FIELDS`, with room for more rows than there are."""

    FIELDS: ClassVar[Fields] = {}

    def __init__(self) -> None:
        self.room = 0
        for name, (dtype, width, _) in self.FIELDS.items():
            setattr(self, name, np.empty((0, width) if width else 0, dtype))

    def grow(self, num_rows: int) -> None:
        """Make room for so many rows; new ones are fresh. Never fewer."""
        if num_rows <= self.room:
            return
        # Series come one by one in some lives, and all at once in others.
        room = max(num_rows, int(self.room * GROWTH))
        for name, (dtype, width, fresh) in self.FIELDS.items():
            old: npt.NDArray[Any] = getattr(self, name)
            new = np.full((room, width) if width else room, fresh, dtype)
            new[: len(old)] = old
            setattr(self, name, new)
        self.room = room

    def clear(self, rows: Rows) -> None:
        """Make these rows fresh."""
        for name, (_, _, fresh) in self.FIELDS.items():
            getattr(self, name)[rows] = fresh

    @property
    def num_bytes(self) -> int:
        return sum(getattr(self, name).nbytes for name in self.FIELDS)
