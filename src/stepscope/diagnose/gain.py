"""Whether a change won anything: steps behind it against those of the incident, and against those before."""

from __future__ import annotations

import numpy as np

from stepscope.analyse.compare.likeness import WORK_SHARE, differ
from stepscope.analyse.compare.marked import MarkedWindow, window_medians
from stepscope.diagnose.compare import LEAST_CHANGE, judged, of_series
from stepscope.model.comparison import ComparedClass, Measure, StepTime
from stepscope.model.incident import Gain
from stepscope.model.sample import F64
from stepscope.model.text import duration, percent

LEAST_BEHIND = 60
"""Clean steps behind a change before it is judged: as many as a baseline needs."""
LEAST_OF_INCIDENT = 8
"""Steps of the incident itself, as many as the gate that found it looks at."""


def gain_of(
    healthy: MarkedWindow,
    incident: MarkedWindow,
    behind: MarkedWindow,
    predicted: tuple[float, float] | None,
    *,
    are_alarms_over: bool,
) -> Gain:
    """What a change won of the incident's step.

    `healthy` are the steps before the incident, which may be none. An incident that steps do not tell of (a
    temperature, an error) is judged by its alarms: they are over since the change, or not.
    """

    def unknown(why: str) -> Gain:
        return Gain(verdict="unknown", predicted=predicted, why=why)

    if len(behind.steps.counted_ns) < LEAST_BEHIND:
        num = len(behind.steps.counted_ns)
        return unknown(f"{num} clean steps since the change, {LEAST_BEHIND} are needed")
    if len(incident.steps.counted_ns) < LEAST_OF_INCIDENT:
        return unknown("the incident itself has too few steps to compare with")
    worlds = incident.world_size, behind.world_size
    if None not in worlds and worlds[0] != worlds[1]:
        return unknown(f"not comparable: {worlds[0]} ranks before, {worlds[1]} now")
    per_token = incident.tokens and behind.tokens and differ(incident.tokens, behind.tokens, WORK_SHARE)
    history = window_medians(healthy.steps)
    times = _times(incident, behind, bool(per_token), history)
    class_, by = judged(times)
    is_hidden = class_ == "unknown"
    decided = next((each for each in times if each.measure == by), times[0])
    cost = _times(healthy, incident, False, ())
    has_cost = not cost or any(each.is_beyond and each.share > 0 for each in cost)
    if not has_cost and class_ != "worse":
        if are_alarms_over:
            return Gain(
                verdict="better", predicted=predicted,
                why="steps never told of it; its alarms are over since the change",
            )  # fmt: skip
        return unknown("steps do not tell of it, and its alarms still hold")
    if is_hidden and not are_alarms_over and decided.share > -LEAST_CHANGE:
        # The noise could hide a gain; that what was found still holds says that there is none.
        class_ = "same"
    noise = None
    if decided.low is not None and decided.high is not None:
        noise = (decided.high - decided.low) / 2
    return Gain(
        verdict=class_,
        predicted=predicted,
        realised=-decided.share,
        noise=noise,
        why=_hidden(class_, is_hidden, decided) + _why(decided, cost, healthy, behind),
    )


def _times(
    base: MarkedWindow, new: MarkedWindow, per_token: bool, history_ns: tuple[float, ...]
) -> tuple[StepTime, ...]:
    amounts = [(window.tokens or 1.0) if per_token else 1.0 for window in (base, new)]
    measures: tuple[Measure, ...] = ("median", "mean")
    found = []
    for measure in measures:
        series: list[F64] = [
            (window.steps.counted_ns if measure == "median" else window.steps.all_ns) / amount
            for window, amount in zip((base, new), amounts, strict=True)
        ]
        made = of_series(
            *series, measure=measure, basis="token" if per_token else "step",
            history_ns=history_ns,
        )  # fmt: skip
        found += [made] if made is not None else []
    return tuple(found)


def _hidden(class_: ComparedClass, is_hidden: bool, decided: StepTime) -> str:
    """What the noise leaves open; empty where it does not."""
    if not is_hidden:
        return ""
    if class_ == "same":
        return "steps are no faster, and its alarms still hold: "
    whose = "earlier windows of the job differ" if decided.source == "history" else "steps scatter"
    if decided.low is None or decided.high is None:
        return "too few steps show noise: "
    return f"{whose} by ±{percent((decided.high - decided.low) / 2)}, which may hide or make the difference: "


def _why(decided: StepTime, cost: tuple[StepTime, ...], healthy: MarkedWindow, behind: MarkedWindow) -> str:
    told = (
        f"{decided.measure} {decided.basis} {duration(decided.base_ns)} in the incident, "
        f"{duration(decided.new_ns)} since the change"
    )
    if not cost:
        return told
    before, now = float(np.median(healthy.steps.counted_ns)), float(np.median(behind.steps.counted_ns))
    left = now / before - 1
    if decided.basis != "step":
        return told
    rest = "as fast as before it" if left < LEAST_CHANGE else f"still {percent(left)} slower than before it"
    return f"{told}; {duration(before)} before the incident: {rest}"
