"""Marks beside traces: traces tell of few steps what they spend their time on, marks of the whole run how
long its steps took and where the loop stood. Pure.

Of the traced steps the traces decide. Marks add what they alone saw: causes that held in other steps, who
was late over the run where traces of one rank cannot tell, and whether the traced steps are like the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.diagnose.finding import Told
from stepscope.diagnose.job import Job, join_ranks
from stepscope.diagnose.row import Row, judged_rows
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.text import duration
from stepscope.rules import Catalog

LIKE = 1.2
"""Traced steps that take no longer and no shorter than the others by this factor are like them."""
LEAST_STEPS = 3


@dataclass(frozen=True, slots=True)
class BesideTraces:
    """What marks add to traces: rows with the findings that only they can give, the join of their ranks, and
    whether the traced steps are like the others (`None` where too few of either are known)."""

    rows: tuple[Row, ...] = ()
    job: Job | None = None
    representative: report.Representative | None = None


def beside_traces(
    marked: Sequence[RankAnalysis], traced: Sequence[Row], catalog: Catalog, num_rows: int | None = None
) -> BesideTraces:
    """What the marks of the same run add to rows of traces, of which the report's accounting has `num_rows`:
    theirs come behind; `None`: theirs are not in it."""
    if not marked or not traced or not _is_same_run(marked, traced):
        return BesideTraces()
    job = join_ranks(marked)
    rows: list[Row] = []
    for row in judged_rows(job.analyses, catalog):
        rank = row.observed.rank.rank
        own = [each for each in traced if each.observed.rank.rank == rank] or list(traced)
        decided = {each.rule.id for of in own for each in of.found}
        decided |= {each.rule.id for of in own for each in of.clear}
        found = tuple(each for each in row.found if each.rule.id not in decided)
        place = None if num_rows is None else num_rows + len(rows)
        rows.append(replace(row, found=found, place=place))
    return BesideTraces(tuple(rows), job, _like(marked, traced))


def without_traced(told: Sequence[Told], of_run: BesideTraces, traced: Sequence[Row]) -> list[Told]:
    """The findings without those of marks about a time in which a trace of the rank is clear of them, and
    without those of parts of the run whose cause a trace of the rank found itself."""
    own = {id(row.observed.rank) for row in of_run.rows}
    result = []
    for each in told:
        if id(each.row.observed.rank) in own and each.finding.subject.steps is not None:
            first, last = each.finding.subject.steps
            when = [step for step in each.row.observed.rank.steps if first <= step.step <= last]
            clear = [
                row
                for row in traced
                if row.observed.rank.rank == each.row.observed.rank.rank
                and any(out.rule.id == each.rule.id for out in row.clear)
            ]
            is_found = any(
                row.observed.rank.rank == each.row.observed.rank.rank
                and any(out.rule.id == each.rule.id for out in row.found)
                for row in traced
            )
            if is_found or any(_is_during(row, when) for row in clear):
                continue
        result.append(each)
    return result


def _is_during(row: Row, when: Sequence[report.Step]) -> bool:
    """Whether a traced step lies within the time of these steps."""
    if not when:
        return False
    begin, end = when[0].start_ns, when[-1].end_ns
    return any(begin < step.end_ns and step.start_ns < end for step in row.observed.rank.steps)


APART_NS = 600_000_000_000
"""Marks that end so long before the traces begin, or begin so long after, are of another run."""


def _is_same_run(marked: Sequence[RankAnalysis], traced: Sequence[Row]) -> bool:
    ours = [step for rank in marked for step in (rank.steps[0], rank.steps[-1]) if rank.steps]
    theirs = [step for row in traced for step in row.observed.rank.steps]
    if not ours or not theirs:
        return False
    begin, end = min(step.start_ns for step in ours), max(step.end_ns for step in ours)
    return (
        min(step.start_ns for step in theirs) <= end + APART_NS
        and max(step.end_ns for step in theirs) >= begin - APART_NS
    )


def _like(marked: Sequence[RankAnalysis], traced: Sequence[Row]) -> report.Representative | None:
    """Whether the traced steps take as long as the other steps of the run, by the median."""
    inside = [
        step.dur_ns
        for rank in {id(row.observed.rank): row.observed.rank for row in traced}.values()
        for step in rank.steps
        if step.use == "counted"
    ]
    outside = [step.dur_ns for rank in marked for step in rank.steps if step.use == "counted"]
    if len(inside) < LEAST_STEPS or len(outside) < LEAST_STEPS:
        return None
    here, there = float(np.median(inside)), float(np.median(outside))
    is_like = there > 0 and 1 / LIKE <= here / there <= LIKE
    why = (
        f"the median of {len(inside):,} traced steps is {duration(here)}, of {len(outside):,} marked steps "
        f"of the "
        f"run {duration(there)}"
    )
    return report.Representative(status="yes" if is_like else "no", why=why)
