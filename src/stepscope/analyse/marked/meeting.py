"""Where ranks meet: phases that none of them leaves before the last has come, matched by step and order.

Ranks of one boot of one host share a monotonic clock, so their times need no fit. Clocks of other hosts are
laid over each other by the ends of the meetings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from stepscope.analyse.marked.tile import Tiles
from stepscope.model.interval import Intervals, union
from stepscope.model.mark import PHASES, RankMarks
from stepscope.model.trace import I64

ENDS_NS = 2_000_000
"""Processes wake up so late after a collective that is over."""
MOST_BROKEN = 0.1
"""Where more of the meetings of one phase than this are left before the last rank came, they are none."""
ORDERS = 256
"""Meetings of one phase and step that are told apart."""


@dataclass(frozen=True, slots=True)
class Meetings:
    """Of each rank, by start: `key` is equal on all ranks that meet, `step` the step's number, `wait_ns`
    until the last rank came. What a rank met alone is left out. `why_not` where no rank waits for another
    in them."""

    rows: tuple[Met, ...]
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class Met:
    """Meetings of one rank: columns of equal length."""

    key: I64
    step: I64
    start_ns: I64
    end_ns: I64
    wait_ns: I64

    def __len__(self) -> int:
        return len(self.key)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Met:
        """The chosen ones."""
        return Met(
            self.key[chosen],
            self.step[chosen],
            self.start_ns[chosen],
            self.end_ns[chosen],
            self.wait_ns[chosen],
        )

    @property
    def waits(self) -> Intervals:
        """When it waited for others."""
        return union(self.start_ns, self.start_ns + self.wait_ns)


def on_one_clock(ranks: Sequence[RankMarks]) -> list[RankMarks]:
    """The marks with one offset from monotonic to wall time for all rings of one boot: that of the first."""
    first: dict[str, int] = {}
    result = []
    for each in ranks:
        boot = each.identity.boot_id
        if boot is None or each.offset_ns is None:
            result.append(each)
            continue
        result.append(_moved(each, first.setdefault(boot, each.offset_ns) - each.offset_ns))
    return result


def _moved(marks: RankMarks, by_ns: int) -> RankMarks:
    """The marks with every time later by so much."""
    if not by_ns:
        return marks

    def moved(when: int | None) -> int | None:
        return None if when is None else when + by_ns

    steps, phases = marks.steps, marks.phases
    return replace(
        marks,
        steps=replace(steps, start_ns=steps.start_ns + by_ns, end_ns=steps.end_ns + by_ns),
        phases=replace(phases, start_ns=phases.start_ns + by_ns, end_ns=phases.end_ns + by_ns),
        values={name: replace(each, at_ns=each.at_ns + by_ns) for name, each in marks.values.items()},
        captures=tuple(
            replace(each, start_ns=each.start_ns + by_ns, end_ns=moved(each.end_ns))
            for each in marks.captures
        ),
        start_ns=moved(marks.start_ns),
        last_ns=moved(marks.last_ns),
        exit_ns=moved(marks.exit_ns),
        open_since_ns=moved(marks.open_since_ns),
        offset_ns=moved(marks.offset_ns),
        gaps_ns=tuple((start + by_ns, end + by_ns) for start, end in marks.gaps_ns),
    )


def clock_of(marks: RankMarks) -> str | None:
    """Name of the clock that the times of `on_one_clock` are of; `None` where they are of the wall clock."""
    return marks.identity.boot_id if marks.offset_ns is not None else None


def host_of(marks: RankMarks) -> str | None:
    """What tells whether two ranks read one clock."""
    return marks.identity.boot_id or marks.identity.host


def meetings(ranks: Sequence[RankMarks], tiles: Sequence[Tiles]) -> Meetings:
    """The meetings of these ranks, in their order. Times stay on each rank's own clock."""
    tokens: dict[str, int] = {}
    rows = [_of_rank(marks, own, tokens) for marks, own in zip(ranks, tiles, strict=True)]
    if sum(len(each) > 0 for each in rows) < 2:
        return Meetings(tuple(rows))
    offset = _offsets(ranks, rows)
    rank = np.repeat(np.arange(len(rows)), [len(each) for each in rows])
    key = np.concatenate([each.key for each in rows])
    start = np.concatenate([each.start_ns for each in rows]) - offset[rank]
    end = np.concatenate([each.end_ns for each in rows]) - offset[rank]
    _, which, count = np.unique(key, return_inverse=True, return_counts=True)
    last = np.full(len(count), np.iinfo(np.int64).min, dtype=np.int64)
    soonest = np.full(len(count), np.iinfo(np.int64).max, dtype=np.int64)
    np.maximum.at(last, which, start)
    np.minimum.at(soonest, which, end)
    several = count > 1
    if not several.any():
        return Meetings(tuple(rows), "no two ranks have a meeting of the same step and order")
    token = np.zeros(len(count), dtype=np.int64)
    token[which] = key % ORDERS
    is_broken = last - soonest > ENDS_NS
    share = {t: float(is_broken[several & (token == t)].mean()) for t in np.unique(token[several]).tolist()}
    holds = np.isin(token, [t for t, broken in share.items() if broken <= MOST_BROKEN]) & several
    # One of many that a rank left early (an exception, a join) is none, and says nothing of the others.
    holds &= ~is_broken
    if not holds.any():
        return Meetings(
            tuple(rows),
            f"in {100 * min(share.values()):.0f} % of the phases that are marked as meetings a rank leaves "
            "before the last one comes: the host does not wait there",
        )
    wait = np.where(holds[which], np.clip(last[which] - start, 0, np.maximum(end - start, 0)), 0)
    bounds = np.searchsorted(rank, np.arange(len(rows) + 1)).tolist()
    return Meetings(
        tuple(
            replace(each, wait_ns=wait[low:high]).take(holds[which[low:high]])
            for each, (low, high) in zip(rows, pairwise(bounds), strict=True)
        )
    )


