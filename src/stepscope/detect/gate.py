"""The robust gate and the specified alarm: what of the last points decides.

Robust: beyond median ± 3 sigma in 6 of the last 8 points, on one side, and the median of these 8 differs by
5 % (info), 10 % (warning) or 20 % (critical). The specified alarm: 3 points in a row beyond mean ± 2 standard
deviations on one side; computed and shown, and never paged on alone: real step times resemble their
neighbours, and it then comes 40 to 50 times in 10,000 healthy points.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.columns import Columns, Fields, Rows
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64, I64

Flags = npt.NDArray[np.bool_]
I8 = npt.NDArray[np.int8]
U8 = npt.NDArray[np.uint8]

LEAST, LENGTH = 6, 8
SIGMAS = 3.0
EFFECTS = (0.05, 0.10, 0.20)
"""Of info, warning, critical: shares of the normal, absolute points of ratios."""
SPECIFIED_RUN = 3
SPECIFIED_SIGMAS = 2.0

_NUM_SET = np.array([bin(n).count("1") for n in range(256)], dtype=np.int8)
_OLDEST = np.array([n.bit_length() - 1 for n in range(256)], dtype=np.int64)
"""How many points ago the oldest bit of the window was set; -1 of an empty one."""


class Windows(Columns):
    """The last 8 judged points of each row. Bits of `above` and `below`: the lowest is the newest point."""

    FIELDS: ClassVar[Fields] = {
        "above": (np.uint8, 0, 0),
        "below": (np.uint8, 0, 0),
        "place": (np.uint8, 0, 0),
        "value": (np.float64, LENGTH, np.nan),
        "number": (np.int64, LENGTH, ABSENT_I64),
        "at_ns": (np.int64, LENGTH, ABSENT_I64),
    }
    above: U8
    below: U8
    place: U8
    value: F64
    number: I64
    at_ns: I64

    def take(self, rows: Rows, values: F64, side: I8, number: I64, at_ns: I64) -> None:
        """One point of each row; `side` +1 or -1 where it is beyond, `number` its place in the series."""
        self.above[rows] = (self.above[rows] << 1) | (side > 0)
        self.below[rows] = (self.below[rows] << 1) | (side < 0)
        place = self.place[rows]
        every = np.arange(rows.stop) if isinstance(rows, slice) else rows
        flat = every * LENGTH + place
        self.value.reshape(-1)[flat] = values
        self.number.reshape(-1)[flat] = number
        self.at_ns.reshape(-1)[flat] = at_ns
        self.place[rows] = (place + 1) % LENGTH

    def median(self, rows: Rows) -> F64:
        """Of the points in the window: 8, or fewer after a restart."""
        ordered = np.sort(self.value[rows], axis=1)
        if not np.isnan(ordered[:, -1]).any():
            whole: F64 = (ordered[:, LENGTH // 2 - 1] + ordered[:, LENGTH // 2]) / 2
            return whole
        num = np.maximum((~np.isnan(ordered)).sum(axis=1), 1)
        each = np.arange(len(ordered))
        middle: F64 = (ordered[each, (num - 1) // 2] + ordered[each, num // 2]) / 2
        return middle

    def side(self, rows: Rows) -> I8:
        """+1 or -1 where 6 of 8 are beyond on that side, else 0."""
        above, below = _NUM_SET[self.above[rows]], _NUM_SET[self.below[rows]]
        return (above >= LEAST).astype(np.int8) - (below >= LEAST).astype(np.int8)

    def begin(self, rows: I64, side: I8) -> tuple[I64, I64]:
        """Number and time of the first point in the window that is beyond on that side."""
        ago = _OLDEST[np.where(side > 0, self.above[rows], self.below[rows])]
        place = (self.place[rows].astype(np.int64) - 1 - ago) % LENGTH
        return self.number[rows, place], self.at_ns[rows, place]


def severity(side: I8, effect: F64) -> I8:
    """0 none, 1 info, 2 warning, 3 critical; an effect on the other side, or NaN, is none."""
    towards = effect * side
    level = np.zeros(len(side), dtype=np.int8)
    with np.errstate(invalid="ignore"):
        for least in EFFECTS:
            level += towards >= least
    return level


class Runs(Columns):
    """Points in a row beyond mean ± 2 standard deviations: positive above, negative below."""

    FIELDS: ClassVar[Fields] = {"num": (np.int16, 0, 0)}
    num: npt.NDArray[np.int16]

    def take(self, rows: Rows, values: F64, mean: F64, deviation: F64) -> Flags:
        """One point of each row: where the specified alarm holds now."""
        with np.errstate(divide="ignore", invalid="ignore"):
            away = (values - mean) / deviation
        num = self.num[rows].astype(np.int64)
        num = np.where(
            away > SPECIFIED_SIGMAS,
            np.maximum(num, 0) + 1,
            np.where(away < -SPECIFIED_SIGMAS, np.minimum(num, 0) - 1, 0),
        )
        self.num[rows] = np.clip(num, -1000, 1000)
        holds: Flags = np.abs(num) >= SPECIFIED_RUN
        return holds
