"""Steps that a capture in attach mode found by the end of an optimizer's step: what the host does from there
to the model is the end of the loop's body or the beginning of the next, and only a loader's call between them
tells which. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from stepscope.analyse.idle import PYTHON, IdlePieces
from stepscope.analyse.stretch import LONG_NS, stretches
from stepscope.model.interval import Intervals, overlap_ns
from stepscope.model.trace import I64
from stepscope.trace.host_cause import RANK
from stepscope.trace.step import Steps
from stepscope.trace.thread import Threads

BEGIN_NS = 100_000
"""The optimizer's own wrappers end so long after the step that they end."""


def is_tiled(metadata: Mapping[str, Any]) -> bool:
    """Whether the trace says that its steps begin where an optimizer's step ended."""
    told = metadata.get("stepscope")
    return isinstance(told, dict) and told.get("tiled") is True


def bodies(steps: Steps, threads: Threads) -> Steps:
    """The steps from the end of their first wait for a loader on; empty where there is none in it. Host work
    in front of the model is preparation of its batch from there alone."""
    waits = _waits(threads)
    at = np.searchsorted(waits.start, steps.start_ns)
    end = np.append(waits.end, np.iinfo(np.int64).max)[at]
    return replace(steps, start_ns=np.minimum(end, steps.end_ns))


def between_steps_ns(idle: IdlePieces, inside: Intervals, steps: Steps, threads: Threads) -> I64:
    """[start, end) rows of the long stretches of Python that begin with a step in which no loader is called:
    after the last step or before this one."""
    start, end, _ = stretches(idle, inside, (PYTHON,))
    waits = _waits(threads)
    at = np.searchsorted(waits.start, steps.start_ns)
    is_fetched = np.append(waits.start, np.iinfo(np.int64).max)[at] < steps.end_ns
    begin = steps.start_ns[~is_fetched]
    which = np.searchsorted(begin, end) - 1  # the last step that had begun when the stretch ended
    is_first = (which >= 0) & (end - start >= LONG_NS)
    is_first &= start <= begin[np.maximum(which, 0)] + BEGIN_NS if len(begin) else False
    return np.column_stack((start[is_first], end[is_first]))


def numbers(
    idle: IdlePieces, inside: Intervals, steps: Steps, threads: Threads, metadata: Mapping[str, Any]
) -> dict[str, float]:
    """`between_steps_ns`, of a trace whose steps are tiled."""
    if not is_tiled(metadata):
        return {}
    found = between_steps_ns(idle, inside, steps, threads)
    return {"between_steps_ns": float(overlap_ns(found[:, 0], found[:, 1], inside).sum())}


def _waits(threads: Threads) -> Intervals:
    """When the thread that runs the loop waits for a loader."""
    if threads.main is None or threads.main not in threads.rows:
        return Intervals(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
    return threads.rows[threads.main].of_cause(RANK["input"])
