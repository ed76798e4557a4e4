"""The host threads of one process: their rows, which of them drive the step, and their timeline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.interval import Intervals, join, union
from stepscope.model.trace import I32, Trace
from stepscope.trace.category import Kind
from stepscope.trace.host_cause import RANK, NameFacts
from stepscope.trace.nesting import HostRows, HostTimeline, rows_of_track
from stepscope.trace.step import Steps

AUTOGRAD_LAUNCH_SHARE = 0.10
"""A thread with this share of the process's launches drives the step, whatever its rows are called."""


@dataclass(frozen=True, slots=True)
class Threads:
    """Host rows by track; `main` and `autograd` (most launches first) are the threads that drive the step.

    `timeline` is `None` where no host rows were recorded.
    """

    rows: dict[int, HostRows]
    main: int | None
    autograd: tuple[int, ...]
    timeline: HostTimeline | None

    @property
    def driving(self) -> list[int]:
        """Main and autograd threads."""
        return [t for t in (self.main, *self.autograd) if t is not None and t in self.rows]

    def driving_time(self, cause: str) -> Intervals:
        """When a row of this cause was open on a driving thread."""
        return join(*(self.rows[t].of_cause(RANK[cause]) for t in self.driving))


def find_threads(
    trace: Trace,
    kinds: I32,
    facts: NameFacts,
    tracks: Iterable[int],
    steps: Steps,
    is_launch_call: npt.NDArray[np.bool_],
    is_copy_wait: npt.NDArray[np.bool_],
    is_good: npt.NDArray[np.bool_],
    device_span: tuple[int, int] | None,
) -> Threads:
    """The threads among `tracks`. The timeline spans all their rows and the device's work."""
    rows: dict[int, HostRows] = {}
    for track in tracks:
        found = rows_of_track(trace, track, kinds, facts, is_copy_wait, is_good)
        # A track of nothing but the profiler's own rows is no thread.
        if (found.kind != Kind.OVERHEAD).any():
            rows[track] = found
    main = _main(trace, rows, steps)
    autograd = _autograd(trace, rows, main, is_launch_call)
    if not rows:
        return Threads(rows, main, autograd, None)
    low = min(int(r.start_ns.min()) for r in rows.values())
    high = max(int(r.end_ns.max()) for r in rows.values())
    if device_span is not None:
        low, high = min(low, device_span[0]), max(high, device_span[1])
    everywhere = _everywhere(trace, kinds, facts)
    return Threads(rows, main, autograd, HostTimeline(rows, main, autograd, everywhere, low, high))


def _main(trace: Trace, rows: dict[int, HostRows], steps: Steps) -> int | None:
    """The thread of the steps, else the one whose tid is its pid (Linux), else the one that starts first."""
    if steps.thread is not None:
        return steps.thread
    if not rows:
        return None
    same = [t for t in rows if trace.tracks[t].tid == trace.tracks[t].pid]
    return same[0] if same else min(rows, key=lambda t: int(rows[t].start_ns[0]))


def _autograd(
    trace: Trace, rows: dict[int, HostRows], main: int | None, is_launch_call: npt.NDArray[np.bool_]
) -> tuple[int, ...]:
    """Other threads that run the autograd engine or launch much: real traces issue 39–68 % of launches
    there."""
    launches = {t: int(is_launch_call[r.row].sum()) for t, r in rows.items()}
    total = sum(launches.values())
    is_engine = np.array([n.startswith("autograd::engine") for n in trace.names] or [False])
    found = [
        t
        for t, r in rows.items()
        if t != main
        and (
            (total and launches[t] >= AUTOGRAD_LAUNCH_SHARE * total)
            or bool(is_engine[trace.spans.name_id[r.row]].any())
        )
    ]
    return tuple(sorted(found, key=lambda t: (-launches[t], t)))


def _everywhere(trace: Trace, kinds: I32, facts: NameFacts) -> dict[int, Intervals]:
    """The profiler's own rows on tracks of no process, by cause: they count as open on every thread."""
    spans = trace.spans
    nobody = np.array([isinstance(t.pid, int) and t.pid < 0 for t in trace.tracks] or [False])
    row = np.flatnonzero((kinds == Kind.OVERHEAD) & nobody[spans.track_id])
    cause = facts.cause[Kind.OVERHEAD, spans.name_id[row]]
    start, end = spans.ts_ns[row], spans.ts_ns[row] + spans.dur_ns[row]
    return {c: union(start[cause == c], end[cause == c]) for c in np.unique(cause).tolist()}
