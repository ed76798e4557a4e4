"""Whether ranks that are late by turns are late at all: one that is so alone, or no more than a scatter."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

ALONE = 0.8
"""A rank with so much of the cost is the late one; what others cost beside it is their noise."""
SCATTER = 0.12
"""Lateness with a cause has a size: between a quarter and half of it lies next to nothing. Of exponential
pauses there lie at least 0.19 of those above, of half a normal distribution or a uniform one 0.17."""
RARE = 0.1
"""Late in so few steps of those in which another rank is, a rank had a pause or two."""

Columns = Mapping[int, npt.NDArray[np.int64]]


def alone(columns: Columns, cost: npt.NDArray[np.float64]) -> int | None:
    """The rank (row of `cost`) with nearly all of the cost in its late columns; `None` where none has."""
    each = {rank: float(np.nansum(cost[rank, mine])) for rank, mine in columns.items()}
    total = sum(each.values())
    if total <= 0:
        return None
    worst = max(each, key=lambda rank: each[rank])
    return worst if each[worst] >= ALONE * total else None


def is_scatter(columns: Columns, lateness_ns: npt.NDArray[np.float64]) -> bool:
    """Whether the sizes of all this lateness spread from nothing on, as pauses of a busy host do.

    Ranks on a host that others use too come late by turns, each by what its scheduler took: that is no rank's
    fault, and another run has it elsewhere.
    """
    late = np.concatenate([lateness_ns[rank, mine] for rank, mine in columns.items()])
    usual = float(np.nanmedian(late)) if np.isfinite(late).any() else 0.0
    if usual <= 0:
        return False
    with np.errstate(invalid="ignore"):
        above = int((lateness_ns >= usual / 2).sum())
        between = int((lateness_ns >= usual / 4).sum()) - above
    return between >= SCATTER * above
