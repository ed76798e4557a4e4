"""The traces of a report, read again: in columns, redacted as the report is."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stepscope.analyse.linked import Linked, link_trace
from stepscope.analyse.rank import analyse_rank
from stepscope.model import redact
from stepscope.model.analysis import RankAnalysis
from stepscope.model.error import InputError, UnusableError, UsageError
from stepscope.model.report import Report
from stepscope.model.trace import Trace
from stepscope.offline import Diagnosed


@dataclass(frozen=True, slots=True)
class Again:
    """One trace of a report. `place` is its place in `report.inputs`; `owner` tells it from the others, empty
    where it is the only one; `trace` is redacted, what was computed from it was computed before."""

    place: int
    owner: str
    trace: Trace
    linked: Linked
    analyses: Sequence[RankAnalysis]


def check_readable_twice(paths: Sequence[str], why: str) -> None:
    """Refuse a pipe, which can be read once only, before it is read."""
    for path in paths:
        if (
            os.path.exists(path)
            and not stat.S_ISREG(mode := os.stat(path).st_mode)
            and not stat.S_ISDIR(mode)
        ):
            raise UsageError(f"{path}: {why} reads a trace twice, and a pipe can be read once; give a file")


def check_any(done: Diagnosed) -> None:
    """Refuse a report that is of no trace, as one of a memory snapshot alone."""
    if not done.sources:
        names = ", ".join(each.name for each in done.report.inputs)
        raise UnusableError(f"{names}: no trace is among the inputs, and the file would be empty; give one")


def owner_of(report: Report, place: int, count: int) -> str:
    """What stands in front of the names of one of `count` traces: its rank, else its place, else nothing."""
    rank = report.inputs[place].rank
    if rank is not None:
        return f"rank {rank}"
    return f"input {place + 1}" if count > 1 else ""


def far_line(count: int) -> str | None:
    """What is said of events that are not in a file for their time; `None` where all are."""
    return f"{count:,} events with times far from all others are left out" if count else None


def traces(done: Diagnosed, *, with_analysis: bool = False) -> Iterator[Again]:
    """Each trace of the report in turn; the one before is gone when the next is read.

    Raises InputError where a file is not what it was, UnusableError where the report is of no trace. The
    analyses are empty unless asked for.
    """
    from stepscope.trace.load import load, rank_of

    check_any(done)
    for source in done.sources:
        trace = load(source.path, digest=source.sha256 is not None)
        if trace.sha256 != source.sha256:
            raise InputError(source.path, "has changed since it was diagnosed", "run the command again")
        trace, _, _ = redact.trace_without_secrets(trace)
        analyses: list[RankAnalysis] = []
        if with_analysis:
            rank, world_size, _ = rank_of(trace)
            analyses = analyse_rank(trace, steps=done.steps, rank=rank, world_size=world_size)
        linked = link_trace(trace)
        owner = owner_of(done.report, source.place, len(done.sources))
        yield Again(source.place, owner, redact.redact_trace(trace, done.redaction), linked, analyses)
        del trace, analyses, linked
