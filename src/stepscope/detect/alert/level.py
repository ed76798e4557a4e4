"""Device conditions: every second of every device through features and the machine, into the book."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stepscope.detect.alert.book import Book
from stepscope.detect.alert.condition import Condition
from stepscope.detect.alert.entry import Fired, Key, Member
from stepscope.detect.alert.feature import REMAPS, Features
from stepscope.detect.alert.machine import Machine, Turn
from stepscope.detect.seen.column import Columns
from stepscope.detect.seen.run import State
from stepscope.detect.seen.second import NS, PLACE, Flags, Second
from stepscope.model.alarm import AlarmSeverity, Measured
from stepscope.model.sample import F64

EDGES: Mapping[str, tuple[str, ...]] = {"ecc_uncorrected_total": ("ecc_uncorrected_total",),
                                        "row_remap_total": REMAPS}  # fmt: skip
"""Counters by what the table calls them."""


@dataclass(slots=True)
class States:
    """What the jobs' steps do, over devices: refreshed by who knows the jobs, once a tick."""

    is_still: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    is_steady: Flags = field(default_factory=lambda: np.zeros(0, dtype=bool))
    of_row: dict[int, State] = field(default_factory=dict)

    def fit(self, size: int) -> None:
        if len(self.is_still) < size:
            self.is_still, self.is_steady = np.zeros(size, dtype=bool), np.zeros(size, dtype=bool)


class Levels:
    """`take` a second; `tend` ends edges that are long past."""

    def __init__(
        self, conditions: Sequence[Condition], columns: Columns, book: Book,
        saw_xid: Callable[[int, int, int], None],
    ) -> None:  # fmt: skip
        """`saw_xid(row, code, at_ns)` is called where a gauge of the last Xid changes."""
        self._columns, self._book, self._saw_xid = columns, book, saw_xid
        self._features = Features()
        self._machine = Machine([each for each in conditions if each.how == "level" and each.is_on])
        self._is_of_stillness = np.array([each.needs_stillness for each in self._machine.conditions])
        """What says nothing while a job is meant to stand still."""
        self._edges = [each for each in conditions if each.how == "edge" and each.is_on]
        self._open: dict[tuple[str, int], tuple[Key, Member]] = {}
        self._past: dict[tuple[str, int], tuple[Key, Member, int, int]] = {}
        """Edges: whose they are, when the last was, and how long the alarm stays after it."""
        self._xid: F64 = np.full(16, np.nan)

    def take(self, second: Second, states: States) -> None:
        """One second of some devices."""
        self._renew()
        states.fit(second.value.shape[1])
        columns = self._features.look(second, states.is_steady)
        rows = second.rows
        values = np.stack([columns[each.feature][rows] for each in self._machine.conditions])
        values[np.ix_(self._is_of_stillness, states.is_still[rows])] = np.nan
        for turn in self._machine.step(rows, second.second, values):
            self._turn(turn, states)
        self._look_at_edges(second)
        self._look_at_xids(second)

    def tend(self, now_by_row: Callable[[int], int]) -> None:
        """End what counted once and is long past."""
        for (name, row), (key, member, at_ns, lasts_ns) in list(self._past.items()):
            if now_by_row(row) - at_ns >= lasts_ns:
                self._book.end(key, member, at_ns + lasts_ns)
                del self._past[name, row]

    # ── what becomes of them ──

    def _turn(self, turn: Turn, states: States) -> None:
        condition, row = turn.condition, turn.row
        place = (condition.id, row)
        if turn.kind == "fired":
            state = states.of_row.get(row, "unknown")
            pages, severity = condition.pages, condition.severity or "warning"
            if condition.needs_stillness and state != "stopped":
                pages, severity = False, "info"
            measured = Measured(
                condition.feature, condition.unit, turn.value or 0.0, threshold=condition.threshold
            )
            onset_ns = turn.since_ns - condition.over_ns
            fired = self._fired(condition, row, onset_ns, severity, measured, pages=pages)
            self._open[place] = fired.key, fired.member
            self._book.fire(fired)
        elif place in self._open:
            key, member = self._open[place]
            if turn.kind == "over":
                self._book.end(key, member, turn.since_ns)
                del self._open[place]
            elif turn.kind == "lost":
                self._book.lose(key, member)
            else:
                self._book.find(key, member)

    def _fired(
        self, condition: Condition, row: int, onset_ns: int, severity: AlarmSeverity, measured: Measured,
        *, pages: bool,
    ) -> Fired:  # fmt: skip
        whose = self._columns.whose[row]
        return Fired(
            condition=condition,
            member=Member(whose.rank, self._columns.key[row], whose.host),
            onset_ns=onset_ns,
            job=whose.job,
            run=whose.run,
            severity=severity,
            measured=measured,
            pages=pages,
        )

    def _look_at_edges(self, second: Second) -> None:
        for condition in self._edges:
            grown = sum(self._features.grown[name] for name in EDGES[condition.feature])
            at = dict(zip(second.rows.tolist(), second.second.tolist(), strict=True))
            for row in np.flatnonzero(np.asarray(grown) >= (condition.threshold or 1.0)).tolist():
                value = float(np.asarray(grown)[row])
                measured = Measured(condition.feature, condition.unit, value, threshold=condition.threshold)
                at_ns = at[row] * NS
                fired = self._fired(
                    condition, row, at_ns, condition.severity or "warning", measured, pages=condition.pages
                )
                self._book.fire(fired)
                self._past[condition.id, row] = fired.key, fired.member, at_ns, condition.clear_for_ns

    def _look_at_xids(self, second: Second) -> None:
        size, rows = second.value.shape[1], second.rows
        if size > len(self._xid):
            self._xid = np.concatenate((self._xid, np.full(size - len(self._xid), np.nan)))
        place = PLACE["xid"]
        fresh = second.is_fresh[place][rows]
        new, old = second.value[place][rows], self._xid[rows]
        # The first value of a gauge may be of long ago; the same one again says nothing.
        is_edge = fresh & ~np.isnan(old) & (new != old) & (new > 0)
        self._xid[rows] = np.where(fresh, new, old)
        for n in np.flatnonzero(is_edge).tolist():
            self._saw_xid(int(rows[n]), int(new[n]), int(second.second[n]) * NS)

    def _renew(self) -> None:
        """Devices that are new or another job's: nothing of before counts."""
        columns = self._columns
        rows = [*columns.changed, *columns.forgotten]
        if not rows:
            return
        which = np.array(sorted(set(rows)), dtype=np.int64)
        columns.changed.clear()
        columns.forgotten.clear()
        self._features.fit(columns.size)
        self._features.clear(which)
        self._machine.clear(which)
        for row in which.tolist():
            for place in [place for place in self._open if place[1] == row]:
                key, member = self._open.pop(place)
                self._book.end(key, member, int(columns.cursor[row]) * NS)
