"""Bad workers of a pipeline: ranks that need longer for themselves than the other replicas of their stage.

In a pipeline everybody waits for everybody all the time, and starts say nothing of who is late. What a rank
spends itself (computing, and idle time of its own making) can be held against the ranks with the same layers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.joined import Joined
from stepscope.analyse.lateness import OWN, Lateness, reason
from stepscope.analyse.stage import Stages
from stepscope.detect.few import few_steps
from stepscope.detect.peer import by_lateness
from stepscope.diagnose.straggler import (
    FEW_STEP_SHARE,
    LEAST_COST_SHARE,
    LEAST_SERIES,
    LEAST_STEP_SHARE,
    MOST_TOLD_STEPS,
    rank_of,
)
from stepscope.model import report


def workers(
    whole: Joined,
    late: Lateness,
    found: Stages,
    parts: npt.NDArray[np.float64],
    steps_ns: int,
) -> tuple[report.Straggler, ...]:
    """The bad workers, costliest first; a stage with one replica has nobody to be held against."""
    own = np.where(np.isfinite(parts[:, :, 0]), np.nansum(parts[:, :, OWN], axis=2), np.nan)
    num_steps = own.shape[1]
    step_ns = steps_ns / max(num_steps, 1)
    rows = []
    for stage in range(found.num):
        ranks = np.flatnonzero(found.stage == stage)
        if len(ranks) < 2:
            continue
        for place, columns, persistence in _deviants(own[ranks], whole.clock_noise_ns, step_ns):
            who = (int(ranks[place]), columns, persistence)
            row = _row(whole, late, parts, own, ranks, who, steps_ns, stage)
            if (row.cost_ns or 0) >= LEAST_COST_SHARE * steps_ns:
                rows.append(row)
    return tuple(sorted(rows, key=lambda row: -(row.cost_ns or 0)))


def _deviants(
    own: npt.NDArray[np.float64], clock_ns: int, step_ns: float
) -> list[tuple[int, npt.NDArray[np.int64], report.Persistence]]:
    """(row, columns, persistence) of the ranks of one stage that need longer than the others."""
    if own.shape[1] >= LEAST_SERIES:
        gate = by_lateness(own, max(clock_ns, LEAST_STEP_SHARE * step_ns))
        return [(each.rank, np.array(each.steps, dtype=np.int64), gate.persistence) for each in gate.deviants]
    few = few_steps(own - np.nanmin(own, axis=0), max(clock_ns, FEW_STEP_SHARE * step_ns), far=step_ns)
    return [(rank, np.flatnonzero(few.late[rank]), few.persistence) for rank in few.ranks]


def _row(
    whole: Joined,
    late: Lateness,
    parts: npt.NDArray[np.float64],
    own: npt.NDArray[np.float64],
    ranks: npt.NDArray[np.intp],
    who: tuple[int, npt.NDArray[np.int64], report.Persistence],
    steps_ns: int,
    stage: int,
) -> report.Straggler:
    rank, columns, persistence = who
    others = ranks[ranks != rank]
    ordered = np.sort(own[others][:, columns], axis=0)
    excess = np.maximum(own[rank, columns] - ordered[(len(others) - 1) // 2], 0.0)
    cost = int(np.nansum(np.fmin(excess, late.most_cost_ns[rank, columns])))
    # Held against its own stage only: other stages have other work.
    mine = np.isin(np.arange(len(parts)), ranks)
    held = np.where(mine[:, None, None], parts, np.nan)
    why, culprit = reason(late, whole.tables, rank, columns, held, float(np.nansum(excess)))
    return report.Straggler(
        rank=rank_of(whole.tables[rank]),
        lateness_ns=round(float(np.nanmedian(excess))),
        cost_ns=cost,
        persistence=persistence,
        reason=why,
        share=min(1.0, cost / steps_ns) if steps_ns else None,
        num_steps=own.shape[1],
        num_late=len(columns),
        late_steps=tuple(late.steps[columns[:MOST_TOLD_STEPS]].tolist()),
        culprit=culprit,
        stage=stage,
    )
