"""A row of a source's table: what one of its fields is, in our signals and units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Blank = Literal["int64", "double", "counter", "none"]
"""Which values are no values: DCGM's of the type, both exactly for raw counters that may grow past them, or
none."""


@dataclass(frozen=True, slots=True)
class Field:
    """`value × factor` is in the signal's unit.

    Several fields of one signal and owner: those of one `part` say the same, and the one of the lowest
    `rank` counts; parts are summed, at the times at which all of them are there.
    """

    signal: str
    factor: float = 1.0
    blank: Blank = "none"
    rank: int = 0
    part: str = ""


PERCENT = 0.01
MEBI = float(1 << 20)
MEGA = 1e6
MILLI = 1e-3
MICRO = 1e-6
NANO = 1e-9
