"""Values that can be, by the table of signals."""

from __future__ import annotations

import math

from stepscope.model.signal import SIGNALS


def is_possible(signal: str, value: float) -> bool:
    """Whether a number can be this signal's. What cannot is missing, never clipped and never 0."""
    row = SIGNALS[signal]
    return (
        math.isfinite(value)
        and (row.least is None or value >= row.least)
        and (row.most is None or value <= row.most)
    )
