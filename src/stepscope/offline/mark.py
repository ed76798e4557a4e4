"""Marks that were given: one run of one job, as analyses and as logs."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from stepscope.analyse.marked.log import log_of_marks
from stepscope.analyse.marked.rank import NOT_MARKED, Marked, analyse_marks
from stepscope.model.log import Log
from stepscope.model.mark import RankMarks
from stepscope.offline.read import Read


@dataclasses.dataclass(frozen=True, slots=True)
class MarksGiven:
    """What the marks of one run say: an analysis and a log a rank. `reads` are all reads, those that hold
    nothing but marks of another run with that as their error."""

    reads: list[Read]
    marked: Marked = NOT_MARKED
    logs: tuple[Log, ...] = ()


def interrupted(reads: Sequence[Read]) -> list[Read]:
    """The reads of a job that Ctrl-C ended: what never said how it ended was not lost."""
    return [
        dataclasses.replace(
            read,
            marks=tuple(
                dataclasses.replace(marks, was_interrupted=True) if marks.exit_ns is None else marks
                for marks in read.marks
            ),
        )
        for read in reads
    ]


def ended_well(reads: Sequence[Read]) -> list[Read]:
    """The reads of a job whose launcher returned 0: what never said how it ended (`os._exit`) ended well."""
    return [
        dataclasses.replace(
            read,
            marks=tuple(
                dataclasses.replace(marks, exit_ns=marks.last_ns) if marks.exit_ns is None else marks
                for marks in read.marks
            ),
        )
        for read in reads
    ]


def marks_of(
    reads: Sequence[Read], steps: tuple[int, int] | None, rank: int | None, now_ns: int
) -> MarksGiven:
    """The marks of the latest run among all that were read. `now_ns` is the wall time of reading, of those
    that a ring gave itself."""
    placed = [(n, marks) for n, read in enumerate(reads) for marks in read.marks]
    if not placed:
        return MarksGiven(list(reads))
    chosen = _latest([marks for _, marks in placed])
    used = [(n, marks) for (n, marks), keep in zip(placed, chosen, strict=True) if keep]
    places = {n for n, _ in used}
    told = [_of_another_run(read) if read.marks and n not in places else read for n, read in enumerate(reads)]
    ours = [marks for _, marks in used if rank is None or marks.identity.rank in (None, rank)]
    marked = analyse_marks(ours, steps)
    logs = tuple(
        log_of_marks(marks, reads[n].input.name, reads[n].read_ns or now_ns)
        for n, marks in used
        if rank is None or marks.identity.rank in (None, rank)
    )
    return MarksGiven(told, marked, logs)


def _latest(rings: Sequence[RankMarks]) -> list[bool]:
    """Which rings are of the latest run: those of its run id, and of each rank the last one."""

    def last(marks: RankMarks) -> int:
        return marks.last_ns or 0

    def run(marks: RankMarks) -> tuple[str | None, str | None, int | None]:
        return marks.identity.job, marks.identity.run, marks.identity.restart

    newest = run(max(rings, key=last))
    mine = [n for n, marks in enumerate(rings) if run(marks) == newest]
    of_rank: dict[int, int] = {}
    for n in mine:
        number = rings[n].identity.rank
        if number is not None and (number not in of_rank or last(rings[n]) > last(rings[of_rank[number]])):
            of_rank[number] = n
    kept = {n for n in mine if rings[n].identity.rank is None} | set(of_rank.values())
    if of_rank:
        # Without run ids an older run of more ranks looks like part of this one: it ended before this began.
        begin = max(rings[n].start_ns or 0 for n in of_rank.values())
        kept = {n for n in kept if last(rings[n]) >= begin or newest[1] is not None}
    return [n in kept for n in range(len(rings))]


def _of_another_run(read: Read) -> Read:
    if read.telemetry or read.logs:  # a spool: its counters are of use all the same
        return dataclasses.replace(read, marks=())
    why = f"{read.input.name}: marks of an earlier run; give them alone to see it"
    return dataclasses.replace(read, marks=(), input=msgspec.structs.replace(read.input, error=why))
