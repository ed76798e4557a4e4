"""Step times of a stored window by the marks of its ranks: what the closed loop compares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stepscope.analyse.compare.side import StepSeries, series_of_steps
from stepscope.analyse.marked.tile import captured, tiles
from stepscope.model.mark import RankMarks


@dataclass(frozen=True, slots=True)
class MarkedWindow:
    """The steps of a job between two times. `tokens` of a step of one rank and `world_size` are `None` where
    the marks do not say, or not alike."""

    steps: StepSeries
    tokens: float | None
    world_size: int | None


Spans = Sequence[tuple[int, int | None]]
"""Starts and ends in nanoseconds; `None`: it still lasts."""


def marked_window(
    ranks: Sequence[RankMarks], start_ns: int, end_ns: int, settle: int = 0, without: Spans = ()
) -> MarkedWindow:
    """The steps that begin and end within [start, end), without the first `settle` of them and those that
    touch a span of `without`. What a capture touched on any rank is left out on all."""
    ranks = [each for each in ranks if len(each.steps)]
    left_out = frozenset().union(*(captured(each) for each in ranks)) if ranks else frozenset()
    found = []
    tokens: list[float] = []
    for each in ranks:
        of = tiles(each, left_out)
        is_inside = (of.start_ns >= start_ns) & (of.end_ns <= end_ns)
        for first, last in without:
            is_inside &= (of.end_ns <= first) | (of.start_ns >= (end_ns if last is None else last))
        inside = np.flatnonzero(is_inside)[settle:].tolist()
        took = (of.end_ns - of.start_ns).tolist()
        found += [(int(of.number[n]), int(took[n]), of.use[n]) for n in inside]
        told = each.steps.tokens[inside] if len(each.steps.tokens) == len(of) else np.empty(0)
        told = told[np.isfinite(told)]
        tokens += [float(np.median(told))] if len(told) else []
    worlds = {each.identity.world_size for each in ranks} - {None}
    return MarkedWindow(
        series_of_steps(found),
        float(np.median(tokens)) if len(tokens) == len(ranks) and tokens else None,
        worlds.pop() if len(worlds) == 1 else None,
    )


def window_medians(series: StepSeries, size: int = 60) -> tuple[float, ...]:
    """Medians of neighbouring stretches of so many steps: how far windows of one run differ."""
    whole = len(series.counted_ns) // size
    return tuple(float(np.median(series.counted_ns[n * size : (n + 1) * size])) for n in range(whole))
