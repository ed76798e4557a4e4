"""A trace told apart: what each span is, what launched what, and whose process it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.model.trace import I32, Trace
from stepscope.trace import health
from stepscope.trace.category import HOST_KINDS, Kind, is_of, span_kinds
from stepscope.trace.health import Issue
from stepscope.trace.host_cause import NameFacts, name_facts
from stepscope.trace.link import Activities, link

EVERYBODY, NOBODY = -1, -2
"""In place of a process: all of them together, and none."""


@dataclass(frozen=True, slots=True)
class Linked:
    """A trace told apart: what each span is, which can be believed, and what launched what.

    `kinds`, `is_good` and `is_far` are per span (`OTHER` where not good), `process_of_track` per track.
    `is_far` is of the time alone: of every kind, and whatever the duration.
    """

    kinds: I32
    is_good: npt.NDArray[np.bool_]
    is_far: npt.NDArray[np.bool_]
    facts: NameFacts
    process_of_track: I32
    is_launch_call: npt.NDArray[np.bool_]
    activities: Activities
    issues: tuple[Issue, ...]


def link_trace(trace: Trace) -> Linked:
    """Judge the times of a trace and link its device work. Pure: the trace is not changed."""
    kinds = span_kinds(trace)
    is_far = health.far_rows(trace, kinds)
    is_good, bad = health.good_rows(trace, kinds, is_far)
    kinds = np.where(is_good, kinds, Kind.OTHER).astype(np.int32)
    facts = name_facts(trace, kinds)
    process_of_track = _processes(trace, kinds)
    is_launch_call = (kinds == Kind.CALL) & facts.is_launch_call[kinds, trace.spans.name_id]
    activities = link(trace, kinds, process_of_track, is_launch_call)
    # A call that launched recorded work is a launch whatever its name.
    is_launch_call[activities.launch_row[activities.launch_row >= 0]] = True
    return Linked(kinds, is_good, is_far, facts, process_of_track, is_launch_call, activities, tuple(bad))


def _processes(trace: Trace, kinds: I32) -> I32:
    """Each track's position among the host processes in order of appearance (-1: no host rows)."""
    is_host = np.zeros(max(len(trace.tracks), 1), dtype=bool)
    is_host[trace.spans.track_id[is_of(kinds, *HOST_KINDS)]] = True
    found: dict[int | str, int] = {}
    position = np.full(max(len(trace.tracks), 1), -1, dtype=np.int32)
    for i in np.flatnonzero(is_host).tolist():
        position[i] = found.setdefault(trace.tracks[i].pid, len(found))
    return position


def split(activities: Activities) -> list[tuple[int, npt.NDArray[np.bool_]]]:
    """Activities by launching process; work without launch goes where its device's other work does.

    One process (or none that launched): everything belongs together, helper threads with other pids included.
    """
    launching = np.unique(activities.process[activities.process >= 0])
    if len(launching) <= 1:
        return [(EVERYBODY, np.ones(len(activities), dtype=bool))]
    process = activities.process.copy()
    for device in np.unique(activities.device).tolist():
        mine = activities.device == device
        known = process[mine & (process >= 0)]
        if len(known):
            process[mine & (process < 0)] = np.bincount(known).argmax()
    groups = [(int(p), process == p) for p in launching.tolist()]
    if (process < 0).any():
        # A device that no process launched on is nobody's, but it worked all the same.
        groups.append((NOBODY, process < 0))
    return groups
