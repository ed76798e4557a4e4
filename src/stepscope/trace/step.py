"""Steps as the profiler marked them: `ProfilerStep#N` annotations of one host process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import STEP, NameFacts

OVERHANG_NS = 1_000
"""Annotations may end this much after the next one began (pytorch#174555)."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps in order of start; `end_ns` ends the host tile, `own_end_ns` the annotation itself.

    A tile reaches to the next step's start where that step's number follows; otherwise (last step, or
    steps that were not recorded in between) it ends with its annotation. `thread` is the track that
    carries them, `None` without steps.
    """

    number: I64
    start_ns: I64
    end_ns: I64
    own_end_ns: I64
    follows: npt.NDArray[np.bool_]
    row: I32
    thread: int | None

    def __len__(self) -> int:
        return len(self.number)


def _number(name: str) -> int:
    """The step's number; what does not fit 64 bits is no number and counts as the largest."""
    match = STEP.match(name)
    digits = match[1] if match else "0"
    return int(digits) if len(digits) < 19 else int(np.iinfo(np.int64).max)


def _carrier(tracks: I32, launching: set[int]) -> int:
    """Of several tracks with steps one that launches work, then the one with most steps."""
    found, count = np.unique(tracks, return_counts=True)
    best = max(range(len(found)), key=lambda i: (int(found[i]) in launching, int(count[i]), -i))
    return int(found[best])


def find_steps(
    trace: Trace,
    kinds: I32,
    facts: NameFacts,
    tracks: npt.NDArray[np.intp],
    is_good: npt.NDArray[np.bool_],
    launching: set[int],
) -> Steps:
    """Steps on the given tracks, of one thread: one of the `launching` ones where any of them has steps."""
    spans = trace.spans
    mask = (
        (kinds == Kind.ANNOTATION)
        & facts.is_step[kinds, spans.name_id]
        & is_good
        & np.isin(spans.track_id, tracks)
    )
    row = np.flatnonzero(mask)
    empty = np.empty(0, dtype=np.int64)
    if len(row) == 0:
        return Steps(empty, empty, empty, empty, np.empty(0, dtype=bool), np.empty(0, dtype=np.int32), None)
    thread = _carrier(spans.track_id[row], launching)
    row = row[spans.track_id[row] == thread]
    start, end = spans.ts_ns[row], spans.ts_ns[row] + spans.dur_ns[row]
    order = np.lexsort((-end, start))
    row, start, end = row[order], start[order], end[order]
    number = np.array([_number(trace.names[n]) for n in spans.name_id[row]], dtype=np.int64)
    # A step inside another one is a mark within it. One that ends with the other (to the microsecond) only
    # begins before its predecessor's end: rounding of the profiler.
    outer = np.maximum.accumulate(np.where(end == np.maximum.accumulate(end), np.arange(len(end)), 0))
    inside = np.append(False, end[1:] < end[outer[:-1]] - OVERHANG_NS)
    row, start, end, number = row[~inside], start[~inside], end[~inside], number[~inside]
    # The same step written twice (as an op and as an annotation, or copied) is one step.
    again = np.append(False, (number[1:] == number[:-1]) & (start[1:] < end[:-1]))
    row, start, end, number = row[~again], start[~again], end[~again], number[~again]
    follows = np.zeros(len(row), dtype=bool)
    follows[1:] = number[1:] == number[:-1] + 1
    tile_end = end.copy()
    tile_end[:-1] = np.where(follows[1:], start[1:], np.minimum(end[:-1], start[1:]))
    return Steps(number, start, tile_end, end, follows, row.astype(np.int32), thread)


def owner_of(steps: Steps, launch_ns: I64, has_launch: npt.NDArray[np.bool_]) -> I64:
    """Position of the step in whose tile each launch starts; -1 without launch or outside every tile."""
    if len(steps) == 0:
        return np.full(len(launch_ns), -1, dtype=np.int64)
    at = np.searchsorted(steps.start_ns, launch_ns, side="right") - 1
    inside = has_launch & (at >= 0) & (launch_ns < steps.end_ns[np.maximum(at, 0)])
    return np.where(inside, at, -1)
