"""From a number to an alarm: for how long it must hold, when it is over, and what is not known.

`unknown` is the first state, not `ok`. A number that is absent neither breaks nor keeps a condition: what was
about to become an alarm begins anew, and what is one stays one, is said to be unknown, and ends only when the
number is back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from stepscope.detect.alert.condition import Condition
from stepscope.detect.seen.column import wider
from stepscope.detect.seen.second import NS, Flags
from stepscope.model.sample import F64
from stepscope.model.trace import I64

UNKNOWN, OK, PENDING, FIRING, LOST = range(5)
"""`LOST`: an alarm whose number is unknown now."""
Kind = Literal["fired", "over", "lost", "found"]
"""What became of one device's condition: an alarm, no alarm any more, an alarm of which nothing is known any
more, and one of which something is known again."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One device's condition changed its state at `at_ns`; `since_ns` is since when it held (`fired`), or was
    well again (`over`). `value` what was measured then, `None` of what is lost."""

    condition: Condition
    row: int
    kind: Kind
    at_ns: int
    since_ns: int
    value: float | None


class Machine:
    """The state of level conditions, a row a condition and a column a device."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        """ValueError where one has no threshold."""
        self.conditions = tuple(conditions)
        bare = [each.id for each in self.conditions if each.threshold is None]
        if bare:
            raise ValueError(f"{', '.join(bare)}: a level needs a threshold")
        self._size = 16
        num = len(self.conditions)
        self.state: npt.NDArray[np.int8] = np.full((num, self._size), UNKNOWN, dtype=np.int8)
        self._since: I64 = np.zeros((num, self._size), dtype=np.int64)
        """Second since when the condition holds; of an alarm, since when it no longer does (0: it does)."""
        # A number below is one above, with its sign turned.
        self._sign = _column([1.0 if each.side == "above" else -1.0 for each in self.conditions])
        self._threshold = self._sign * _column([each.threshold or 0.0 for each in self.conditions])
        self._clear = self._sign * _column(
            [(each.threshold if each.clear is None else each.clear) or 0.0 for each in self.conditions]
        )
        self._for_s = _column([each.for_ns / NS for each in self.conditions])
        self._clear_for_s = _column([each.clear_for_ns / NS for each in self.conditions])

    def step(self, rows: I64, second: I64, values: F64) -> list[Turn]:
        """One second of these devices: `values` (conditions, rows), NaN where unknown."""
        if len(rows):
            self._fit(int(rows.max()) + 1)
        state, since = self.state[:, rows], self._since[:, rows]
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            signed = values * self._sign
            breaks = signed >= self._threshold
            is_well = (signed <= self._clear) & ~breaks
        is_alarm = (state == FIRING) | (state == LOST)
        # ── what is no alarm ──
        since = np.where(breaks & ~is_alarm & (state != PENDING), second, since)
        fires = breaks & ~is_alarm & (second - since >= self._for_s)
        made = np.where(is_alarm, state, np.where(~known, UNKNOWN, np.where(breaks, PENDING, OK)))
        fired_since = since
        # ── what is one ──
        lost = ~known & (state == FIRING)
        found = known & (state == LOST)
        since = np.where(is_alarm & is_well & (since == 0), second, since)
        since = np.where(is_alarm & known & ~is_well, 0, since)
        over = is_alarm & is_well & (second - since >= self._clear_for_s)
        made = np.where(lost, LOST, np.where(found, FIRING, made))
        made = np.where(fires, FIRING, np.where(over, OK, made))
        self.state[:, rows] = made
        self._since[:, rows] = np.where(fires | over, 0, since)
        turns: list[Turn] = []
        if (lost | found | fires | over).any():
            there = np.broadcast_to(second, values.shape)
            kinds: tuple[tuple[Kind, Flags, I64], ...] = (
                ("lost", lost, there), ("found", found & ~over, there), ("fired", fires, fired_since),
                ("over", over, since),
            )  # fmt: skip
            for kind, where, from_ in kinds:
                turns += self._turns(kind, where, from_, rows, second, values)
        return turns

    def _turns(self, kind: Kind, where: Flags, since: I64, rows: I64, second: I64, values: F64) -> list[Turn]:
        found = []
        for place, n in zip(*(each.tolist() for each in np.nonzero(where)), strict=True):
            value = float(values[place, n])
            found.append(
                Turn(
                    self.conditions[place],
                    int(rows[n]),
                    kind,
                    int(second[n]) * NS,
                    int(since[place, n]) * NS,
                    None if value != value else value,
                )
            )
        return found

    def clear(self, rows: I64) -> None:
        """Nothing is known of these devices."""
        rows = rows[rows < self._size]
        self.state[:, rows] = UNKNOWN
        self._since[:, rows] = 0

    def _fit(self, size: int) -> None:
        if size > self._size:
            size = max(size, 2 * self._size)
            self.state, self._since = wider(self.state, size, UNKNOWN), wider(self._since, size, 0)
            self._size = size


def _column(values: Sequence[float]) -> F64:
    return np.array(values, dtype=np.float64)[:, None]
