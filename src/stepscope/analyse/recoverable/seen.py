"""What all searches for recoverable time look at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.operator import Calls
from stepscope.analyse.roofline import Known
from stepscope.model.report import COMPUTE_KINDS
from stepscope.model.trace import I64

F64 = npt.NDArray[np.float64]
PLACE = {kind: place for place, kind in enumerate(COMPUTE_KINDS)}
"""Kind of compute -> its place, as in `Launched.kind`."""


@dataclass(slots=True)
class Seen:
    """Activities of one device in scope. All arrays have one entry an activity.

    `own_ns` is its compute time, `which` the place of its op among `known` (of no meaning where it `has_op`
    not), `step` the step that launched it; `taken` marks those that have their label.
    """

    calls: Calls
    own_ns: F64
    known: list[Known]
    which: npt.NDArray[np.intp]
    has_op: npt.NDArray[np.bool_]
    step: I64
    taken: npt.NDArray[np.bool_]

    def of_known(self, chosen: list[bool]) -> npt.NDArray[np.bool_]:
        """Activities not taken yet of ops that are chosen among `known`."""
        result: npt.NDArray[np.bool_] = self.has_op & ~self.taken
        result &= np.array(chosen or [False])[self.which]
        return result

    def of_kind(self, *kinds: str) -> npt.NDArray[np.bool_]:
        """Activities of these kinds of compute."""
        return np.isin(self.calls.who.kind, [PLACE[kind] for kind in kinds])

    def has_shapes(self) -> bool:
        """Whether shapes were recorded: without them nothing is known of what ops could share."""
        return any(self.known[key].call.shapes for key in np.unique(self.which[self.has_op]).tolist())
