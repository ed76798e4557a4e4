"""Which part of the store a look at an alarm takes, and what the marks themselves say of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.model.mark import RankMarks
from stepscope.model.sample import Telemetry
from stepscope.offline.stored import Window, from_here_on, window_of
from stepscope.store.contract import Store

S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Range:
    """How far a look goes back. Of an alarm about speed only steps from just before its onset are judged: the
    ordinary ones would thin its cost out; counters, and all of an alarm that says what has stopped or filled
    up, come from `before_ns` earlier."""

    before_ns: int = 300 * S
    margin_ns: int = 2 * S
    least_ns: int = 10 * S
    most_ns: int = 600 * S
    """Of an alarm that goes on for hours the last of it is looked at."""


USUAL_RANGE = Range()


@dataclass(frozen=True, slots=True)
class Seen:
    """`slowdown`: how many times as long the steps take since the onset as before it, by the medians of the
    ranks; `None` where either has too few. `onset_step`: the step that ran at the onset."""

    slowdown: float | None
    onset_step: int | None
    step_ns: int | None
    """The usual step since the onset."""


LEAST_STEPS = 5
SILENT_NS, PERIOD_NS = 60 * S, 2 * S
"""A source that told nothing for so long; from one reading to the next, and a little."""


def window_for(
    store: Store,
    job: str,
    run: str,
    onset_ns: int,
    now_ns: int,
    *,
    is_speed: bool,
    traces: Sequence[str] = (),
    range_: Range = USUAL_RANGE,
) -> tuple[Window, Seen]:
    """The window of one look, up to now, and what its marks say."""
    start = max(min(onset_ns - range_.margin_ns, now_ns - range_.least_ns), now_ns - range_.most_ns)
    wide = window_of(store, job, run, start - range_.before_ns, now_ns + 1, traces)
    seen = _seen(wide.marks, onset_ns)
    if not is_speed:
        return wide, seen
    since = window_of_marks(store, job, run, start, now_ns + 1)
    return replace(wide, start_ns=start, marks=since), seen


def window_of_marks(store: Store, job: str, run: str, start_ns: int, end_ns: int) -> tuple[RankMarks, ...]:
    """Marks of a stretch, as a window has them."""
    return tuple(map(from_here_on, store.marks(job, run, start_ns, end_ns)))


def is_short(window: Window) -> bool:
    """Whether counters of the traced steps are still on their way: an agent holds them for some seconds.
    Those of a source that went silent are not waited for."""
    ends = [
        int(each.steps.end_ns[each.steps.is_captured].max())
        for each in window.marks
        if each.steps.is_captured.any()
    ]
    end_ns = max(ends, default=0)
    return any(end_ns - SILENT_NS < newest < end_ns - period for newest, period in _pace(window.telemetry))


def _pace(telemetry: Sequence[Telemetry]) -> Iterator[tuple[int, int]]:
    """Of each source its newest time, and how long it may be silent: one that looks every ten seconds is not
    late after two."""
    for each in telemetry:
        told = [series.at_ns for series in each.series if len(series)]
        if told:
            longest = max(told, key=len)
            usual = int(np.median(np.diff(longest))) if len(longest) > 2 else 0
            yield max(int(at_ns[-1]) for at_ns in told), max(PERIOD_NS, usual + usual // 2)


def _seen(marks: Sequence[RankMarks], onset_ns: int) -> Seen:
    ratios, steps, usual = [], [], []
    for each in marks:
        start = each.steps.start_ns
        if len(start) < 2:
            continue
        took = np.diff(start)
        is_clean = ~(each.steps.is_captured | each.steps.is_stalled)[:-1]
        before = took[is_clean & (start[1:] <= onset_ns)]
        after = took[is_clean & (start[:-1] >= onset_ns)]
        if len(before) >= LEAST_STEPS and len(after) >= LEAST_STEPS:
            ratios.append(float(np.median(after) / np.median(before)))
        if len(after):
            usual.append(int(np.median(after)))
        at = int(np.searchsorted(start, onset_ns, side="right")) - 1
        steps.append(int(each.steps.step[max(at, 0)]))
    return Seen(
        float(np.median(ratios)) if ratios else None,
        min(steps, default=None),
        max(usual, default=None),
    )
