"""Samples of all devices on a grid of seconds: each device moves on at the pace of what its host sends.

Columns are (devices,), NaN where a number is not known. Agents send in bursts, sources of one host at
different moments, and hosts' clocks differ: a host's own newest sample is its clock, and it is waited up to
`HOLD_S` for what comes late.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.seen.second import (
    FIRST_COUNTER,
    FIRST_FIXED,
    LEAST,
    MOST,
    NS,
    PLACE,
    SIGNALS,
    Second,
    Whose,
    device_key,
)
from stepscope.model.batch import BatchSeries, Samples
from stepscope.model.sample import F64
from stepscope.model.trace import I64

T = TypeVar("T", bound=np.generic)
HOLD_S = 6
"""The agent holds a batch for 5 s."""
WINDOW = 64
"""Seconds that may wait for their turn."""
QUIET_S = 15
"""A source that said nothing for so long is not waited for."""
STALE_S = 5
"""A value stands for so long, or for three of its own intervals."""
FIXED_S = 900
"""What a device is made for is told seldom."""
FAR_S = 120
"""What lies further apart is no late batch: a clock was set, or nobody sent."""
MOST_EVERY_S = 60
FORGET_S = 3600
"""A device of which nothing was heard for so long."""


@dataclass(slots=True)
class _Host:
    """`newest` second of each of its sources, and when (our time) the newest of all came."""

    newest: dict[str, int] = field(default_factory=dict)
    heard_ns: int = 0
    rows: list[int] = field(default_factory=list)
    cursor: int = 0

    def limit(self, now_ns: int) -> int:
        """Up to which second, included, all is here that is waited for."""
        last = max(self.newest.values())
        now = last + max((now_ns - self.heard_ns) // NS, 0)
        awaited = [each for each in self.newest.values() if each >= last - QUIET_S]
        return max(min(awaited), now - HOLD_S)


def wider(array: npt.NDArray[T], size: int, fill: float) -> npt.NDArray[T]:
    """The same with room for `size` devices in its last axis."""
    made = np.full((*array.shape[:-1], size), fill, dtype=array.dtype)
    made[..., : array.shape[-1]] = array
    return made


class Columns:
    """Devices in rows. `key[row]` is the device's name, `whose[row]` whose it is; a row that is forgotten is
    used again."""

    def __init__(self) -> None:
        self.key: list[str] = []
        self.whose: list[Whose] = []
        self.num_late = 0
        """Samples that came after their second was over."""
        self.changed: list[int] = []
        """Rows that are new or changed hands since somebody last emptied it."""
        self.forgotten: list[int] = []
        """Rows that are nobody's now, likewise."""
        self._row: dict[str, int] = {}
        self._free: list[int] = []
        self._hosts: dict[str, _Host] = {}
        num = len(SIGNALS)
        self.size = 16
        self._waiting: F64 = np.full((num, WINDOW, self.size), np.nan)
        self._value: F64 = np.full((num, self.size), np.nan)
        self._at: I64 = np.full((num, self.size), -1, dtype=np.int64)
        self._every: I64 = np.ones((num, self.size), dtype=np.int64)
        self.cursor: I64 = np.zeros(self.size, dtype=np.int64)
        """The last second of each device that is over."""

    def __len__(self) -> int:
        return len(self.key)

    # ── in ──

    def take(self, batch: Samples, now_ns: int) -> Iterator[Second]:
        """Keep its samples of devices. Where there is no room for them time moves on first: then there are
        seconds to look at."""
        host = self._hosts.get(batch.host)
        rows: list[int] = []
        places: list[int] = []
        seconds: list[int] = []
        values: list[float] = []
        for each in batch.series:
            place = PLACE.get(each.signal)
            if place is None or each.owner.kind != "device" or not each.at_ns:
                continue
            if host is None:
                host = self._hosts[batch.host] = _Host(cursor=_first(batch) - 1)
            row = self._of(each, batch.host, host)
            for at_ns, value in zip(each.at_ns, each.value, strict=False):
                if isfinite(value) and LEAST[place] <= value <= MOST[place]:
                    rows.append(row)
                    places.append(place)
                    seconds.append(at_ns // NS)
                    values.append(value)
        if host is None or not seconds:
            return
        row_of, place_of, second_of, value_of = (
            np.array(rows), np.array(places), np.array(seconds), np.array(values)
        )  # fmt: skip
        newest, oldest = int(second_of.max()), int(second_of.min())
        if newest < host.cursor - FAR_S:
            self._set_back(host, oldest - 1)
        host.newest[batch.source] = newest
        host.heard_ns = now_ns
        while len(second_of):
            fits = second_of < host.cursor + WINDOW
            is_late = second_of <= host.cursor
            # What code was last says no less for being late.
            moved = is_late & (place_of == PLACE["xid"])
            second_of = np.where(moved, host.cursor + 1, second_of)
            is_late &= ~moved
            self.num_late += int(is_late.sum())
            use = fits & ~is_late
            self._waiting[place_of[use], second_of[use] % WINDOW, row_of[use]] = value_of[use]
            row_of, place_of, second_of, value_of = (
                each[~fits] for each in (row_of, place_of, second_of, value_of)
            )  # fmt: skip
            if len(second_of):
                yield from self._until(host, int(second_of.min()))

    def _until(self, host: _Host, second: int) -> Iterator[Second]:
        """Move a host on until there is room for a second."""
        rows = np.array(host.rows, dtype=np.int64)
        end = min(second - WINDOW // 2, host.cursor + 2 * WINDOW)
        yield from self._move(rows, np.full(len(rows), end, dtype=np.int64))
        # Beyond that nothing waits and nothing is fresh: hours without a word are no seconds to look at.
        if end < second - WINDOW // 2:
            end = second - WINDOW // 2
            self.changed += host.rows
        host.cursor = self.cursor[rows] = end

    def _set_back(self, host: _Host, cursor: int) -> None:
        """Its clock was set back: what was is no longer before what comes."""
        rows = np.array(host.rows, dtype=np.int64)
        host.cursor = self.cursor[rows] = cursor
        host.newest.clear()
        self._waiting[:, :, rows] = np.nan
        self._value[:, rows] = np.nan
        self._at[:, rows] = -1

    def _of(self, each: BatchSeries, name: str, host: _Host) -> int:
        key = device_key(each.owner, name)
        row = self._row.get(key)
        rank = each.labels.get("rank")
        whose = Whose(
            each.labels.get("job"),
            each.labels.get("run"),
            int(rank) if rank and rank.isdecimal() else None,
            name,
        )
        if row is None:
            return self._new(key, whose, host)
        if whose != self.whose[row] and (whose.job is not None or self.whose[row].job is None):
            self.whose[row] = whose
            self.changed.append(row)
        return row

    def _new(self, key: str, whose: Whose, host: _Host) -> int:
        if self._free:
            row = self._free.pop()
            self.key[row], self.whose[row] = key, whose
        else:
            row = len(self.key)
            self.key.append(key)
            self.whose.append(whose)
            if row >= self.size:
                self._grow(2 * self.size)
        self._row[key] = row
        self._waiting[:, :, row] = np.nan
        self._value[:, row] = np.nan
        self._at[:, row] = -1
        self._every[:, row] = 1
        self.cursor[row] = host.cursor
        host.rows.append(row)
        self.changed.append(row)
        return row

    def _grow(self, size: int) -> None:
        self._waiting = wider(self._waiting, size, np.nan)
        self._value = wider(self._value, size, np.nan)
        self._at = wider(self._at, size, -1)
        self._every = wider(self._every, size, 1)
        self.cursor = wider(self.cursor, size, 0)
        self.size = size

    # ── out ──

    def advance(self, now_ns: int) -> Iterator[Second]:
        """Every second that is over by now, of every device, in order."""
        rows: list[int] = []
        limits: list[int] = []
        for name, host in list(self._hosts.items()):
            if not host.newest:
                continue
            if now_ns - host.heard_ns > FORGET_S * NS:
                self._forget(name, host)
                continue
            limit = host.limit(now_ns)
            if limit > host.cursor:
                rows += host.rows
                limits += [limit] * len(host.rows)
                host.cursor = limit
        if rows:
            yield from self._move(np.array(rows, dtype=np.int64), np.array(limits, dtype=np.int64))

    def _move(self, rows: I64, limits: I64) -> Iterator[Second]:
        while len(rows):
            moves = self.cursor[rows] < limits
            rows, limits = rows[moves], limits[moves]
            if len(rows):
                yield self._next(rows)

    def _next(self, rows: I64) -> Second:
        second = self.cursor[rows] + 1
        self.cursor[rows] = second
        new = self._waiting[:, second % WINDOW, rows]
        fresh = ~np.isnan(new)
        self._waiting[:, second % WINDOW, rows] = np.nan
        at, every = self._at[:, rows], self._every[:, rows]
        apart = second - at
        every = np.where(fresh & (at >= 0) & (apart <= FAR_S), np.clip(apart, 1, MOST_EVERY_S), every)
        at = np.where(fresh, second, at)
        value = np.where(fresh, new, self._value[:, rows])
        lasts = np.maximum(STALE_S, 3 * every)
        lasts[FIRST_FIXED:FIRST_COUNTER] = FIXED_S
        value[second - at > lasts] = np.nan
        self._at[:, rows], self._every[:, rows], self._value[:, rows] = at, every, value
        is_fresh = np.zeros(self._value.shape, dtype=bool)
        is_fresh[:, rows] = fresh
        return Second(rows, second, self._value, is_fresh)

    def _forget(self, name: str, host: _Host) -> None:
        for row in host.rows:
            self._row.pop(self.key[row], None)
            self.whose[row] = Whose()
            self._free.append(row)
        self.forgotten += host.rows
        del self._hosts[name]


def _first(batch: Samples) -> int:
    """The first second of any of its devices."""
    return min(
        min(each.at_ns) for each in batch.series if each.owner.kind == "device" and each.at_ns
    ) // NS  # fmt: skip
