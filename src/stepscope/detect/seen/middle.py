"""Counters of a job: of each second the median over its devices, once all of them have come so far."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.detect.seen.column import wider
from stepscope.detect.seen.second import NS, PLACE, Second
from stepscope.model.sample import F64
from stepscope.model.trace import I64

SIGNALS = ("tensor_active_ratio", "sm_active_ratio", "dram_active_ratio")
KEPT = 64
"""Seconds by which devices of one job may be apart."""
_PLACES = [PLACE[name] for name in SIGNALS]


@dataclass(frozen=True, slots=True)
class Middle:
    """One second of one job: the median of what at least half of its devices measured in it."""

    signal: str
    second: int
    value: float

    @property
    def at_ns(self) -> int:
        return self.second * NS


class Middles:
    """Values that were measured, of the last seconds."""

    def __init__(self) -> None:
        self._value: F64 = np.full((len(SIGNALS), KEPT, 16), np.nan)
        self._second: I64 = np.full((KEPT, 16), -1, dtype=np.int64)
        self._done: dict[str, int] = {}

    def take(self, second: Second) -> None:
        """Keep a second's measurements."""
        size = second.value.shape[1]
        if size > self._second.shape[1]:
            self._value, self._second = wider(self._value, size, np.nan), wider(self._second, size, -1)
        rows, at = second.rows, second.second
        fresh = second.is_fresh[_PLACES][:, rows]
        self._value[:, at % KEPT, rows] = np.where(fresh, second.value[_PLACES][:, rows], np.nan)
        self._second[at % KEPT, rows] = at

    def of(self, job: str, rows: Sequence[int], cursor: I64) -> Iterator[list[Middle]]:
        """What is new of a job whose devices these are, second by second."""
        mine = np.array(rows, dtype=np.int64)
        last = int(cursor[mine].min())
        first = max(self._done.get(job, last - 1) + 1, last - KEPT + 1)
        self._done[job] = max(last, self._done.get(job, last))
        for second in range(first, last + 1):
            here = mine[self._second[second % KEPT, mine] == second]
            if not len(here):
                continue
            values = self._value[:, second % KEPT, here]
            known = (~np.isnan(values)).sum(axis=1)
            yield [
                Middle(name, second, float(np.nanmedian(values[n])))
                for n, name in enumerate(SIGNALS)
                if 2 * known[n] >= len(mine) and known[n]
            ]

    def forget(self, job: str) -> None:
        self._done.pop(job, None)
