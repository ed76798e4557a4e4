"""Times of several ranks on one clock: each rank's own less how far it is ahead, as the report's clocks say.

    true = local - offset - drift * (local - offset - pivot)

The pivot is the report's; of a report that has none, the start of its window on the common axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.model.analysis import IdleSpans
from stepscope.model.report import Card, Clocks, Report
from stepscope.model.text import Lang, Text
from stepscope.model.trace import I64, Trace

_EXTREME = 1 << 62
"""Times as large are no times: they are left out later and must not wrap around here."""
_UNALIGNED = Text(en="clock not aligned", zh="时钟未对齐")
_AMONG = Text(en="clock aligned with ranks {ranks} only", zh="时钟仅与 rank {ranks} 对齐")


@dataclass(frozen=True, slots=True)
class Clock:
    """How far one rank's clock is ahead at `pivot_ns` of the common axis, and how fast it runs ahead.

    `drift` is a ratio, 0 where it could not be told. `lift_ns` is the same for all ranks: what keeps the
    first of them above 0, where traces count from their own beginning.
    """

    offset_ns: int
    drift: float
    pivot_ns: int
    lift_ns: int = 0

    def at(self, local_ns: I64) -> I64:
        """These times of the rank on the common axis, in the same order."""
        is_time = _is_time(local_ns)
        whole = np.where(is_time, local_ns, 0) - self.offset_ns
        drifted = np.round(self.drift * (whole - self.pivot_ns).astype(np.float64)).astype(np.int64)
        moved: I64 = np.where(is_time, whole - drifted + self.lift_ns, local_ns)
        return moved

    def of(self, local_ns: int) -> int:
        """One time."""
        return int(self.at(np.array([local_ns], dtype=np.int64))[0])


def _is_time(local_ns: I64) -> npt.NDArray[np.bool_]:
    return (local_ns > -_EXTREME) & (local_ns < _EXTREME)


def clocks_of(report: Report) -> dict[int, Clock]:
    """The clock of every rank whose offset is known; empty where ranks were not compared."""
    if report.clocks is None:
        return {}
    offsets = {row.rank: row.offset_ns for row in report.clocks.ranks if row.offset_ns is not None}
    if not offsets:
        return {}
    steps = [
        step.start_ns - offsets[step.rank]
        for step in report.steps
        if step.rank in offsets and step.use in ("counted", "marked")
    ]
    begins = [
        each.start_ns - offsets[each.rank]
        for each in report.inputs
        if each.rank in offsets and each.start_ns is not None
    ]
    pivot = report.clocks.pivot_ns
    if pivot is None:
        pivot = min(steps or begins, default=0)
    drifts = {
        row.rank: (row.drift_ppm or 0.0) / 1e6 if steps or begins else 0.0 for row in report.clocks.ranks
    }
    lift = 0
    if any(each.start_ns is None for each in report.inputs if each.rank in offsets):
        # Times without an anchor may begin at 0, and no time in the file may lie before that.
        furthest = max(0, *offsets.values())
        most = max(abs(each) for each in drifts.values())
        lift = furthest + round(most * (abs(pivot) + max(map(abs, offsets.values()))))
    return {rank: Clock(offset, drifts[rank], pivot, lift) for rank, offset in offsets.items()}


def clock_note(clocks: Clocks | None, rank: int | None, lang: Lang) -> str:
    """What a track says of its clock: nothing where it is that of the reference rank, or of the only rank."""
    if clocks is None:
        return ""
    own = next((row for row in clocks.ranks if row.rank == rank), None)
    if own is None or own.offset_ns is None:
        return _UNALIGNED.in_(lang)
    main = next((row.component for row in clocks.ranks if row.rank == clocks.reference_rank), own.component)
    if own.component == main:
        return ""
    ranks = sorted(row.rank for row in clocks.ranks if row.component == own.component)
    return _AMONG.in_(lang).format(ranks=_listed(ranks))


def _listed(ranks: Sequence[int]) -> str:
    if ranks == list(range(ranks[0], ranks[-1] + 1)) and len(ranks) > 1:
        return f"{ranks[0]}-{ranks[-1]}"
    return ", ".join(map(str, ranks[:8])) + (", …" if len(ranks) > 8 else "")


def moved_trace(trace: Trace, clock: Clock) -> Trace:
    """The trace on the common axis. Starts and ends keep their order, so that what nests still does; a
    negative duration stays as it was written."""
    spans = trace.spans
    start = clock.at(spans.ts_ns)
    has_end = (spans.dur_ns > 0) & (spans.dur_ns < _EXTREME) & _is_time(spans.ts_ns)
    end = clock.at(np.where(has_end, spans.ts_ns + np.where(has_end, spans.dur_ns, 0), 0))
    return replace(
        trace,
        spans=replace(spans, ts_ns=start, dur_ns=np.where(has_end, end - start, spans.dur_ns)),
        instants=replace(trace.instants, ts_ns=clock.at(trace.instants.ts_ns)),
        memory=replace(trace.memory, ts_ns=clock.at(trace.memory.ts_ns)),
    )


def moved_idle(idle: Sequence[IdleSpans], clock: Clock) -> list[IdleSpans]:
    """Idle pieces on the common axis."""
    return [replace(each, start_ns=clock.at(each.start_ns), end_ns=clock.at(each.end_ns)) for each in idle]


def moved_report(report: Report, clocks: Mapping[int, Clock]) -> Report:
    """The report with its steps and the onsets of its cards on the common axis."""
    if not clocks:
        return report
    steps = []
    for step in report.steps:
        clock = None if step.rank is None else clocks.get(step.rank)
        if clock is None:
            steps.append(step)
            continue
        start, end = clock.of(step.start_ns), clock.of(step.end_ns)
        steps.append(msgspec.structs.replace(step, start_ns=start, end_ns=end, dur_ns=end - start))
    ranks = {finding.id: finding.subject.ranks for finding in report.findings}

    def moved(card: Card) -> Card:
        mine = next((rank for each in card.findings for rank in ranks.get(each, ())), None)
        clock = None if mine is None else clocks.get(mine)
        if clock is None or card.onset_ns is None:
            return card
        return msgspec.structs.replace(card, onset_ns=clock.of(card.onset_ns))

    return msgspec.structs.replace(report, steps=tuple(steps), cards=tuple(map(moved, report.cards)))
