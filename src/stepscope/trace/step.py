"""Steps as the profiler marked them: `ProfilerStep#N` annotations of one host process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import STEP, NameFacts


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


def find_steps(
    trace: Trace, kinds: I32, facts: NameFacts, tracks: npt.NDArray[np.intp], is_good: npt.NDArray[np.bool_]
) -> Steps:
    """Steps on the given tracks: the track with most of them; of rows with one number, the longest."""
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
    carriers, count = np.unique(spans.track_id[row], return_counts=True)
    thread = int(carriers[int(np.argmax(count))])
    row = row[spans.track_id[row] == thread]
    number = np.array([int(STEP.match(trace.names[n])[1]) for n in spans.name_id[row]], dtype=np.int64)  # type: ignore[index]
    start, end = spans.ts_ns[row], spans.ts_ns[row] + spans.dur_ns[row]
    longest = np.lexsort((start, -(end - start), number))
    _, first = np.unique(number[longest], return_index=True)
    keep = longest[first]
    keep = keep[np.argsort(start[keep], kind="stable")]
    row, number, start, end = row[keep], number[keep], start[keep], end[keep]
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
