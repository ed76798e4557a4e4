"""Signals of the report: every device's and host's series in a few numbers and points. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from stepscope.align.attribute import by_step
from stepscope.analyse.telemetry.table import Rows, Samples
from stepscope.model import report
from stepscope.model.analysis import RankAnalysis
from stepscope.model.sample import F64, Owner, Series
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64

if TYPE_CHECKING:
    from stepscope.diagnose.telemetry import Device

MOST_POINTS = 240
"""Points of one series: two for each of some hundred pixels."""
GAP_PERIODS = 2.5


def summaries(
    devices: Sequence[Device],
    hosts: Sequence[Samples],
    analyses: Sequence[RankAnalysis],
    sources: Mapping[tuple[str | int | None, ...], str],
) -> tuple[report.SignalSummary, ...]:
    """A row a signal and owner, devices first, in the order of the catalogue; `sources` name those of
    hosts."""
    rows: list[report.SignalSummary] = []
    for each in devices:
        rank, windows, named = None, None, None
        if each.place is not None:
            analysis = analyses[each.place[0]]
            named = named_as(each.samples.owner, analysis.devices[each.place[1]].accounting.device)
            rank = analysis.rank
            activity = analysis.devices[each.place[1]].activity
            if activity is not None and activity.step_start_ns is not None:
                windows = (activity.step_number, activity.step_start_ns, activity.step_end_ns)
        rows += _of_owner(each.samples, each.rows, each.source, rank, windows, named)
    for each_host in hosts:
        rows += _of_owner(
            each_host, np.ones(len(each_host), dtype=bool), sources.get(each_host.owner.key, "")
        )
    return _thinned(rows)


MOST_POINTS_IN_ALL = 40_000
"""Of all signals: about a megabyte of JSON."""


def _thinned(rows: Sequence[report.SignalSummary]) -> tuple[report.SignalSummary, ...]:
    """The rows with fewer points each where there are many devices."""
    most = max(MOST_POINTS_IN_ALL // max(len(rows), 1), 8)

    def thin(row: report.SignalSummary) -> report.SignalSummary:
        if len(row.points) <= most:
            return row
        at, value = (np.array(each) for each in zip(*row.points, strict=True))
        return msgspec.structs.replace(row, points=points(at, value, most))

    return tuple(map(thin, rows))


def device_of(owner: Owner) -> report.Device:
    """The report's device of an owner."""
    if owner.kind == "host":
        return report.Device(kind="host")
    return report.Device(index=owner.index, uuid=owner.uuid, name=owner.model)


def named_as(owner: Owner, traced: report.Device) -> report.Device:
    """The device of counters that is one of a trace, under the trace's number: a process counts the devices
    that it may see, an exporter all of the host, and a report has one number for each."""
    found = device_of(owner)
    return found if traced.index is None else msgspec.structs.replace(found, index=traced.index)


def _of_owner(
    samples: Samples,
    rows: Rows,
    source: str,
    rank: int | None = None,
    windows: tuple[I64 | None, I64 | None, I64 | None] | None = None,
    named: report.Device | None = None,
) -> list[report.SignalSummary]:
    found = []
    for name, signal in SIGNALS.items():
        if name not in samples.columns:
            continue
        column = samples.columns[name]
        known = rows & ~np.isnan(column)
        value = column[known]
        if not len(value):
            continue
        is_number = signal.kind in ("gauge", "state")
        found.append(
            report.SignalSummary(
                device=named or device_of(samples.owner),
                signal=name,
                unit=signal.unit,
                mean=float(value.mean()) if len(value) and is_number and signal.aggregate == "mean" else None,
                min=float(value.min()) if len(value) and is_number else None,
                max=float(value.max()) if len(value) and is_number else None,
                samples=len(value),
                coverage=coverage(samples.at_ns[known], samples, rows),
                by_step=_by_step(samples, name, windows) if windows and is_number else (),
                rank=rank,
                host=samples.owner.host,
                source=source or None,
                points=points(samples.at_ns[~np.isnan(column)], column[~np.isnan(column)]),
            )
        )
    return found


def coverage(at_ns: I64, samples: Samples, rows: Rows) -> float | None:
    """The share of the judged time that the readings cover, each for its own period; `None` of one
    reading."""
    times = samples.at_ns[rows]
    period = samples.period_ns
    if len(times) < 2 or not period:
        return None
    span = int(times[-1] - times[0]) + period
    gaps = np.diff(np.sort(at_ns)) - period
    missing = int(gaps[gaps > int((GAP_PERIODS - 1) * period)].sum()) if len(at_ns) > 1 else 0
    edge = max(0, int(at_ns[0] - times[0])) + max(0, int(times[-1] - at_ns[-1])) if len(at_ns) else span
    return max(0.0, min(1.0, 1.0 - (missing + edge) / span))


def _by_step(
    samples: Samples, name: str, windows: tuple[I64 | None, I64 | None, I64 | None]
) -> tuple[report.SignalStep, ...]:
    number, start, end = windows
    if number is None or start is None or end is None or not samples.window_ns or not samples.is_lag_known:
        return ()
    column = samples.columns[name]
    known = ~np.isnan(column)
    series = Series(name, samples.owner, samples.at_ns[known], column[known])
    told = by_step(
        series,
        lag_ns=samples.lag_ns,
        window_ns=samples.window_ns,
        step_start_ns=start,
        step_end_ns=end,
    )
    return tuple(
        report.SignalStep(step=int(number[first]), value=float(value), samples=int(count))
        for first, last, value, count in zip(told.first, told.last, told.value, told.samples, strict=True)
        if first == last
    )


def points(at_ns: I64, value: F64, most: int = MOST_POINTS) -> tuple[tuple[int, float], ...]:
    """At most `most` readings: of each equal part the least and the largest, in order of time."""
    if len(at_ns) <= most:
        return tuple(zip(at_ns.tolist(), value.tolist(), strict=True))
    kept: set[int] = {0, len(at_ns) - 1}
    for part in np.array_split(np.arange(len(at_ns)), most // 2 - 1):
        kept |= {int(part[np.argmin(value[part])]), int(part[np.argmax(value[part])])}
    order = sorted(kept)
    return tuple((int(at_ns[n]), float(value[n])) for n in order)
