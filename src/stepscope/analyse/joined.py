"""Ranks on one axis: which calls belong together, when they began there, and how long each rank waited.

For kinds that no rank leaves before the last has come, and for a send with its receive:
    wait = own start to the latest start of the instance, at most the call's own duration
    transfer = the rest: wait + transfer = duration
A broadcast or a reduction to one rank waits for one rank only, which its record does not name: it has
neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.align.clock import ENDS_AGREE_NS, SAME_HOST_NS, RankClocks, fit
from stepscope.align.match import UNMATCHED, Matching, match
from stepscope.align.token import POINT_TO_POINT, SYNCHRONISING, Calls, calls_of
from stepscope.model.interval import Intervals, intersect, subtract, union
from stepscope.model.peer import PeerTable
from stepscope.model.trace import I64

LEAST_CLOCK_NS = 10_000
"""Nobody is late by less: the ends of one collective, which the clocks are fitted to, lie up to 7
microseconds apart in a set of 8 ranks over NVLink."""
HOST_ENDS_NS = 2_000_000
"""Host processes wake up so late after a collective that is over."""
CLOCK_ERRORS = 3.0


@dataclass(frozen=True, slots=True)
class Joined:
    """All communication of a job on one axis. Columns over calls as in `Calls`.

    `start_ns`, `end_ns` are corrected; `wait_ns` is -1 where nothing tells how long the rank waited.
    `lateness_ns` is the call's start against the lower-median start of its instance, without what its rank
    inherited (see `analyse.lateness`); 0 for unmatched calls.
    """

    tables: tuple[PeerTable, ...]
    calls: Calls
    matching: Matching
    clocks: RankClocks
    start_ns: I64
    end_ns: I64
    wait_ns: I64
    by_instance: npt.NDArray[np.intp]
    """Matched calls that wait for each other, by instance."""
    heads: npt.NDArray[np.intp]
    """Where each instance begins in `by_instance`."""
    is_whole: npt.NDArray[np.bool_]
    """Over calls: every rank of its group is in its instance. One that is not may be the late one, and what
    looks like transfer may be waiting for it."""

    @property
    def sizes(self) -> npt.NDArray[np.intp]:
        """How many ranks each instance of `heads` has."""
        return np.diff(np.append(self.heads, len(self.by_instance)))

    def spread(self, per_instance: npt.NDArray[np.int64]) -> I64:
        """A number of each instance for each of its calls, as `by_instance`."""
        return np.repeat(per_instance, self.sizes)

    def lower_median(self, value: I64) -> I64:
        """Of a column over `by_instance`, the lower median of each instance."""
        if not len(self.heads):
            return np.empty(0, dtype=np.int64)
        order = np.lexsort((value, self.spread(np.arange(len(self.heads)))))
        middle: I64 = value[order][self.heads + (self.sizes - 1) // 2]
        return middle

    @property
    def clock_noise_ns(self) -> int:
        """No start of one rank is known against another's better than this."""
        error = self.clocks.error_ns[np.isfinite(self.clocks.error_ns)]
        # Processes that read one clock exactly still begin by their scheduler's leave.
        is_host = any(table.device is None for table in self.tables)
        return max(
            SAME_HOST_NS if is_host else LEAST_CLOCK_NS, round(CLOCK_ERRORS * float(error.max(initial=0.0)))
        )


def join(tables: Sequence[PeerTable]) -> Joined:
    """Match and align these ranks, each once. Pure: the tables are not changed."""
    calls = calls_of(tables)
    matching = match(calls)
    on_host = any(table.device is None for table in tables)
    hosts = [table.host for table in tables]
    shared = [table.clock for table in tables]
    clocks = fit(calls, matching, hosts, HOST_ENDS_NS if on_host else ENDS_AGREE_NS, shared)
    start, end = clocks.corrected(calls.rank, calls.start_ns), clocks.corrected(calls.rank, calls.end_ns)
    waits = calls.is_of(*SYNCHRONISING, *POINT_TO_POINT) & (matching.instance != UNMATCHED)
    # Ranks of one instance have one axis, or nothing can be said of it.
    has_axis = clocks.component[calls.rank] >= 0 if len(calls) else waits
    at = np.flatnonzero(waits & has_axis)
    at = at[np.argsort(matching.instance[at], kind="stable")]
    instance = matching.instance[at]
    heads = np.flatnonzero(np.append(True, instance[1:] != instance[:-1])) if len(at) else at
    sizes = np.diff(np.append(heads, len(at)))
    component = clocks.component[calls.rank[at]] if len(at) else at
    if len(at):
        is_one = np.minimum.reduceat(component, heads) == np.maximum.reduceat(component, heads)
        keep = np.repeat(is_one & (sizes > 1), sizes)
        at, instance = at[keep], instance[keep]
        heads = np.flatnonzero(np.append(True, instance[1:] != instance[:-1])) if len(at) else at[:0]
        sizes = np.diff(np.append(heads, len(at)))
    wait = np.full(len(calls), -1, dtype=np.int64)
    if len(at):
        latest = np.repeat(np.maximum.reduceat(start[at], heads), sizes)
        wait[at] = np.clip(latest - start[at], 0, np.maximum(end[at] - start[at], 0))
    is_whole = np.zeros(len(calls), dtype=bool)
    if len(at):
        expected = group_sizes(tables, calls)[calls.group[at]]
        is_pair = calls.is_of(*POINT_TO_POINT)[at]
        is_whole[at] = is_pair | (np.repeat(sizes, sizes) >= expected)
    return Joined(tuple(tables), calls, matching, clocks, start, end, wait, at, heads, is_whole)