def _of_rank(marks: RankMarks, tiles: Tiles, tokens: dict[str, int]) -> Met:
    phases = marks.phases
    place = tiles.at(phases.start_ns)
    in_scope = tiles.mask("counted", "marked", "warm_up")
    mine = np.flatnonzero(phases.is_sync & (place >= 0))
    mine = mine[in_scope[place[mine]]] if len(mine) else mine
    token = np.array([tokens.setdefault(_name(marks, n), len(tokens)) for n in mine.tolist()], dtype=np.int64)
    step = tiles.number[place[mine]] if len(mine) else np.empty(0, dtype=np.int64)
    order = _occurrence(step, token)
    keep = order < ORDERS
    mine, token, step, order = mine[keep], token[keep], step[keep], order[keep]
    return Met(
        key=(step * ORDERS + order) * ORDERS + token,
        step=step,
        start_ns=phases.start_ns[mine],
        end_ns=phases.end_ns[mine],
        wait_ns=np.zeros(len(mine), dtype=np.int64),
    )


def _name(marks: RankMarks, n: int) -> str:
    place = int(marks.phases.name[n])
    return (
        f"{PHASES[int(marks.phases.phase[n])]}/{marks.names[place] if 0 <= place < len(marks.names) else ''}"
    )


def _occurrence(step: I64, token: I64) -> I64:
    """How many rows of the same step and token lie before each."""
    order = np.lexsort((np.arange(len(step)), token, step))
    is_head = np.ones(len(order), dtype=bool)
    is_head[1:] = (step[order][1:] != step[order][:-1]) | (token[order][1:] != token[order][:-1])
    head = np.maximum.accumulate(np.where(is_head, np.arange(len(order)), 0))
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order)) - head
    return result


def _offsets(ranks: Sequence[RankMarks], rows: Sequence[Met]) -> npt.NDArray[np.int64]:
    """Of each rank how far its host's clock is ahead of the first rank's host."""
    hosts = [host_of(each) or f"\0{n}" for n, each in enumerate(ranks)]
    offset = np.zeros(len(ranks), dtype=np.int64)
    known = {hosts[0]: 0}
    for n, host in enumerate(hosts):
        if host not in known:
            apart = []
            for m in range(len(ranks)):
                if hosts[m] not in known:
                    continue
                _, own, other = np.intersect1d(rows[n].key, rows[m].key, return_indices=True)
                apart.append(rows[n].end_ns[own] - rows[m].end_ns[other] + known[hosts[m]])
            found = np.concatenate(apart) if apart else np.empty(0, dtype=np.int64)
            known[host] = int(np.median(found)) if len(found) else 0
        offset[n] = known[host]
    return offset
