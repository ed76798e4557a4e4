"""Steps of one rank as tiles without gaps, and how each is used.

Step n lasts from the end of step n - 1 to its own end: what lies between two marked steps (the loader, a
log, a pause) belongs to the one that follows, whether or not the marks themselves leave gaps. Evaluations and
checkpoints after the last step have none that follows: at the end of a run they belong to the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model import report
from stepscope.model.interval import Intervals, overlap_ns, union
from stepscope.model.mark import PHASES, RankMarks
from stepscope.model.trace import I64

WARM_UP_FACTOR = 1.5
MOST_WARM_UP = 3
LEAST_OTHERS = 5
"""A process's first steps allocate, connect and load what later ones have: up to so many of them are warm-up
where each is so much longer than the median of at least so many others."""
MARKED_SHARE = 0.01
"""A checkpoint, evaluation or compilation must cover at least this share of a step to mark it."""


@dataclass(frozen=True, slots=True)
class Tiles:
    """Whole steps in order: `number` ascends strictly, also where the loop's own numbers begin again;
    `begin_ns` is the mark of the step's own beginning, inside its tile. `is_tiled`: it has none of the loop's
    own, but begins where an optimizer ended."""

    number: I64
    start_ns: I64
    end_ns: I64
    begin_ns: I64
    use: tuple[report.StepUse, ...]
    why: tuple[str | None, ...]
    num_restarted: int
    """How often the loop's own numbers went back."""
    is_tiled: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.number)

    def mask(self, *uses: report.StepUse) -> npt.NDArray[np.bool_]:
        """Steps of these uses."""
        return np.array([use in uses for use in self.use], dtype=bool)

    def at(self, when: I64) -> npt.NDArray[np.intp]:
        """The place of the tile that holds each instant, -1 outside of all."""
        place = np.searchsorted(self.start_ns, when, side="right") - 1
        inside = (
            (place >= 0) & (when < self.end_ns[np.maximum(place, 0)]) if len(self) else place > len(place)
        )
        return np.where(inside, place, -1)


def ascending(number: I64) -> tuple[I64, int]:
    """Step numbers that ascend strictly: where they go back or stay they go on from the last instead; and how
    often that was."""
    back = np.maximum(number[:-1] - number[1:] + 1, 0)
    return number + np.append(np.int64(0), np.cumsum(back))[: len(number)], int((back > 0).sum())


def tiles(marks: RankMarks, left_out: frozenset[int] = frozenset()) -> Tiles:
    """The tiles of one rank; steps numbered in `left_out` are captured on some rank of the job."""
    steps = marks.steps
    number, num_restarted = ascending(steps.step)
    start, end = steps.start_ns.copy(), np.maximum(steps.end_ns, steps.start_ns)
    if len(steps) > 1:
        # Where steps are missing between two, the time between is theirs.
        apart = np.diff(number)
        follows = (apart <= np.median(apart)) & ~_behind_gap(marks, start)[1:]
        start[1:] = np.where(follows, end[:-1], np.maximum(start[1:], end[:-1]))
    end = np.maximum(end, start)
    end[-1:] = np.maximum(end[-1:], _tail_ns(marks, end[-1:]))
    use, why = _uses(marks, number, start, end, left_out)
    tiled = steps.is_tiled if steps.is_tiled is not None else np.zeros(len(steps), dtype=bool)
    return Tiles(number, start, end, steps.start_ns, use, why, num_restarted, tiled)


def _behind_gap(marks: RankMarks, start_ns: I64) -> npt.NDArray[np.bool_]:
    """Steps between whose beginning and that of the one before marks are missing."""
    ends = np.array([end for _, end in marks.gaps_ns], dtype=np.int64)
    passed = np.searchsorted(np.sort(ends), start_ns, side="right")
    return np.diff(passed, prepend=0) > 0


def _tail_ns(marks: RankMarks, end_ns: I64) -> I64:
    """When the last evaluation or checkpoint after the last step ended; `end_ns` where there is none, or the
    run goes on: then the next step has it."""
    if marks.exit_ns is None and marks.is_alive is not False:
        return end_ns
    phases = marks.phases
    is_over = np.isin(phases.phase, [PHASES.index(name) for name in ("checkpoint", "eval")])
    after = phases.end_ns[is_over & (phases.start_ns >= end_ns)] if len(end_ns) else end_ns
    return after.max(keepdims=True) if len(after) else end_ns


def captured(marks: RankMarks) -> frozenset[int]:
    """Numbers of the steps that a capture of ours touched."""
    number, _ = ascending(marks.steps.step)
    return frozenset(number[marks.steps.is_captured | marks.steps.is_stalled].tolist())


def _uses(
    marks: RankMarks, number: I64, start: I64, end: I64, left_out: frozenset[int]
) -> tuple[tuple[report.StepUse, ...], tuple[str | None, ...]]:
    duration = end - start
    steps = marks.steps
    is_captured = (
        steps.is_captured | steps.is_stalled | np.isin(number, np.array(sorted(left_out), dtype=np.int64))
    )
    inside = {name: overlap_ns(start, end, _when(marks, name)) for name in ("checkpoint", "eval", "compile")}
    first = 0 if _has_start(marks) else len(number)
    use: list[report.StepUse] = []
    why: list[str | None] = []
    plain = duration[~is_captured & ~steps.is_shadow]
    median = float(np.median(plain)) if len(plain) else 0.0
    is_long = (duration > WARM_UP_FACTOR * median) & (len(plain) > LEAST_OTHERS)
    # More long steps in a row than a start has are no start.
    num_long = int(np.argmin(np.append(is_long, False)))
    num_warm = num_long if first == 0 and num_long <= MOST_WARM_UP else 0
    for n, took in enumerate(duration.tolist()):
        phase = next((name for name, ns in inside.items() if ns[n] >= MARKED_SHARE * took > 0), None)
        if is_captured[n]:
            use.append("captured")
            why.append("a capture of stepscope ran in it or held it up")
        elif steps.is_shadow[n]:
            use.append("partial")
            why.append("its phases were not marked, to measure what marks cost")
        elif n < num_warm:
            use.append("warm_up")
            why.append(f"among the first steps of the process, and {took / median:.1f} times the median step")
        elif phase == "compile" and is_long[n]:
            use.append("warm_up")
            why.append(f"compilation, and {took / median:.1f} times the median step")
        else:
            use.append("counted" if phase is None else "marked")
            why.append(phase)
    return tuple(use), tuple(why)


def _when(marks: RankMarks, name: str) -> Intervals:
    mine = marks.phases.phase == PHASES.index(name)
    return union(marks.phases.start_ns[mine], marks.phases.end_ns[mine])


def _has_start(marks: RankMarks) -> bool:
    """Whether the first step here is the process's first."""
    return marks.start_ns is not None and (
        not len(marks.steps) or not marks.num_lost + marks.num_damaged + marks.num_missing
    )
