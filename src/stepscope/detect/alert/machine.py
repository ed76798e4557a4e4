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
        self.conditions = tuple(conditions)
        self._size = 16
        num = len(self.conditions)
        self.state: npt.NDArray[np.int8] = np.full((num, self._size), UNKNOWN, dtype=np.int8)
        self._since: I64 = np.zeros((num, self._size), dtype=np.int64)
        """Second since when the condition holds; of an alarm, since when it no longer does (0: it does)."""

    def step(self, place: int, rows: I64, second: I64, values: F64, may_hold: Flags) -> list[Turn]:
        """One second of these devices. `values` (devices,) over all of them; `may_hold` (devices,): where it
        is false the number says nothing, as if it were unknown, but ends no alarm by itself."""
        self._fit(len(values))
        row = self.conditions[place]
        if row.threshold is None:
            raise ValueError(f"{row.id}: has no threshold")
        value = np.where(may_hold[rows], values[rows], np.nan)
        state, since = self.state[place, rows], self._since[place, rows]
        known = ~np.isnan(value)
        with np.errstate(invalid="ignore"):
            if row.side == "above":
                breaks = value >= row.threshold
                is_well = value < row.threshold if row.clear is None else value <= row.clear
            else:
                breaks = value <= row.threshold
                is_well = value > row.threshold if row.clear is None else value >= row.clear
        is_alarm = (state == FIRING) | (state == LOST)
        # ── what is no alarm ──
        begins = breaks & ~is_alarm & (state != PENDING)
        since = np.where(begins, second, since)
        held = (second - since) * NS >= row.for_ns
        fires = breaks & ~is_alarm & held
        made = np.where(is_alarm, state, np.where(~known, UNKNOWN, np.where(breaks, PENDING, OK)))
        # ── what is one ──
        firing_since = since.copy()
        lost = is_alarm & ~known & (state == FIRING)
        found = is_alarm & known & (state == LOST)
        begins_well = is_alarm & is_well & (since == 0)
        since = np.where(begins_well, second, since)
        since = np.where(is_alarm & known & ~is_well, 0, since)
        over = is_alarm & is_well & ((second - since) * NS >= row.clear_for_ns)
        made = np.where(lost, LOST, np.where(found, FIRING, made))
        made = np.where(fires, FIRING, np.where(over, OK, made)).astype(np.int8)
        well_since = since
        since = np.where(fires | over, 0, since)
        self.state[place, rows], self._since[place, rows] = made, since
        turns: list[Turn] = []
        for kind, where, from_ in (
            ("lost", lost, second), ("found", found & ~over, second), ("fired", fires, firing_since),
            ("over", over, well_since),
        ):  # fmt: skip
            for n in np.flatnonzero(where).tolist():
                number = float(value[n])
                turns.append(
                    Turn(
                        row,
                        int(rows[n]),
                        kind,  # type: ignore[arg-type]
                        int(second[n]) * NS,
                        int(from_[n]) * NS,
                        None if number != number else number,
                    )
                )
        return turns

    def clear(self, rows: I64) -> None:
        """Nothing is known of these devices."""
        rows = rows[rows < self._size]
        self.state[:, rows] = UNKNOWN
        self._since[:, rows] = 0

    def _fit(self, size: int) -> None:
        if size > self._size:
            self.state, self._since = wider(self.state, size, UNKNOWN), wider(self._since, size, 0)
            self._size = size
