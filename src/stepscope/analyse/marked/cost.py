"""What stepscope itself cost each rank, by its marks. Pure."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.marked.tile import Tiles
from stepscope.analyse.marked_cost import mark_cost
from stepscope.model import report
from stepscope.model.mark import RankMarks


def own_cost(marks: RankMarks, of: Tiles) -> report.OwnCost | None:
    """The cost of marks and captures of one rank with all its tiles; `None` where neither was measured."""
    is_shadow = marks.steps.is_shadow
    stalls = [each.stall_ns for each in marks.captures if each.stall_ns is not None]
    made = report.OwnCost(
        rank=marks.identity.rank,
        num_captures=len(marks.captures) or None,
        stall_ns=sum(stalls) if stalls else None,
    )
    if not is_shadow.any():
        return made if marks.captures else None
    left_out = np.array([use in ("captured", "warm_up", "marked") for use in of.use], dtype=bool)
    found = mark_cost(of.number, of.end_ns - of.start_ns, is_shadow, left_out)

    def whole(value: float | None) -> int | None:
        return None if value is None else round(value)

    return report.OwnCost(
        rank=made.rank,
        num_groups=found.num_groups,
        step_ns=whole(found.usual_ns),
        marks_ns=whole(found.cost_ns),
        marks_low_ns=whole(found.low_ns),
        marks_high_ns=whole(found.high_ns),
        num_captures=made.num_captures,
        stall_ns=made.stall_ns,
    )
