"""One host process, and the windows of a row, as the analysis of its devices sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.launched import Launched
from stepscope.analyse.use import UsedSteps
from stepscope.analyse.window import Windows
from stepscope.model import report
from stepscope.model.interval import Intervals, union
from stepscope.model.trace import I32, I64, Trace
from stepscope.trace.host_cause import NameFacts
from stepscope.trace.link import Activities
from stepscope.trace.thread import Threads


@dataclass(frozen=True, slots=True)
class Process:
    """One host process as the analysis of its devices sees it.

    `is_blocking_copy` is per activity, of its launch.
    `idle_effect` is the worst that health issues of the whole process do to idle causes.
    """

    trace: Trace
    kinds: I32
    facts: NameFacts
    threads: Threads
    activities: Activities
    who: Launched
    is_blocking_copy: npt.NDArray[np.bool_]
    is_launch_call: npt.NDArray[np.bool_]
    used: UsedSteps
    rank: int | None
    world_size: int | None
    idle_effect: report.Effect
    is_clock_known: bool
    """Host and device times can be compared: without that nobody knows what was issued when."""
    prepared: I64
    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Scope:
    """One accounting row's windows and which of them it sums."""

    name: report.Scope
    windows: Windows
    chosen: npt.NDArray[np.bool_]

    @property
    def inside(self) -> Intervals:
        return union(self.windows.start_ns[self.chosen], self.windows.end_ns[self.chosen])
