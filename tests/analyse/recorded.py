"""Training loops recorded with PyTorch (the tables in `autograd/`) as traces of a device.

Every recorded op that calls no other launches one kernel of 1 µs. What its phase must be, notes in the
recording say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from stepscope.analyse.phase import Phase
from tests.analyse.build import Build

FOLDER = Path(__file__).parent / "autograd"
MAIN, OTHER = 1, 2
TRUTH = {
    "FWD": Phase.FORWARD,
    "BWD": Phase.BACKWARD,
    "OPT": Phase.OPTIMIZER,
    "EVAL": Phase.OTHER,
    "CLIP": Phase.OTHER,
}
NOTES = {*TRUTH, "AGAIN"}


@dataclass(frozen=True)
class Row:
    """One recorded row; times in nanoseconds. `truth` is what the notes around it say."""

    cat: str
    name: str
    start: int
    end: int
    sequence: int | None
    forward_thread: int | None
    truth: Phase = Phase.OTHER
    is_leaf: bool = False
    thread: int = MAIN


@cache
def recorded(name: str) -> tuple[Row, ...]:
    rows = []
    for line in (FOLDER / f"{name}.tsv").read_text().splitlines():
        cat, text, start, dur, sequence, thread = line.split("\t")
        numbers = [int(cell) if cell else None for cell in (sequence, thread)]
        rows.append(Row(cat, text, int(start), int(start) + int(dur), *numbers))
    result, open_ = [], []
    for at, row in enumerate(rows):
        open_ = [each for each in open_ if each.end > row.start]
        following = rows[at + 1] if at + 1 < len(rows) else None
        is_leaf = row.name.startswith("aten::") and (following is None or following.start >= row.end)
        result.append(replace(row, truth=_truth([each.name for each in open_]), is_leaf=is_leaf))
        open_.append(row)
    return tuple(result)


def _truth(notes: Sequence[str]) -> Phase:
    parts = [TRUTH[note] for note in notes if note in TRUTH]
    if any(note.startswith("Optimizer.zero_grad") for note in notes):
        return Phase.OTHER
    if parts[-1:] == [Phase.BACKWARD] and "AGAIN" in notes[notes.index("BWD") :]:
        return Phase.RECOMPUTE
    return parts[-1] if parts else Phase.OTHER


def on_two_threads(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The backward pass on a thread of its own, as on a device. What it records there is numbered from the
    smallest number of the main thread, because every thread counts for itself."""
    inside: list[Row] = []
    moved, low = [], min(row.sequence for row in rows if row.sequence is not None)
    for row in rows:
        inside = [each for each in inside if each.end > row.start]
        is_backward = any(each.name == "BWD" for each in inside)
        inside.append(row)
        moved.append(replace(row, thread=OTHER) if is_backward and row.name not in NOTES else row)
    made_there = sorted(
        {r.sequence for r in moved if r.thread == OTHER and r.sequence is not None and not r.forward_thread}
    )
    number = {old: low + place for place, old in enumerate(made_there)}
    return tuple(
        replace(row, sequence=number[row.sequence], forward_thread=OTHER if row.forward_thread else None)
        if row.thread == OTHER and row.sequence in number
        else row
        for row in moved
    )


def built(rows: Sequence[Row], **properties: object) -> Build:
    """The trace, with kernels on one stream."""
    build = Build(pid=MAIN, **properties)
    free = 0.0
    for row in rows:
        start, end = row.start / 1000, row.end / 1000
        args: dict[str, object] = {} if row.sequence is None else {"Sequence number": row.sequence}
        args |= {} if row.sequence is None else {"Fwd thread id": row.forward_thread or 0}
        build.row(row.cat, row.name, start, end, MAIN, row.thread, **args)
        if row.is_leaf:
            at = max(free, start + 1)
            build.kernel("work", at, at + 1, launched=(start, start), tid=row.thread)
            free = at + 1
    return build
