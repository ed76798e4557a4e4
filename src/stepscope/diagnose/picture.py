"""What a report draws: a few timelines, and the steps of its rows; their size does not grow with the job."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from stepscope.analyse.account import told_steps
from stepscope.analyse.timeline import coarser
from stepscope.diagnose.row import Row
from stepscope.model import report
from stepscope.model.trace import I64

MOST_OTHERS, MOST_PIECES_OF_OTHERS = 3, 200
"""Timelines beside that of the row in question, and the pieces of each."""
MOST_STEPS_OF_OTHERS = 400
"""Steps told apart of all other rows together; the slowest of each stay."""
LEAST_STEPS_OF_ROW = 4


def timelines(rows: Sequence[Row], first: Row | None) -> tuple[report.Timeline, ...]:
    """The timeline of the row in question, then coarser ones of the others that have the longest steps."""
    first = first or next(iter(rows), None)
    others = [row for row in rows if row is not first and row.observed.device.timeline is not None]
    others.sort(key=_duration_ns, reverse=True)
    told = [_placed(first)] if first is not None else []
    for row in others[:MOST_OTHERS]:
        timeline = _placed(row)
        told.append(None if timeline is None else coarser(timeline, MOST_PIECES_OF_OTHERS))
    return tuple(timeline for timeline in told if timeline is not None)


def _duration_ns(row: Row) -> int:
    timeline = row.observed.device.timeline
    return 0 if timeline is None else timeline.dur_ns


def _placed(row: Row) -> report.Timeline | None:
    timeline = row.observed.device.timeline
    return None if timeline is None else msgspec.structs.replace(timeline, row=row.place)


def thinned(accounting: Sequence[report.Accounting], first: int | None) -> tuple[report.Accounting, ...]:
    """The rows, those not in question with fewer of their steps where there are many rows."""
    others = sum(bool(row.by_step) for place, row in enumerate(accounting) if place != first)
    most = max(LEAST_STEPS_OF_ROW, MOST_STEPS_OF_OTHERS // max(1, others))
    return tuple(
        row if place == first or len(row.by_step) <= most else _with_fewer(row, most)
        for place, row in enumerate(accounting)
    )


def _with_fewer(row: report.Accounting, most: int) -> report.Accounting:
    total: I64 = np.array([each.total_ns for each in row.by_step], dtype=np.int64)
    kept = tuple(row.by_step[at] for at in told_steps(total, most).tolist())
    left_out = (row.steps_left_out or 0) + len(row.by_step) - len(kept)
    return msgspec.structs.replace(row, by_step=kept, steps_left_out=left_out)
