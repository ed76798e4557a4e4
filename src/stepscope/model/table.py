"""Tables about all ranks of a job at once: times of steps, and timelines of pipelines."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """How long each rank took for each step."""

    name: str
    ranks: tuple[int, ...]
    """Of the rows, rising."""
    steps: tuple[int, ...]
    """Numbers of the columns, rising."""
    duration: npt.NDArray[np.float64]
    """(ranks, steps) in nanoseconds, or in a unit of its own; NaN where missing."""
    is_ns: bool
    """Whether the unit is known. Times that were divided by something have none."""
    num_odd: int = 0
    """Cells that were left out: no number, not finite, or not above zero."""
    num_repeated: int = 0
    """Rows that repeat a rank and step; the first counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """Operations of all workers of a pipeline: equally long columns, by step, rank, start and duration.

    A worker is one rank of every (data-parallel rank, stage): those that split tensors with it do the same.
    """

    name: str
    kinds: tuple[str, ...]
    """Names of operations; `kind` points into it."""
    step: I64
    rank: I64
    stage: I64
    data_parallel_rank: I64
    kind: I32
    start_ns: I64
    """On one axis for all ranks of a step; of another step the origin may differ."""
    duration_ns: I64
    sequence: I64
    """The how-manieth of its kind on this worker in this step."""
    chunk: I64
    """Of interleaved schedules the model chunk, 0 elsewhere."""
    micro_batch: I64
    """-1 where it is of none."""
    num_odd: int = 0
    """Rows that were left out: a field missing, not finite, or a negative duration."""

    def __len__(self) -> int:
        return len(self.start_ns)


Table = StepTimes | Timeline
"""What a report about a table is made of."""


def table_of_steps(table: Table, steps: tuple[int, int]) -> Table | None:
    """The table with these steps only, both ends included; `None` where it has none of them."""
    first, last = steps
    if isinstance(table, StepTimes):
        number = np.array(table.steps)
        columns = np.flatnonzero((number >= first) & (number <= last))
        if not len(columns):
            return None
        kept = tuple(number[columns].tolist())
        return dataclasses.replace(table, steps=kept, duration=table.duration[:, columns])
    rows = np.flatnonzero((table.step >= first) & (table.step <= last))
    if not len(rows):
        return None
    each: dict[str, Any] = {field.name: getattr(table, field.name) for field in dataclasses.fields(table)}
    kept_rows: dict[str, Any] = {
        name: value[rows] for name, value in each.items() if isinstance(value, np.ndarray)
    }
    return dataclasses.replace(table, **kept_rows)
