"""How the job went forward: steps of logs and traces, and when it was writing, evaluating or starting.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analyse.telemetry.log import step_times
from stepscope.analyse.telemetry.trend import growth
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.interval import NOTHING, Intervals, join, union
from stepscope.model.log import ABSENT_NS, Log, LogEvent, Progress

APART_NS = 600_000_000_000
"""A log that ends so long before the counters begin, or begins so long after, is of another run."""
USUAL_TIMES = 5
"""Two lines that lie further apart than so many usual distances have a pause between them, not steps."""


_ENDS = ("exit", "oom")
"""Events after which no step is due: the silence after a watchdog's or another error is what it tells of."""


_OTHER_LOGS = ("kernel", "nccl")
"""Formats of logs that tell of no steps."""


@dataclass(frozen=True, slots=True)
class Progressed:
    """When what went on. Intervals are `None` where nothing tells: a log without times, or none."""

    rows: tuple[report.Progress, ...] = ()
    steps: Intervals | None = None
    checkpoints: Intervals | None = None
    evaluations: Intervals | None = None
    first_step_ns: int | None = None
    last_step_ns: int | None = None
    until_ns: int | None = None
    """The end of the telemetry, or of what logs tell."""
    is_over: bool = False
    """The job reached its last step or ended: silence afterwards is no stall."""

    def is_apart(self, begin_ns: int | None, end_ns: int | None) -> bool:
        """Whether the steps lie minutes before or after another source's time: they are of another run."""
        if begin_ns is None or end_ns is None or self.first_step_ns is None or self.last_step_ns is None:
            return False
        return self.first_step_ns > end_ns + APART_NS or self.last_step_ns < begin_ns - APART_NS


def progressed(
    analyses: Sequence[RankAnalysis], logs: Sequence[Log], end_ns: int | None = None
) -> Progressed:
    """What logs and traces together say of it. `end_ns` is the end of the telemetry: what was begun, and of
    which no log says that it is over, goes on until then."""
    rows = tuple(row for log in logs if log.progress is not None for row in _row(log, log.progress))
    traced = [step for analysis in analyses for step in analysis.steps]
    in_traces = _intervals((step.start_ns, step.end_ns) for step in traced)
    timed = [log.progress for log in logs if log.progress is not None and _times(log.progress)[0].size]
    in_logs = [_stepping(progress) for progress in timed]
    events = sorted(
        (event for log in logs for event in log.events if event.at_ns is not None),
        key=lambda event: event.at_ns or 0,
    )
    steps = join(in_traces, *in_logs) if traced or in_logs else None
    lines = np.unique(np.concatenate([_times(p)[0] for p in timed])) if timed else np.empty(0, dtype=np.int64)
    first = min([int(_times(p)[0].min()) - _usual(p) for p in timed], default=None)
    last = max([int(_times(p)[0].max()) for p in timed], default=None)
    ends = [event.at_ns or 0 for event in events if event.kind in _ENDS]
    until = max(
        [*(event.at_ns or 0 for event in events[-1:]), *([end_ns] if end_ns is not None else [])], default=0
    )
    if not traced and _is_starting(logs):
        first = until + 1
    reached = any(p.total is not None and len(p) and int(p.step.max()) >= p.total for p in timed)
    lives = any(event.what == "alive" for event in events)
    ended = not lives and any(last is not None and at >= last for at in ends)
    return Progressed(
        rows=rows,
        steps=steps,
        checkpoints=_during(events, "checkpoint_start", "checkpoint_end", lines, ends, until),
        evaluations=_during(events, "eval_start", "eval_end", lines, ends, until),
        first_step_ns=first,
        last_step_ns=last,
        until_ns=max([until, *([last] if last is not None else [])]) or None,
        is_over=reached or ended,
    )


def _intervals(pairs: Iterable[tuple[int, int]]) -> Intervals:
    found = list(pairs)
    if not found:
        return NOTHING
    start, end = np.array(found, dtype=np.int64).T
    return union(start, end)


def _times(progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    known = progress.at_ns != ABSENT_NS
    return progress.at_ns[known], progress.step[known]


def _usual(progress: Progress) -> int:
    """The usual time from one line to the next, 0 of fewer than two."""
    at = np.sort(_times(progress)[0])
    return int(np.median(np.diff(at))) if len(at) > 1 else 0


def _stepping(progress: Progress) -> Intervals:
    """From line to line, where the step rose and the distance is no more than a few usual ones."""
    at, step = _times(progress)
    usual = _usual(progress)
    if len(at) < 2:
        return NOTHING
    good = (np.diff(step) > 0) & (np.diff(at) <= USUAL_TIMES * max(usual, 1))
    return union(at[:-1][good], at[1:][good])


def _is_starting(logs: Sequence[Log]) -> bool:
    """Whether the logs tell of a start and of nothing after it: a log whose steps cannot be read tells of
    more. That a process lives is not told of its steps."""
    kinds = {
        event.kind
        for log in logs
        if log.format not in _OTHER_LOGS
        for event in log.events
        if event.what != "alive"
    }
    return kinds == {"start"} and not any(log.progress is not None and len(log.progress) for log in logs)


def _during(
    events: Sequence[LogEvent], begin: str, end: str, lines: np.ndarray, ends: Sequence[int], until: int
) -> Intervals | None:
    """From each beginning to its end, or to the next line that states a step; what is not over then goes on
    to the job's end (`ends`), or as far as anything is known (`until`). `None` where no log says when it
    begins or ends, although it has times."""
    if not len(lines) and not events:
        return None
    found = []
    begun: int | None = None
    for event in events:
        at = event.at_ns or 0
        if event.what == begin and begun is None:
            begun = at
        elif event.what == end and begun is not None:
            found.append((begun, at))
            begun = None
        elif begun is not None and len(lines) and (lines > begun).any() and lines[lines > begun][0] <= at:
            found.append((begun, int(lines[lines > begun][0])))
            begun = at if event.what == begin else None
    if begun is not None:
        later = [*(int(at) for at in lines[lines > begun][:1]), *(at for at in ends if at > begun)]
        found.append((begun, min(later, default=max(until, begun))))
    return _intervals(found)


def _row(log: Log, progress: Progress) -> tuple[report.Progress, ...]:
    if not len(progress):
        return ()
    at, _ = _times(progress)
    _, seconds = step_times(progress)

    def median(name: str) -> float | None:
        values = progress.column(name)[2]
        return float(np.median(values)) if len(values) else None

    loss = progress.column("loss")[2]
    return (
        report.Progress(
            source=log.name,
            first_step=int(progress.step.min()),
            last_step=int(progress.step.max()),
            total_steps=progress.total,
            start_ns=int(at.min()) if len(at) else None,
            end_ns=int(at.max()) if len(at) else None,
            step_ns=round(float(np.median(seconds)) * 1e9) if len(seconds) else None,
            step_growth_ratio=growth(seconds),
            tokens_per_second=median("tokens_per_second"),
            samples_per_second=median("samples_per_second"),
            loss_first=float(loss[0]) if len(loss) else None,
            loss_last=float(loss[-1]) if len(loss) else None,
            rank=log.rank,
        ),
    )
