"""The exact partition of each window, and its idle causes, as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stepscope.analyse.idle import IdlePieces
from stepscope.model.analysis import IdleSpans
from stepscope.model.interval import Intervals, join, overlap_ns, subtract, union
from stepscope.model.report import IDLE_CAUSES, Idle, StepIdle, StepParts
from stepscope.model.trace import I64
from stepscope.trace.link import COMMUNICATION, COMPUTE, COPY, Activities


@dataclass(frozen=True, slots=True)
class Parts:
    """When one device did what: disjoint sets for the exposed parts, and all communication."""

    compute: Intervals
    communication: Intervals
    communication_exposed: Intervals
    copy_exposed: Intervals


def parts_of(activities: Activities) -> Parts:
    """Compute wins over communication, communication over copies."""

    def when(part: int) -> Intervals:
        mask = activities.part == part
        return union(activities.start_ns[mask], activities.end_ns[mask])

    compute, communication, copies = when(COMPUTE), when(COMMUNICATION), when(COPY)
    return Parts(
        compute=compute,
        communication=communication,
        communication_exposed=subtract(communication, compute),
        copy_exposed=subtract(copies, join(compute, communication)),
    )


@dataclass(frozen=True, slots=True)
class WindowSums:
    """Integer nanoseconds per window: arrays of one length; `idle` (windows, causes) in IDLE_CAUSES order."""

    total: I64
    compute: I64
    communication: I64
    communication_exposed: I64
    copy_exposed: I64
    idle: I64

    def summed(self, chosen: npt.NDArray[np.bool_] | slice) -> Mapping[str, int]:
        """Named sums over the chosen windows; idle causes as `idle.<cause>_ns`."""
        sums = {
            "total_ns": int(self.total[chosen].sum()),
            "compute_ns": int(self.compute[chosen].sum()),
            "communication_ns": int(self.communication[chosen].sum()),
            "communication_exposed_ns": int(self.communication_exposed[chosen].sum()),
            "copy_exposed_ns": int(self.copy_exposed[chosen].sum()),
        }
        idle = self.idle[chosen].sum(axis=0)
        sums["idle_ns"] = int(idle.sum())
        sums.update(
            {f"idle.{cause}_ns": int(ns) for cause, ns in zip(IDLE_CAUSES, idle.tolist(), strict=True)}
        )
        return sums

    def by_window(self, i: int) -> Mapping[str, int]:
        """The same names for one window."""
        return self.summed(slice(i, i + 1))


def window_sums(start_ns: I64, end_ns: I64, parts: Parts, idle: IdlePieces) -> WindowSums:
    """Sum the parts and the idle causes over each window.

    Raises AssertionError if they do not add up to the window: that would be our fault, and a wrong report.
    """
    window, piece, length = idle.within(start_ns, end_ns)
    table = np.zeros((len(start_ns), len(IDLE_CAUSES)), dtype=np.int64)
    np.add.at(table, (window, idle.cause[piece]), length)
    sums = WindowSums(
        total=np.maximum(end_ns - start_ns, 0),
        compute=overlap_ns(start_ns, end_ns, parts.compute),
        communication=overlap_ns(start_ns, end_ns, parts.communication),
        communication_exposed=overlap_ns(start_ns, end_ns, parts.communication_exposed),
        copy_exposed=overlap_ns(start_ns, end_ns, parts.copy_exposed),
        idle=table,
    )
    added = sums.compute + sums.communication_exposed + sums.copy_exposed + table.sum(axis=1)
    if not np.array_equal(added, sums.total):
        raise AssertionError("the accounting does not add up to its windows")
    return sums


def without_causes(sums: WindowSums) -> WindowSums:
    """The same sums with every idle nanosecond unknown: for data that cannot carry a cause."""
    idle = np.zeros_like(sums.idle)
    idle[:, IDLE_CAUSES.index("unknown")] = sums.idle.sum(axis=1)
    return WindowSums(
        sums.total, sums.compute, sums.communication, sums.communication_exposed, sums.copy_exposed, idle
    )


MOST_STEPS = 200
"""Steps of a row that are told apart: a page has no more pixels for them."""


def told_steps(total_ns: I64, most: int) -> npt.NDArray[np.intp]:
    """Which steps to tell apart, in their order: all, or of more than `most` the slowest and as many evenly
    spaced ones."""
    num = len(total_ns)
    if num <= most:
        return np.arange(num)
    slowest = np.argsort(-total_ns, kind="stable")[: most - most // 2]
    rest = np.setdiff1d(np.arange(num), slowest)
    spaced = rest[np.linspace(0, len(rest) - 1, most // 2).astype(np.intp)]
    return np.union1d(slowest, spaced)


def step_parts(number: I64, sums: WindowSums, chosen: npt.NDArray[np.bool_]) -> tuple[StepParts, ...]:
    """The report's parts of the chosen windows, at most `MOST_STEPS` of them."""
    at = np.flatnonzero(chosen)
    at = at[told_steps(sums.total[at], MOST_STEPS)]
    columns = (number, sums.total, sums.compute, sums.communication_exposed, sums.copy_exposed)
    rows = zip(*(column[at].tolist() for column in columns), sums.idle[at].tolist(), strict=True)
    return tuple(
        StepParts(
            step=step,
            total_ns=total,
            compute_ns=compute,
            communication_exposed_ns=communication,
            copy_exposed_ns=copy,
            idle_ns=sum(idle),
            idle=StepIdle(**{f"{cause}_ns": ns for cause, ns in zip(IDLE_CAUSES, idle, strict=True) if ns}),
        )
        for step, total, compute, communication, copy, idle in rows
    )


def idle_struct(sums: Mapping[str, int]) -> Idle:
    """The report's struct from named sums."""
    return Idle(**{f"{cause}_ns": sums[f"idle.{cause}_ns"] for cause in IDLE_CAUSES})


def idle_spans(idle: IdlePieces, device: str, *, is_withheld: bool) -> IdleSpans:
    """The pieces as they may be shown: with one cause, unknown, where causes are withheld."""
    cause = np.full(len(idle), IDLE_CAUSES.index("unknown"), dtype=np.int32) if is_withheld else idle.cause
    is_time = idle.end > idle.start
    start, end, cause = idle.start[is_time], idle.end[is_time], cause[is_time]
    is_head = np.ones(len(start), dtype=bool)
    is_head[1:] = (start[1:] != end[:-1]) | (cause[1:] != cause[:-1])
    last = np.append(np.flatnonzero(is_head)[1:] - 1, len(start) - 1) if len(start) else is_head.nonzero()[0]
    return IdleSpans(device, start[is_head], end[last], cause[is_head])
