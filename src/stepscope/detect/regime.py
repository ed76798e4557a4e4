"""Whether a change has become the rule: when a new normal is learned, and why not earlier.

A change for the worse is an alarm first. It becomes normal when the caller says so (`Gates.reset`: a resume,
another sharding, other shapes), or after `LASTING_NS` without a break, and then the verdict says so. A change
for the better by 10 % that lasts `SETTLED` points is learned at once: measured against the old normal a later
fault would hide in what was won.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.columns import Columns, Fields, Rows
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64, I64

VERIFY = 0.10
"""Least difference of the medians before and after: the verification that took a published change point
detector from 18 % of false alarms to none."""
SETTLED = 240
"""Points; four minutes at 1 Hz, the continuity of a published fleet detector."""
LASTING = 600
LASTING_NS = 2 * 3600 * 10**9
FORGIVEN = 4
"""A point that does not differ takes so many of those that do."""


class Regimes(Columns):
    """How long each row has been elsewhere: positive for the worse, negative for the better, in points."""

    FIELDS: ClassVar[Fields] = {"num": (np.int32, 0, 0), "since_ns": (np.int64, 0, ABSENT_I64)}
    num: npt.NDArray[np.int32]
    since_ns: I64

    def take(
        self, rows: Rows, is_alarm: npt.NDArray[np.bool_], better: F64, at_ns: I64
    ) -> npt.NDArray[np.bool_]:
        """One judged point of each row: where a new normal is due. `better` is the effect away from the side
        that is worse, NaN or negative where there is none."""
        old = self.num[rows].astype(np.int64)
        with np.errstate(invalid="ignore"):
            is_better = (better >= VERIFY) & ~is_alarm
        num = np.where(
            is_alarm,
            np.maximum(old, 0) + 1,
            np.where(is_better, np.minimum(old, 0) - 1, np.sign(old) * np.maximum(np.abs(old) - FORGIVEN, 0)),
        )
        since = np.where((num != 0) & (np.sign(num) != np.sign(old)), at_ns, self.since_ns[rows])
        self.num[rows], self.since_ns[rows] = num, since
        lasts = (num >= LASTING) & (at_ns - since >= LASTING_NS)
        due: npt.NDArray[np.bool_] = lasts | (num <= -SETTLED)
        return due
