"""The five minutes whose low use is to be explained, and how much of them was rest.

A mean hides it: a device that works for one minute and rests for four is busy for a fifth of the five. What
counts is the share of quiet readings.
"""

from __future__ import annotations

import numpy as np

from stepscope.analyse.telemetry.device import LEAST_ROWS, QUIET, busy, least_five_minutes
from stepscope.analyse.telemetry.table import Rows, Samples

RESTED_SHARE = 0.5
"""Five minutes of which so many readings are quiet are a rest: less is a pause between steps."""
STARTED_SHARE = 0.2
"""A start that is over is an answer from this share of all readings on: of a long run it is a small part."""


def rest(samples: Samples, rows: Rows, before: Rows) -> Rows:
    """Of the readings `rows` the five minutes of least use; where the device worked in those, the ones of
    least use since the start (`before` as well), if it rested then.

    A start that is over hides no rest that came after it, though the device did even less in it.
    """
    least = least_five_minutes(samples, rows)
    every = np.asarray(rows | before, dtype=bool)
    if before.sum() < STARTED_SHARE * every.sum() or quiet_share(samples, least) >= RESTED_SHARE:
        return least
    earlier = least_five_minutes(samples, every)
    return earlier if quiet_share(samples, earlier) >= RESTED_SHARE else least


def numbers(samples: Samples) -> dict[str, float]:
    """`quiet_five_minutes` of the readings of five minutes; empty where fewer than three tell of use."""
    known = ~np.isnan(busy(samples))
    return {"quiet_five_minutes": quiet_share(samples, known)} if known.sum() >= LEAST_ROWS else {}


def quiet_share(samples: Samples, rows: Rows) -> float:
    """Of these readings, those that tell of use, the share with the device hardly busy; 0 of none."""
    value = busy(samples)[rows]
    value = value[~np.isnan(value)]
    return float((value < QUIET).mean()) if len(value) else 0.0