def group_sizes(tables: Sequence[PeerTable], calls: Calls) -> I64:
    """Ranks of each group: as recorded, else the world of an unnamed group, else those seen in it."""
    num = int(calls.group.max(initial=-1)) + 1
    found = np.zeros(num, dtype=np.int64)
    world = max((table.world_size or 0 for table in tables), default=0)
    stated = (
        np.concatenate([table.collectives.group_size for table in tables])
        if tables
        else np.empty(0, dtype=np.int64)
    )
    # No group has more ranks than the job: a larger number is a wrong one.
    is_sound = (stated > 1) & ((stated <= world) | (world == 0))
    np.maximum.at(found, calls.group[is_sound], stated[is_sound])
    for group in np.flatnonzero(found == 0).tolist():
        seen = len(np.unique(calls.rank[calls.group == group]))
        found[group] = world if calls.group_names[group] is None and world else seen
    return found


@dataclass(frozen=True, slots=True)
class Split:
    """One rank's communication inside its windows, in nanoseconds: `wait` + `transfer` is all of it."""

    wait_ns: int
    transfer_ns: int
    wait_exposed_ns: int
    is_complete: bool
    """Nearly all of it was matched: without that nothing is known of the sum."""


COMPLETE_SHARE = 0.95
"""So much of a rank's communication must be matched for its parts to be given."""


def split(joined: Joined, place: int) -> Split | None:
    """How one rank's communication divides into waiting and transfer over the windows of its accounting.

    `None` where it has no communication there. Where calls run beside each other, time in which any of them
    transfers is transfer.
    """
    table, calls = joined.tables[place], joined.calls
    mine = calls.of_rank(place)
    start, end = calls.start_ns[mine], calls.end_ns[mine]
    if len(table.steps):
        inside = union(table.steps.window_start_ns, table.steps.window_end_ns)
    else:
        inside = union(start, end)
    wait = joined.wait_ns[mine]
    is_known = (wait >= 0) & joined.is_whole[mine]
    waiting = union(start[is_known], start[is_known] + wait[is_known])
    moving = union(start[is_known] + wait[is_known], end[is_known])
    whole = intersect(union(start, end), inside)
    if not len(whole):
        return None
    known = intersect(union(start[is_known], end[is_known]), inside)
    waited = intersect(subtract(waiting, moving), inside)
    return Split(
        wait_ns=waited.total_ns,
        transfer_ns=whole.total_ns - waited.total_ns,
        wait_exposed_ns=subtract(waited, table.hidden).total_ns,
        is_complete=known.total_ns >= COMPLETE_SHARE * whole.total_ns,
    )


def exposed_waits(joined: Joined, place: int) -> I64:
    """For each call of a rank, the part of its waiting that no computation hides; 0 where unknown."""
    calls, hidden = joined.calls, joined.tables[place].hidden
    mine = calls.of_rank(place)
    wait = np.maximum(joined.wait_ns[mine], 0)
    start = calls.start_ns[mine]
    if not len(hidden):
        return wait
    # Waits of different streams may overlap: each is measured on its own.
    from stepscope.model.interval import overlap_ns

    found: I64 = wait - overlap_ns(start, start + wait, Intervals(hidden.start, hidden.end))
    return found


def duration_split(durations_ns: npt.NDArray[np.int64]) -> tuple[I64, I64]:
    """Without any clock: (transfer lower bound of each collective, wait of each rank and collective).

    `durations_ns` (ranks, collectives): all leave together, so the shortest is the one that came last, and
    what others took beyond it they waited.
    """
    transfer: I64 = durations_ns.min(axis=0)
    return transfer, durations_ns - transfer
