"""The map of lateness: which steps it shows, and its rows. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from stepscope.model import report

MOST_STEPS = 200
"""Columns of the map of lateness, and late steps of one rank."""

F64 = npt.NDArray[np.float64]


def columns(late: npt.NDArray[np.bool_]) -> list[int]:
    """Up to MOST_STEPS columns, rising: those in which somebody is late first, then at equal distances."""
    num = late.shape[1]
    if num <= MOST_STEPS:
        return list(range(num))
    chosen = np.flatnonzero(late.any(axis=0))[:MOST_STEPS].tolist()
    rest = [int(place) for place in np.linspace(0, num - 1, MOST_STEPS) if int(place) not in set(chosen)]
    return sorted([*chosen, *rest[: MOST_STEPS - len(chosen)]])


def rows(
    ranks: Sequence[int], behind: F64, wait: F64, late: npt.NDArray[np.bool_]
) -> tuple[report.RankLateness, ...]:
    chosen = columns(late)
    return tuple(
        report.RankLateness(
            rank=rank,
            lateness_ns=tuple(_whole(value) for value in behind[row, chosen].tolist()),
            wait_ns=tuple(_whole(value) for value in wait[row, chosen].tolist()),
        )
        for row, rank in enumerate(ranks)
    )


def _whole(value: float) -> int | None:
    return round(value) if np.isfinite(value) else None
