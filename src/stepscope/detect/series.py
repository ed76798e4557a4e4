"""What each row of the gates is, what held of it last, and what is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from stepscope.detect.columns import Columns, Fields
from stepscope.detect.gate import I8, Flags
from stepscope.model.sample import F64
from stepscope.model.trace import ABSENT_I64, I64

GAP_NS = 30 * 10**9


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What holds of each row after its point, in the order of `rows`. A row whose point was missing, marked
    or masked keeps what held before it.

    `severity` 0 none, 1 info, 2 warning, 3 critical of the robust gate; `drift` of the cumulative sum;
    `specified` of the specified alarm (either side). `effect` is the median of the last 8 points against
    `normal`, signed (`SeriesKind`); both NaN where they are not known. `num_baseline` points are behind the
    normal, 0 before it is learned (`is_learned`). `onset` is the number, from 0 on, of the point of this row
    with which the deviation began, `onset_ns` its time; `ABSENT_I64` where neither gate nor drift holds.
    `is_masked`: beyond the limit, in a rhythm that is known. `is_new_normal`: with this point a change was
    taken for the rule, and its normal is being learned.
    """

    specified: Flags
    severity: I8
    drift: Flags
    is_masked: Flags
    effect: F64
    normal: F64
    num_baseline: npt.NDArray[np.int32]
    is_learned: Flags
    onset: I64
    onset_ns: I64
    is_new_normal: Flags


class Series(Columns):
    """What a row is, and what held of it last."""

    FIELDS: ClassVar[Fields] = {
        "up": (np.bool_, 0, False),
        "down": (np.bool_, 0, False),
        "is_ratio": (np.bool_, 0, False),
        "quantum": (np.float64, 0, np.nan),
        "number": (np.int64, 0, 0),
        "first_ns": (np.int64, 0, ABSENT_I64),
        "last_ns": (np.int64, 0, ABSENT_I64),
        "gap_ns": (np.int64, 0, GAP_NS),
        "specified": (np.bool_, 0, False),
        "severity": (np.int8, 0, 0),
        "drift": (np.bool_, 0, False),
        "effect": (np.float64, 0, np.nan),
        "onset": (np.int64, 0, ABSENT_I64),
        "onset_ns": (np.int64, 0, ABSENT_I64),
        "slack": (np.float64, 0, 1.0),
        "scale": (np.float64, 0, np.nan),
    }
    up: Flags
    down: Flags
    is_ratio: Flags
    quantum: F64
    number: I64
    first_ns: I64
    last_ns: I64
    gap_ns: I64
    specified: Flags
    severity: I8
    drift: Flags
    effect: F64
    onset: I64
    onset_ns: I64
    slack: F64
    scale: F64
