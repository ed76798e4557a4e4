"""Why workers of a job differ in how long their passes take: one bad worker, uneven sequences, uneven stages.

The order of the questions matters. A bad worker's forward and backward passes correlate as well as those of
long sequences do, so that persistence and variation within a worker are asked before correlation; and long
sequences load stages unequally, so that stages are asked last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.report import ImbalanceClass
from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where figures become classes. Published traces of each class measure, in this order, bad worker /
    sequence length / stage: worker ratio 2.35 / 1.02 / 1.01, variation 0.017 / 0.219 / 0.029, stage ratio
    1.07 / 1.72 / 2.09, correlation 0.87-0.999 / 0.992 / 0.81-0.88 (What-if analysis of stragglers, OSDI
    2025).
    """

    worker_ratio: float = 1.10
    """Median over steps against the workers of the same stage; the gate of fleet detectors."""
    worker_errors: float = 5.0
    """And in errors of that median: uneven sequences make a worker of few steps look slow."""
    worker_share: float = 0.75
    """Steps in which it is behind: the same worker, and always."""
    variation: float = 0.10
    """Of one worker's micro-batches: five times what equal sequences show."""
    correlation: float = 0.90
    """Of forward and backward passes of one micro-batch: the published threshold."""
    stage_ratio: float = 1.20
    """The heaviest stage against the median of the others: a layer more among five."""
    slowdown: float = 1.05
    """Below 5 % nothing is worth a change."""


LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Passes:
    """Times of computation: equally long columns, a row a (step, rank, micro-batch).

    `stage` and `data_parallel_rank` are 0 where there are none; times are nanoseconds.
    """

    rank: I64
    stage: I64
    data_parallel_rank: I64
    step: I64
    micro_batch: I64
    forward_ns: I64
    backward_ns: I64

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uneven:
    """The class, and the figures that decide. `None` is what cannot be known: no replica to compare with, one
    micro-batch only, one stage only."""

    class_: ImbalanceClass
    ranks: tuple[int, ...]
    """Bad workers, the slowest first; else empty."""
    stage: int | None
    """Of the first bad worker, or the heaviest one."""
    worker_ratio: float | None
    """The slowest worker against others of its stage, median over steps."""
    variation: float | None
    correlation: float | None
    stage_ratio: float | None
    ratios: tuple[tuple[int, float], ...] = ()
    """(rank, ratio) of all workers that have replicas."""


def imbalance(passes: Passes, slowdown: float | None = None, limits: Limits = LIMITS) -> Uneven:
    """The class of imbalance; `slowdown` is what it costs, `None` where no replay tells."""
    if len(passes) == 0:
        return Uneven(
            class_="unknown",
            ranks=(),
            stage=None,
            worker_ratio=None,
            variation=None,
            correlation=None,
            stage_ratio=None,
        )
    ratios, bad = _bad_workers(passes, limits)
    variation, correlation = _variation(passes), _correlation(passes)
    heaviest, stage_ratio = _stages(passes)
    class_: ImbalanceClass = "none"
    stage: int | None = None
    if slowdown is not None and slowdown < limits.slowdown:
        bad = []
    elif bad:
        class_, stage = "bad_worker", int(passes.stage[passes.rank == bad[0]][0])
    elif variation is not None and variation >= limits.variation:
        class_ = "sequence_length" if (correlation or 0.0) >= limits.correlation else "unknown"
    elif stage_ratio is not None and stage_ratio >= limits.stage_ratio:
        class_, stage = "stage", heaviest
    elif slowdown is not None:
        class_ = "unknown"
    return Uneven(
        class_=class_,
        ranks=tuple(bad),
        stage=stage,
        worker_ratio=max((ratio for _, ratio in ratios), default=None),
        variation=variation,
        correlation=correlation,
        stage_ratio=stage_ratio,
        ratios=tuple(ratios),
    )


def work_by_step(passes: Passes) -> tuple[I64, I64, F64]:
    """(ranks, steps, time of both passes by rank and step in nanoseconds; NaN where missing)."""
    ranks, row = np.unique(passes.rank, return_inverse=True)
    steps, column = np.unique(passes.step, return_inverse=True)
    total = np.zeros((len(ranks), len(steps)))
    count = np.zeros(total.shape)
    np.add.at(total, (row.reshape(-1), column.reshape(-1)), passes.forward_ns + passes.backward_ns)
    np.add.at(count, (row.reshape(-1), column.reshape(-1)), 1)
    total[count == 0] = np.nan
    return ranks, steps, total


