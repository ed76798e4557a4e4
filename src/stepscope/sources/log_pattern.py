"""A pattern of the caller's own for lines of a training log."""

from __future__ import annotations

import re

from stepscope.model.error import UsageError
from stepscope.model.log import PROGRESS_FIELDS
from stepscope.sources.formats.log_number import RATIO, finite, whole
from stepscope.sources.formats.log_time import Clock
from stepscope.sources.log_step import Stated

_NESTED = re.compile(r"\((?:[^()\\]|\\.)*[+*}](?:[^()\\]|\\.)*\)(?:[+*]|\{\d*,)")


def own_pattern(pattern: str) -> re.Pattern[str]:
    """A pattern of the caller, checked. UsageError where it is none, lacks `step`, or could take for ever."""
    try:
        made = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"the log pattern is no regular expression ({error}): mend it") from error
    names = set(made.groupindex)
    if "step" not in names:
        raise UsageError(
            "the log pattern has no group called step: write (?P<step>\\d+) where the step stands"
        )
    unknown = sorted(names - {"step", "time", "total", *PROGRESS_FIELDS})
    if unknown:
        known = ", ".join(("step", "time", "total", *PROGRESS_FIELDS))
        raise UsageError(f"the log pattern has a group called {unknown[0]}: use {known}")
    if _NESTED.search(pattern):
        raise UsageError(
            "the log pattern repeats a group that itself repeats: it could take for ever; write it flat"
        )
    return made


def by_pattern(made: re.Pattern[str], text: str, clock: Clock) -> tuple[Stated, int | None] | None:
    """What a line states by a pattern of the caller, with its time; `None` where it does not match."""
    match = made.search(text)
    if match is None:
        return None
    group = {name: value for name, value in match.groupdict().items() if value is not None}
    step = whole(group.get("step", ""))
    if step is None:
        return None
    stated = Stated(step=step, total=whole(group["total"]) if "total" in group else None)
    for name in PROGRESS_FIELDS:
        written = group.get(name)
        if written is None:
            continue
        factor = RATIO["%"] if written.strip().endswith("%") else 1.0
        value = finite(written.strip().rstrip("%"))
        if value is not None:
            stated.values[name] = value * factor
        elif name in ("loss", "grad_norm") and written.strip().lower().lstrip("+-")[:3] in ("nan", "inf"):
            stated.not_finite.append(name)
    return stated, clock.whole(group["time"]) if "time" in group else None
