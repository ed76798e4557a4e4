"""Where each rank was at its last mark. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.model.mark import RankMarks
from stepscope.model.standing import Standing, elsewhere

__all__ = ["Standing", "elsewhere", "standings"]


def standings(ranks: Sequence[RankMarks]) -> tuple[Standing, ...]:
    """Every rank that did not say that it ends, by rank; times on one clock."""
    found = [
        Standing(
            rank=each.identity.rank,
            step=each.open_step,
            last_step=int(each.steps.step[-1]) if len(each.steps) else None,
            phase=each.open_phase,
            since_ns=each.open_since_ns,
            is_alive=each.is_alive,
        )
        for each in ranks
        if each.exit_ns is None
    ]
    return tuple(sorted(found, key=lambda each: -1 if each.rank is None else each.rank))