def stage_of(passes: Passes) -> dict[int, tuple[int, int]]:
    """rank -> (stage, data-parallel rank)."""
    ranks, first = np.unique(passes.rank, return_index=True)
    stages, replicas = passes.stage[first].tolist(), passes.data_parallel_rank[first].tolist()
    return dict(zip(ranks.tolist(), zip(stages, replicas, strict=True), strict=True))


def _bad_workers(passes: Passes, limits: Limits) -> tuple[list[tuple[int, float]], list[int]]:
    ranks, _, work = work_by_step(passes)
    places = stage_of(passes)
    stages = np.array([places[rank][0] for rank in ranks.tolist()])
    found: list[tuple[int, float]] = []
    bad: list[tuple[float, int]] = []
    for stage in np.unique(stages):
        rows = np.flatnonzero(stages == stage)
        if len(rows) < 2:
            continue
        against = np.stack([_median(np.delete(work[rows], place, axis=0)) for place in range(len(rows))])
        ratio = work[rows] / against
        level = np.array([_middle(row) for row in ratio])
        spread = 1.4826 * _middle(np.abs(ratio - level[:, None]).reshape(-1))
        for rank, row, middle in zip(ranks[rows].tolist(), ratio, level.tolist(), strict=True):
            known = row[np.isfinite(row)]
            if not len(known):
                continue
            found.append((rank, middle))
            error = 1.2533 * spread / np.sqrt(len(known))
            is_always = float((known > 1 + (limits.worker_ratio - 1) / 2).mean()) >= limits.worker_share
            if middle >= max(limits.worker_ratio, 1 + limits.worker_errors * error) and is_always:
                bad.append((middle, rank))
        # With most of a stage slow nobody is ordinary there.
        mine = [each for each in bad if each[1] in set(ranks[rows].tolist())]
        if len(mine) > len(rows) / 2:
            bad = [each for each in bad if each not in mine]
    return found, [rank for _, rank in sorted(bad, reverse=True)]


def _median(rows: F64) -> F64:
    """Of each column, NaN where none is known."""
    known = np.isfinite(rows).any(axis=0)
    result = np.full(rows.shape[1], np.nan)
    result[known] = np.nanmedian(rows[:, known], axis=0)
    return result


def _middle(row: F64) -> float:
    known = row[np.isfinite(row)]
    return float(np.median(known)) if len(known) else float("nan")


def _variation(passes: Passes) -> float | None:
    """Standard deviation over mean of the forward passes of a worker's step: the median of all."""
    _, cell = np.unique(np.stack([passes.rank, passes.step], axis=1), axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    count = np.bincount(cell)
    mean = np.bincount(cell, passes.forward_ns) / count
    square = np.bincount(cell, (passes.forward_ns - mean[cell]) ** 2) / count
    use = (count > 1) & (mean > 0)
    return float(np.median(np.sqrt(square[use]) / mean[use])) if use.any() else None


def _correlation(passes: Passes) -> float | None:
    """Of forward and backward times of one micro-batch, the median stage."""
    values = []
    for stage in np.unique(passes.stage):
        mine = passes.stage == stage
        forward, backward = passes.forward_ns[mine].astype(float), passes.backward_ns[mine].astype(float)
        if len(forward) > 2 and forward.std() > 0 and backward.std() > 0:
            values.append(float(np.corrcoef(forward, backward)[0, 1]))
    return float(np.median(values)) if values else None


def _stages(passes: Passes) -> tuple[int | None, float | None]:
    """The heaviest stage, and how much it takes of the median of the others."""
    stages = np.unique(passes.stage)
    if len(stages) < 2:
        return None, None
    total = (passes.forward_ns + passes.backward_ns).astype(float)
    middle = np.array([np.median(total[passes.stage == stage]) for stage in stages])
    place = int(middle.argmax())
    others = float(np.median(np.delete(middle, place)))
    return int(stages[place]), float(middle[place]) / others if others > 0 else None
