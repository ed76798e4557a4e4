"""Marks as a log: the progress of a rank, and what happened to it and when."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.marked.tile import Tiles, tiles
from stepscope.model.log import PROGRESS_FIELDS, Log, LogEvent, Progress
from stepscope.model.mark import PHASES, RankMarks
from stepscope.model.sample import F64
from stepscope.model.trace import I64

FORMAT = "marks"
_LOGGED = {"lr": "learning_rate"}
"""Names that loops log -> fields of `PROGRESS_FIELDS`, where they differ."""
_DURING = ("checkpoint", "eval")
KILLED, INTERRUPTED = ": it was killed", ": it was interrupted"
"""How texts of an end by a signal end."""


def log_of_marks(marks: RankMarks, name: str, read_ns: int | None = None) -> Log:
    """The log of one ring, called `name`. `read_ns` is when a ring was read whose writer was alive: until
    then it made no further step."""
    of = tiles(marks)
    progress = _progress(marks, of) if len(of) else None
    return Log(
        name=name,
        format=FORMAT,
        progress=progress,
        events=tuple(sorted(_events(marks, read_ns), key=lambda event: event.at_ns or 0)),
        rank=marks.identity.rank,
        host=marks.identity.host,
        num_lines=len(marks.steps),
        num_known=len(marks.steps),
    )


def _progress(marks: RankMarks, of: Tiles) -> Progress:
    """A line a step, at its end; what a capture or a first step took is left out of the times."""
    steps, values = marks.steps, {}
    took = (of.end_ns - of.start_ns) / 1e9
    values["step_seconds"] = np.where(of.mask("counted", "marked"), took, np.nan)
    for field, column in (
        ("tokens", steps.tokens),
        ("samples", steps.samples),
        ("sequence_length", steps.sequence_length),
    ):
        if not np.isnan(column).all():
            values[field] = column
    for told, logged in marks.values.items():
        field = _LOGGED.get(told, told)
        if field in PROGRESS_FIELDS and field not in values:
            values[field] = _beside(steps.step, logged.step, logged.value)
    return Progress(at_ns=of.end_ns, step=of.number, values=values)


def _beside(step: I64, of: I64, value: F64) -> F64:
    """The last value that was logged in each step, NaN where none was."""
    order = np.argsort(of, kind="stable")
    place = np.searchsorted(of[order], step, side="right") - 1
    known = (place >= 0) & (of[order][np.maximum(place, 0)] == step) if len(of) else step < step
    found: F64 = np.where(known, value[order][np.maximum(place, 0)] if len(of) else np.nan, np.nan)
    return found


def _events(marks: RankMarks, read_ns: int | None) -> list[LogEvent]:
    rank, host, pid = marks.identity.rank, marks.identity.host, marks.identity.pid

    def event(
        kind: str, what: str, text: str, at: int | None, severity: str = "info", step: int | None = None
    ) -> LogEvent:
        return LogEvent(
            kind=kind, what=what, text=text, at_ns=at, line=0, severity=severity, rank=rank, host=host,
            pid=pid, step=step,
        )  # fmt: skip

    found = []
    if marks.start_ns is not None:
        found.append(event("start", "start", "the process began to mark", marks.start_ns))
    for name in _DURING:
        mine = np.flatnonzero(marks.phases.phase == PHASES.index(name))
        for n in mine.tolist():
            step = int(marks.phases.step[n])
            number = step if step >= 0 else None
            begin, end = int(marks.phases.start_ns[n]), int(marks.phases.end_ns[n])
            kind = "checkpoint" if name == "checkpoint" else "change"
            found.append(event(kind, f"{name}_start", f"{name} begins", begin, step=number))
            found.append(event(kind, f"{name}_end", f"{name} ends", end, step=number))
    if marks.open_phase in _DURING:
        kind = "checkpoint" if marks.open_phase == "checkpoint" else "change"
        found.append(
            event(kind, f"{marks.open_phase}_start", f"{marks.open_phase} begins", marks.open_since_ns)
        )
    for each in marks.captures:
        stall = "" if each.stall_ns is None else f", it held the loop up for {each.stall_ns / 1e6:,.3g} ms"
        found.append(
            event("capture", "capture", f"a {each.mode} capture{stall}", each.start_ns, step=each.first_step)
        )
    where = _where(marks)
    if marks.exit_ns is not None:
        text = "the process ended"
        if marks.was_interrupted:
            text += f"{where}{INTERRUPTED}"
        elif marks.has_failed:
            text += f" by an error{where}"
        found.append(event("exit", "exit", text, marks.exit_ns, "critical" if marks.has_failed else "info"))
    elif marks.is_alive is False and marks.last_ns is not None:
        text = f"the process is gone and never said that it ends{where}"
        at = max(marks.gone_ns or marks.last_ns, marks.last_ns)
        if marks.was_interrupted:
            found.append(event("exit", "interrupted", text + INTERRUPTED, at, step=marks.open_step))
        else:
            found.append(event("exit", "killed", text + KILLED, at, "critical", marks.open_step))
    elif marks.is_alive and read_ns is not None and marks.last_ns is not None:
        text = f"the process lives{where}"
        found.append(event("change", "alive", text, max(read_ns, marks.last_ns), step=marks.open_step))
    return found


def _where(marks: RankMarks) -> str:
    """In which phase and step it was."""
    phase = f" in {marks.open_phase}" if marks.open_phase is not None else ""
    step = f" of step {marks.open_step}" if marks.open_step is not None else ""
    if not (phase or step):
        last = int(marks.steps.step[-1]) if len(marks.steps) else None
        return f" after step {last}" if last is not None else " before its first step"
    return phase + (step if phase else step.replace(" of ", " in "))
