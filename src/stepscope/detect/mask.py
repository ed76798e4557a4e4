"""Stretches beyond the normal that come round: evaluation and checkpoints that nobody marked.

A *spell* begins with a point beyond the gate's limit and is over after 8 points that are not. The third of
three spells in one rhythm is expected: its points are masked as long as it is hardly longer and hardly higher
than the two before it. What goes on beyond that, or comes at another time, is judged as ever. The rhythm is
read off the last 8 spells, so that two of them (evaluation and checkpoints) may overlap and the period may
drift: each spell is expected from the ones before it, not from a first one.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.columns import Columns, Fields
from stepscope.detect.gate import LENGTH
from stepscope.model.sample import F64
from stepscope.model.trace import I64

Flags = npt.NDArray[np.bool_]

CALM = LENGTH
"""Points in a row that are not beyond which end a spell: as many as the gate looks at."""
LEAST_LENGTH = 3
"""Shorter spells have no rhythm worth knowing: no gate fires on them."""
NUM_KEPT = 8
TOLERANCE_RATIO = 0.10
"""Of the period, by which a spell may come early or late."""
LEAST_TOLERANCE = 3
MOST_SHARE = 0.25
"""A spell that takes more of its period is no exception."""
MOST_LEFT_OUT = 4
"""So many periods may pass without a spell that was seen, less one: it may have been marked, or hidden."""
LONGER, MORE_POINTS = 1.25, 2
HIGHER = 1.25


class Spells(Columns):
    """The spell each row is in (`begin` 0: none) and the last ones that ended.

    `begin` and `last` are numbers of points, from 1 on; `peak` its largest distance from the normal.
    `most_points` and `most` are what is expected of it, 0 where it is not.
    """

    FIELDS: ClassVar[Fields] = {
        "begin": (np.int64, 0, 0),
        "last": (np.int64, 0, 0),
        "side": (np.int8, 0, 0),
        "peak": (np.float64, 0, 0.0),
        "most_points": (np.int64, 0, 0),
        "most": (np.float64, 0, 0.0),
        "num_calm": (np.int16, 0, 0),
        "num_kept": (np.int64, 0, 0),
        "kept_begin": (np.int64, NUM_KEPT, 0),
        "kept_points": (np.int64, NUM_KEPT, 0),
        "kept_peak": (np.float64, NUM_KEPT, 0.0),
        "kept_side": (np.int8, NUM_KEPT, 0),
    }
    begin: I64
    last: I64
    side: npt.NDArray[np.int8]
    peak: F64
    most_points: I64
    most: F64
    num_calm: npt.NDArray[np.int16]
    num_kept: I64
    kept_begin: I64
    kept_points: I64
    kept_peak: F64
    kept_side: npt.NDArray[np.int8]

    def take(self, rows: I64, side: npt.NDArray[np.int8], distance: F64, limit: F64, number: I64) -> Flags:
        """One point of each row: which of them are masked. `distance` from the normal and `limit` of the gate
        are not negative; `side` 0 where it is within the limit."""
        masked = np.zeros(len(rows), dtype=bool)
        some = np.flatnonzero((side != 0) | (self.begin[rows] > 0))
        if not len(some):
            return masked
        rows, side, number = rows[some], side[some], number[some]
        distance, limit = distance[some], limit[some]
        begins = self.begin[rows] == 0
        if begins.any():
            self._open(rows[begins], side[begins], limit[begins], number[begins])
        inside = (side != 0) & (side == self.side[rows])
        self.num_calm[rows] = np.where(inside, 0, self.num_calm[rows] + 1)
        self.last[rows] = np.where(inside, number, self.last[rows])
        self.peak[rows] = np.where(inside, np.maximum(self.peak[rows], distance), self.peak[rows])
        is_short = number - self.begin[rows] < self.most_points[rows]
        masked[some] = inside & is_short & (distance <= self.most[rows])
        self.end(rows[self.num_calm[rows] >= CALM])
        return masked

    def end(self, rows: I64) -> None:
        """The spells of these rows, where they are in one, are over."""
        points = self.last[rows] - self.begin[rows] + 1
        kept = rows[(self.begin[rows] > 0) & (points >= LEAST_LENGTH)]
        place = self.num_kept[kept] % NUM_KEPT
        self.kept_begin[kept, place] = self.begin[kept]
        self.kept_points[kept, place] = self.last[kept] - self.begin[kept] + 1
        self.kept_peak[kept, place] = self.peak[kept]
        self.kept_side[kept, place] = self.side[kept]
        self.num_kept[kept] += 1
        for column in (
            self.begin,
            self.last,
            self.side,
            self.peak,
            self.num_calm,
            self.most_points,
            self.most,
        ):
            column[rows] = 0

    def _open(self, rows: I64, side: npt.NDArray[np.int8], limit: F64, number: I64) -> None:
        self.begin[rows], self.last[rows], self.side[rows] = number, number, side
        self.peak[rows], self.num_calm[rows] = 0.0, 0
        some = self.num_kept[rows] >= 2
        if not some.any():
            return
        points, peak = self._expected(rows[some], side[some], number[some])
        is_known = points > 0
        self.most_points[rows[some]] = np.where(is_known, np.int64(LONGER * points) + MORE_POINTS, 0)
        self.most[rows[some]] = np.where(is_known, HIGHER * peak + limit[some], 0.0)

    def _expected(self, rows: I64, side: npt.NDArray[np.int8], number: I64) -> tuple[I64, F64]:
        """Longest and highest of the pairs of spells whose rhythm leads to this point; 0 where none does."""
        begin, points, peak = self.kept_begin[rows], self.kept_points[rows], self.kept_peak[rows]
        is_same = (self.kept_side[rows] == side[:, None]) & (begin > 0)
        first, second = np.nonzero(~np.eye(NUM_KEPT, dtype=bool))
        period = begin[:, second] - begin[:, first]
        since = number[:, None] - begin[:, second]
        longest = np.maximum(points[:, first], points[:, second])
        fits = is_same[:, first] & is_same[:, second] & (period * MOST_SHARE >= longest)
        tolerance = np.maximum(TOLERANCE_RATIO * period, LEAST_TOLERANCE)
        with np.errstate(divide="ignore", invalid="ignore"):
            times = np.clip(np.rint(since / np.maximum(period, 1)), 1, MOST_LEFT_OUT)
        fits &= np.abs(since - times * period) <= tolerance
        most = np.where(fits, longest, 0).max(axis=1)
        highest = np.where(fits, np.maximum(peak[:, first], peak[:, second]), 0.0).max(axis=1)
        return most.astype(np.int64), highest
