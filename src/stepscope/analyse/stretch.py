"""Long stretches of host work on an idle device: Python that does something, pauses that nothing names."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.analyse.idle import LAUNCH, PYTHON, IdlePieces
from stepscope.analyse.use import UsedSteps
from stepscope.analyse.variation import period_steps
from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.trace import I64
from stepscope.trace.category import Kind
from stepscope.trace.thread import Threads

LONG_NS = 1_000_000
"""Python takes some 10 microseconds between two eager ops; a hundred times that is no issuing of ops."""
PAUSE_NS = 50_000_000
"""Full collections of long-lived heaps take 0.1 to 1.5 s in reported cases; half of the least is a pause."""
LEAST_STEPS = 10
LEAST_PAUSES = 3
MOST_STEPS = 1 / 3
"""A pause in more than this share of the steps is what the steps do, and no accident of some of them."""


def stretches(idle: IdlePieces, inside: Intervals, causes: tuple[int, ...]) -> tuple[I64, I64, I64]:
    """Start, end and thread of idle time of these causes without a break, inside the windows, by start.

    `idle` is sorted. Pieces that touch, on one thread and in one gap, are one stretch.
    """
    mine = idle.take(np.isin(idle.cause, causes))
    _, at, _ = mine.within(inside.start, inside.end)
    mine = mine.take(np.unique(at))
    if not len(mine):
        empty = np.empty(0, dtype=np.int64)
        return empty, empty, empty
    goes_on = (
        (mine.start[1:] == mine.end[:-1])
        & (mine.thread[1:] == mine.thread[:-1])
        & (mine.gap[1:] == mine.gap[:-1])
    )
    head = np.flatnonzero(np.append(True, ~goes_on))
    last = np.append(head[1:], len(mine)) - 1
    return mine.start[head], mine.end[last], mine.thread[head].astype(np.int64)


def python_stall_ns(idle: IdlePieces, inside: Intervals, threads: Threads) -> int:
    """Idle time in stretches of Python without ops that are long beyond the issuing of ops, inside.

    The thread of the backward pass runs no Python of the loop: holes between its ops count only where
    functions were recorded on it.
    """
    start, end, thread = stretches(idle, inside, (PYTHON,))
    silent = [t for t in threads.autograd if not (threads.rows[t].kind == Kind.PYTHON).any()]
    is_long = (end - start >= LONG_NS) & ~np.isin(thread, silent)
    return int(overlap_ns(start[is_long], end[is_long], inside).sum())


def pauses(
    idle: IdlePieces, inside: Intervals, threads: Threads, used: UsedSteps, prepared_ns: I64
) -> dict[str, float]:
    """`long_pause_ns`: idle time in long stretches of ops, launches and Python. `irregular_pause_ns`: of it
    what lies on the thread that runs the steps, inside some steps.

    The second is what garbage collection looks like that was not recorded: in the forward pass (after the
    step's first launch), never on the thread of the backward pass, in some steps only and at no period. 0
    where there is none of it, absent where that cannot be told: few steps, no second thread that launches,
    or recorded Python functions, which would name it.
    """
    start, end, thread = stretches(idle, inside, (LAUNCH, PYTHON))
    is_pause = end - start >= PAUSE_NS
    start, end, thread = start[is_pause], end[is_pause], thread[is_pause]
    numbers = {"long_pause_ns": float(overlap_ns(start, end, inside).sum())}
    rows = [threads.rows[track] for track in threads.driving]
    is_named = any((each.kind == Kind.PYTHON).any() for each in rows)
    if used.in_scope.sum() < LEAST_STEPS or not threads.autograd or is_named or threads.main is None:
        return numbers
    step = _step_at(used, start)
    if (thread != threads.main).any() or (step < 0).any():
        return numbers | {"irregular_pause_ns": 0.0}
    is_forward = start > prepared_ns[step]
    in_steps = np.unique(step[is_forward])
    is_some = LEAST_PAUSES <= len(in_steps) <= MOST_STEPS * int(used.in_scope.sum())
    if not is_some or period_steps(used.steps.number[in_steps]) is not None:
        return numbers | {"irregular_pause_ns": 0.0}
    return numbers | {"irregular_pause_ns": float((end - start)[is_forward].sum())}


def _step_at(used: UsedSteps, at_ns: I64) -> npt.NDArray[np.intp]:
    """Position of the step in whose host tile each instant lies, -1 where in none."""
    steps = used.steps
    at = np.searchsorted(steps.start_ns, at_ns, side="right") - 1
    inside = (at >= 0) & (at_ns < steps.end_ns[np.maximum(at, 0)])
    return np.where(inside, at, -1)
