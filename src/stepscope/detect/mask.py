"""Stretches beyond the normal that come round: evaluation and checkpoints that nobody marked.

A *spell* begins with a point beyond the gate's limit and is over after 8 points that are not. The third of
three spells in one rhythm is expected: its points are masked as long as it is hardly longer than the two
before it, and neither hardly higher nor much lower. What goes on beyond that, or comes at another time, is
judged as ever. The rhythm is read off the last 8 spells, so that two of them (evaluation and checkpoints) may
overlap and the period may drift: each spell is expected from the ones before it, not from a first one.
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
TOLERANCE_RATIO = 0.15
"""Of the shortest period, by which a spell may come early or late."""
LEAST_TOLERANCE = 3
MOST_SHARE = 0.25
"""A spell that takes more of its period is no exception."""
MOST_LEFT_OUT = 4
"""So many periods may pass without a spell that was seen, less one: it may have been marked, or hidden."""
LONGER, MORE_POINTS = 1.25, 2
HIGHER, LOWER = 1.25, 0.4
"""Of the highest point, and of the mean level: a small fault that begins where a high plateau is due is not
taken for it."""

_PAIRS = np.nonzero(~np.eye(NUM_KEPT, dtype=bool))
_OF_THIS = (
    "begin", "last", "side", "peak", "total", "num_beyond", "most_points", "least", "most", "num_calm",
)  # fmt: skip


class Spells(Columns):
    """The spell each row is in (`begin` 0: none) and the last ones that ended.

    `begin` and `last` are numbers of points, from 1 on; `peak` is its largest distance from the normal,
    `total` the sum over its `num_beyond` points. `most_points`, `least` and `most` are what is expected of
    it, 0 where it is not.
    """

    FIELDS: ClassVar[Fields] = {
        "begin": (np.int64, 0, 0),
        "last": (np.int64, 0, 0),
        "side": (np.int8, 0, 0),
        "peak": (np.float64, 0, 0.0),
        "total": (np.float64, 0, 0.0),
        "num_beyond": (np.int32, 0, 0),
        "most_points": (np.int64, 0, 0),
        "least": (np.float64, 0, 0.0),
        "most": (np.float64, 0, 0.0),
        "num_calm": (np.int16, 0, 0),
        "num_kept": (np.int64, 0, 0),
        "kept_begin": (np.int64, NUM_KEPT, 0),
        "kept_points": (np.int64, NUM_KEPT, 0),
        "kept_peak": (np.float64, NUM_KEPT, 0.0),
        "kept_level": (np.float64, NUM_KEPT, 0.0),
        "kept_side": (np.int8, NUM_KEPT, 0),
    }
    begin: I64
    last: I64
    side: npt.NDArray[np.int8]
    peak: F64
    total: F64
    num_beyond: npt.NDArray[np.int32]
    most_points: I64
    least: F64
    most: F64
    num_calm: npt.NDArray[np.int16]
    num_kept: I64
    kept_begin: I64
    kept_points: I64
    kept_peak: F64
    kept_level: F64
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
        self.total[rows] += np.where(inside, distance, 0.0)
        self.num_beyond[rows] += inside
        is_short = number - self.begin[rows] < self.most_points[rows]
        is_alike = (distance <= self.most[rows]) & (distance >= self.least[rows])
        masked[some] = inside & is_short & is_alike
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
        self.kept_level[kept, place] = self.total[kept] / self.num_beyond[kept]
        self.kept_side[kept, place] = self.side[kept]
        self.num_kept[kept] += 1
        for name in _OF_THIS:
            getattr(self, name)[rows] = 0

    def _open(self, rows: I64, side: npt.NDArray[np.int8], limit: F64, number: I64) -> None:
        self.begin[rows], self.last[rows], self.side[rows] = number, number, side
        some = self.num_kept[rows] >= 2
        if some.any():
            self._expect(rows[some], side[some], limit[some], number[some])

    def _expect(self, rows: I64, side: npt.NDArray[np.int8], limit: F64, number: I64) -> None:
        """Set what is expected, where the rhythm of two spells leads to this point: of all such pairs the
        longest and highest spell, and the lowest level."""
        begin, points = self.kept_begin[rows], self.kept_points[rows]
        is_same = (self.kept_side[rows] == side[:, None]) & (begin > 0)
        one, other = _PAIRS
        period = begin[:, other] - begin[:, one]
        longest = np.maximum(points[:, one], points[:, other])
        is_pair = is_same[:, one] & is_same[:, other] & (period * MOST_SHARE >= longest)
        shortest = np.where(is_pair, period, np.iinfo(np.int64).max).min(axis=1, keepdims=True)
        tolerance = np.maximum(TOLERANCE_RATIO * shortest, LEAST_TOLERANCE)
        since = number[:, None] - begin[:, other]
        times = np.clip(np.rint(since / np.maximum(period, 1)), 1, MOST_LEFT_OUT)
        fits = is_pair & (np.abs(since - times * period) <= tolerance)
        most_points = np.where(fits, np.int64(LONGER * longest) + MORE_POINTS, 0)
        peak, level = self.kept_peak[rows], self.kept_level[rows]
        highest = np.where(fits, np.maximum(peak[:, one], peak[:, other]), -np.inf).max(axis=1)
        lowest = np.where(fits, np.minimum(level[:, one], level[:, other]), np.inf).min(axis=1)
        is_known = fits.any(axis=1)
        self.most_points[rows] = most_points.max(axis=1)
        self.most[rows] = np.where(is_known, HIGHER * highest + limit, 0.0)
        self.least[rows] = np.where(is_known, LOWER * lowest, 0.0)
