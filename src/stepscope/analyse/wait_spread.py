"""How unevenly ranks come to their collectives: from the first one's coming to the last one's."""

from __future__ import annotations

import numpy as np

from stepscope.align.token import SYNCHRONISING
from stepscope.analyse.joined import Joined
from stepscope.model.interval import intersect, union


def wait_spread_ns(joined: Joined, place: int) -> int | None:
    """Time within a rank's windows in which some rank waited in a synchronising collective of its and
    another had not come yet: overlaps of several collectives count once.

    Hidden or not: it says how uneven the waits are, not what they cost. `None` without such a collective
    of which every rank is known, and without steps.
    """
    table, calls, at = joined.tables[place], joined.calls, joined.by_instance
    if not len(joined.heads) or not len(table.steps):
        return None
    is_told = calls.is_of(*SYNCHRONISING)[at] & joined.is_whole[at] & (joined.wait_ns[at] >= 0)
    is_whole = joined.spread(np.logical_and.reduceat(is_told, joined.heads).astype(np.int64)) > 0
    # A wait is at most the call's own duration: a call that ended before the last came was no wait for it.
    longest = joined.spread(np.maximum.reduceat(joined.wait_ns[at], joined.heads))
    ours = (calls.rank[at] == place) & is_whole
    if not ours.any():
        return None
    # On this rank's own clock, like its windows.
    latest = calls.start_ns[at[ours]] + joined.wait_ns[at[ours]]
    inside = union(table.steps.window_start_ns, table.steps.window_end_ns)
    return intersect(union(latest - longest[ours], latest), inside).total_ns
