"""What kind of series a row is: which side of its normal is a fault, and in what its effect is counted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Direction = Literal["up", "down", "both"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKind:
    """`direction` is the side that is worse: step times up, tokens per second down.

    `is_ratio`: values are shares 0..1 and effects absolute points of them (0.95 → 0.85 is −0.10); else an
    effect is a share of the normal. `quantum` is the step between values that the source can tell apart
    (integer percent: 0.01); `None`: found from the baseline's own values.
    """

    direction: Direction = "up"
    is_ratio: bool = False
    quantum: float | None = None


SLOWER = SeriesKind(direction="up")
"""Durations: longer is worse."""
FEWER = SeriesKind(direction="down")
"""Throughputs: less is worse."""
SHARE_DOWN = SeriesKind(direction="down", is_ratio=True)
"""Activities: less is worse."""
EITHER = SeriesKind(direction="both")
