"""A cumulative sum for slow drift: small differences that last add up (Page 1954), single points do not.

In sigmas of the baseline: what exceeds the slack, max(sigma, 2.5 %), is added, never more than 4 sigma less
the slack at once; above 12 it is a drift.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.columns import Columns, Fields, Rows
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64, I64

SLACK_RATIO = 0.025
"""Of the normal; of ratios in absolute points. Less is no drift that anybody would act on."""
LIMIT = 12.0
CLIP = 4.0
MOST = 1.5 * LIMIT
"""Higher it does not climb: it must be over soon after the drift is."""


class Sums(Columns):
    """Sums of each row, upwards and downwards, and since when each is above nothing."""

    FIELDS: ClassVar[Fields] = {
        "up": (np.float64, 0, 0.0),
        "down": (np.float64, 0, 0.0),
        "up_number": (np.int64, 0, ABSENT_I64),
        "up_ns": (np.int64, 0, ABSENT_I64),
        "down_number": (np.int64, 0, ABSENT_I64),
        "down_ns": (np.int64, 0, ABSENT_I64),
    }
    up: F64
    down: F64
    up_number: I64
    up_ns: I64
    down_number: I64
    down_ns: I64

    def take(self, rows: Rows, away: F64, slack: F64, number: I64, at_ns: I64) -> None:
        """One point of each row, `away` and `slack` in sigmas."""
        clipped = np.clip(away, -CLIP, CLIP)
        for name, towards in (("up", clipped), ("down", -clipped)):
            total: F64 = getattr(self, name)
            old = total[rows]
            new = np.minimum(np.maximum(old + towards - slack, 0.0), MOST)
            begins = (old <= 0.0) & (new > 0.0)
            total[rows] = new
            for since, of_point in ((f"{name}_number", number), (f"{name}_ns", at_ns)):
                column: I64 = getattr(self, since)
                column[rows] = np.where(begins, of_point, column[rows])

    def side(
        self, rows: Rows, up: npt.NDArray[np.bool_], down: npt.NDArray[np.bool_]
    ) -> npt.NDArray[np.int8]:
        """+1 or -1 where it drifts to a side that counts, else 0."""
        is_up = (self.up[rows] > LIMIT) & up
        is_down = (self.down[rows] > LIMIT) & down
        return is_up.astype(np.int8) - is_down.astype(np.int8)
