"""How long what is kept, and when an hour is over."""

from __future__ import annotations

from dataclasses import dataclass, fields

from stepscope.model.error import UsageError

SECOND_NS = 1_000_000_000
MINUTE_NS = 60 * SECOND_NS
HOUR_NS = 60 * MINUTE_NS
DAY_NS = 24 * HOUR_NS
WEEK_NS = 7 * DAY_NS


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Ages in nanoseconds, sizes in bytes.

    Raw rows are samples, marks and lines; `coarser_ns` is of hours, days, weeks, events, documents of the
    past and op summaries; `traces_ns` of whole traces. `most_bytes` of raw and minutes, `most_trace_bytes`
    of whole traces: the oldest goes first. `None`: no bound.
    """

    raw_ns: int = 7 * DAY_NS
    minutes_ns: int = 90 * DAY_NS
    coarser_ns: int = 730 * DAY_NS
    traces_ns: int = 30 * DAY_NS
    most_bytes: int | None = None
    most_trace_bytes: int | None = 20 << 30
    grace_ns: int = 10 * MINUTE_NS
    """An hour is sealed so long after its end, when rows have gone on so far."""
    late_ns: int = 2 * HOUR_NS
    """And so long after its end in any case, though no rows come any more."""
    reserve_bytes: int = 64 << 20
    """Left free on the disk: what the engine needs to come to an end in order."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value < 0:
                raise UsageError(f"retention: {each.name} is {value}; give a number that is not negative")
        if not HOUR_NS <= self.raw_ns <= self.minutes_ns <= self.coarser_ns:
            what = "raw rows are kept an hour at least, minutes no shorter than raw rows, hours no shorter"
            raise UsageError(f"retention: {what} than minutes; give longer times")
