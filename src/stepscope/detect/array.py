"""The gates over arrays: whole series, pushed point by point through the very same code as a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

import numpy as np

from stepscope.detect.gate import Flags
from stepscope.detect.kind import SeriesKind
from stepscope.detect.series import Verdicts
from stepscope.detect.stream import Gates
from stepscope.model.sample import F64
from stepscope.model.trace import I64


class Judged(Verdicts):
    """`Verdicts` of whole series: the same columns, each (series, points)."""


def judged(
    values: F64, is_clean: Flags, kind: SeriesKind | Sequence[SeriesKind], at_ns: I64 | None = None
) -> Judged:
    """Judge whole series (series, points) by pushing them column by column; `at_ns` (points,) or of the shape
    of `values`, without it a point a second."""
    x = np.array(values, dtype=np.float64, ndmin=2)
    clean = np.broadcast_to(np.asarray(is_clean, dtype=bool), x.shape)
    times = np.arange(x.shape[1], dtype=np.int64) * 10**9 if at_ns is None else np.asarray(at_ns)
    times = np.broadcast_to(times, x.shape)
    gates = Gates()
    rows = gates.add([kind] * len(x) if isinstance(kind, SeriesKind) else kind)
    told = [gates.push(rows, x[:, n], clean[:, n], times[:, n]) for n in range(x.shape[1])]
    # One push of nothing gives the columns their types where there are no points.
    told = told or [gates.push(rows[:0], x[:0, 0:1].ravel(), clean[:0, 0:1].ravel(), times[:0, 0:1].ravel())]
    columns = {each.name: [getattr(one, each.name) for one in told] for each in fields(Verdicts)}
    return Judged(**{name: np.stack(column, axis=1) for name, column in columns.items()})
