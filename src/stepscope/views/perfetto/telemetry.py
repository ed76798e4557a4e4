"""Telemetry as tracks: a counter a signal, clock reasons and missing samples as slices, on the traces' axis.

A value stands where the time that it describes begins: when it was read, less its source's lag where that was
found or declared, less the window that it averages over. Where the lag is not known it stands where it was
read, and its track's name says so.

A viewer holds a counter's last value until the next. So that none is held over a gap, the counter is NaN
from where the last sample before it ends: SQL has NULL there, the viewer draws nothing but the base line;
and a track beside it has a slice over each gap. 0 is never written for what was not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stepscope.model.report import TelemetryClock
from stepscope.model.sample import F64, Owner, Series, Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.model.text import Lang, Text
from stepscope.model.trace import I64
from stepscope.views.counter_word import span
from stepscope.views.label import brackets, joined, word
from stepscope.views.label_signal import clock_reasons, say, signal_name
from stepscope.views.perfetto.verdict import Extent, Mark
from stepscope.views.trend import GAP

AROUND_NS = 60_000_000_000
"""Samples so long before the first and after the last event of the traces are in the file; more where the
traces are longer. An hour of samples would make a second of kernels too small to see."""

# The unit's name in the viewer, and what a value is multiplied by; bytes are the viewer's own.
_UNITS: Mapping[str, tuple[str, float]] = {
    "ratio": ("%", 100.0),
    "Hz": ("MHz", 1e-6),
    "celsius": ("°C", 1.0),
    "W": ("W", 1.0),
    "J": ("J", 1.0),
    "s": ("s", 1.0),
    "B/s": ("B/s", 1.0),
    "1/s": ("/s", 1.0),
    "cores": ("cores", 1.0),
    "B": ("", 1.0),
}
_NO_SAMPLES = Text(en="no samples", zh="没有样本")
_UNKNOWN = Text(en="lag unknown", zh="滞后未知")
_AMBIGUOUS = Text(en="lag ambiguous: {least} to {most}", zh="滞后有歧义：{least} 至 {most}")


@dataclass(frozen=True, slots=True)
class CounterTrack:
    """One counter: `value` holds from `at_ns` to the next and is NaN from where nothing was measured."""

    name: str
    unit: str
    is_bytes: bool
    at_ns: I64
    value: F64


@dataclass(frozen=True, slots=True)
class SliceTrack:
    """Slices that do not overlap."""

    name: str
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class OwnerTracks:
    """The tracks of one device, host or process."""

    title: str
    counters: tuple[CounterTrack, ...]
    slices: tuple[SliceTrack, ...]


def owner_tracks(
    telemetry: Sequence[Telemetry],
    lags: Mapping[str, TelemetryClock],
    extent: Extent | None,
    lang: Lang,
    ranks: Mapping[str, int] | None = None,
) -> tuple[list[OwnerTracks], int]:
    """The tracks of every owner, and how many samples are left out for lying far from `extent`, the time of
    the traces. `lags` are by the name of the source, `ranks` by the UUID of a device."""
    bounds = None
    if extent is not None:
        around = max(AROUND_NS, extent[1] - extent[0])
        bounds = extent[0] - around, extent[1] + around
    owners: dict[tuple[str | int | None, ...], list[tuple[Telemetry, Series]]] = {}
    for source in telemetry:
        for series in source.series:
            owners.setdefault(series.owner.key, []).append((source, series))
    hosts = {source_and[0][1].owner.host for source_and in owners.values()}
    made, outside = [], 0
    for found in owners.values():
        owner = found[0][1].owner
        tracks, left = _tracks(found, lags, bounds, extent is not None, lang)
        outside += left
        if tracks.counters or tracks.slices:
            made.append(replace(tracks, title=_title(owner, len(hosts) > 1, ranks or {}, lang)))
    return made, outside


def _title(owner: Owner, is_of_many: bool, ranks: Mapping[str, int], lang: Lang) -> str:
    if owner.kind == "host":
        return f"{say('counters_of', lang)} {owner.host or say('host_counters', lang)}"
    rank = ranks.get(owner.uuid or "")
    told = [
        (owner.host or "") if is_of_many else "",
        "" if rank is None else f"{word('rank', lang)} {rank}",
        "" if owner.index is None else f"{word('device', lang)} {owner.index}",
        "" if owner.mig is None else f"MIG {owner.mig}",
        "" if owner.pid is None else f"pid {owner.pid}",
        owner.name or "",
    ]
    known = owner.uuid or owner.pci_bus_id or ""
    name = joined(told, lang) or known
    beside = joined((owner.model or "", known if known != name else ""), lang)
    return f"{say('counters_of', lang)} {name}{brackets(beside, lang)}"


def _tracks(
    found: Sequence[tuple[Telemetry, Series]],
    lags: Mapping[str, TelemetryClock],
    bounds: Extent | None,
    has_traces: bool,
    lang: Lang,
) -> tuple[OwnerTracks, int]:
    signals = [series.signal for _, series in found]
    counters: list[CounterTrack] = []
    slices: list[SliceTrack] = []
    times: dict[str, list[I64]] = {}
    outside = 0
    for source, series in found:
        clock = lags.get(source.name)
        note = lag_note(clock, lang) if has_traces else ""
        window = source.window_ns if clock is None or clock.window_ns is None else clock.window_ns
        kept = _moved(series, clock, window or 0)
        # Before the epoch is no time for the viewer.
        low, high = (0, np.iinfo(np.int64).max) if bounds is None else (max(0, bounds[0]), bounds[1])
        inside = (kept.at_ns >= low) & (kept.at_ns <= high)
        outside += int(len(inside) - inside.sum())
        kept = replace(kept, at_ns=kept.at_ns[inside], value=kept.value[inside])
        if not len(kept):
            continue
        several = signals.count(series.signal) > 1
        name = signal_name(series.signal, lang) + brackets(
            joined((source.name if several else "", note), lang), lang
        )
        kind = SIGNALS[series.signal].kind if series.signal in SIGNALS else "gauge"
        times.setdefault(source.name + (f"\0{note}" if note else ""), []).append(kept.at_ns)
        if kind == "mask":
            slices.append(SliceTrack(name, _reasons(kept, window, lang)))
        elif kind != "code":  # the last Xid stays: only its edges say something, and those are events
            counters.append(_counter(name, kept, window))
    for key, columns in times.items():
        gaps = _gaps(np.unique(np.concatenate(columns)))
        if gaps:
            source_name = key.partition("\0")[0]
            title = _NO_SAMPLES.in_(lang) + (brackets(source_name, lang) if len(times) > 1 else "")
            marks = tuple(
                Mark(start, end, _NO_SAMPLES.in_(lang), "stepscope.no_samples") for start, end in gaps
            )
            slices.append(SliceTrack(title, marks))
    return OwnerTracks("", tuple(counters), tuple(slices)), outside


def lag_note(clock: TelemetryClock | None, lang: Lang) -> str:
    """What a track says of its source's lag: nothing where it is taken off."""
    if clock is not None and clock.lag_ns is not None and clock.status in ("found", "declared"):
        return ""
    if clock is not None and clock.status == "ambiguous" and clock.lag_range_ns is not None:
        least, most = map(span, clock.lag_range_ns)
        return _AMBIGUOUS.in_(lang).format(least=least, most=most)
    return _UNKNOWN.in_(lang)


def _moved(series: Series, clock: TelemetryClock | None, window_ns: int) -> Series:
    """The series with each value where the time that it describes begins, where the lag is known."""
    if clock is None or clock.lag_ns is None or clock.status not in ("found", "declared"):
        return series
    return replace(series, at_ns=series.at_ns - clock.lag_ns - window_ns)


def _usual_ns(at_ns: I64) -> int:
    """The usual distance of two samples; 0 of fewer than two."""
    return int(np.median(np.diff(at_ns))) if len(at_ns) > 1 else 0


def _ends(at_ns: I64, window_ns: int | None) -> tuple[I64, np.ndarray]:
    """Where each sample's value ends, and whether nothing follows it there: a gap, or the end."""
    usual = _usual_ns(at_ns)
    hold = max(usual, window_ns or 0) or 1
    following = np.append(at_ns[1:], np.iinfo(np.int64).max)
    is_last = following - at_ns > max(GAP * usual, hold)
    return np.where(is_last, at_ns + hold, following), is_last


def _counter(name: str, series: Series, window_ns: int | None) -> CounterTrack:
    unit = SIGNALS[series.signal].unit if series.signal in SIGNALS else ""
    told, scale = _UNITS.get(unit, ("", 1.0))
    ends, is_last = _ends(series.at_ns, window_ns)
    places = np.flatnonzero(is_last) + 1
    return CounterTrack(
        name,
        told,
        unit == "B",
        np.insert(series.at_ns, places, ends[is_last]),
        np.insert(series.value * scale, places, np.nan),
    )


def _reasons(series: Series, window_ns: int | None, lang: Lang) -> tuple[Mark, ...]:
    """A slice a run of samples with the same bits; none where no bit is set."""
    ends, is_last = _ends(series.at_ns, window_ns)
    mask = series.value.astype(np.int64)
    marks = []
    start = 0
    for at in range(len(mask)):
        if is_last[at] or mask[at + 1] != mask[at]:
            if mask[at]:
                name = joined(clock_reasons(int(mask[at]), lang), lang)
                notes: tuple[tuple[str, int | str], ...] = (("mask", int(mask[at])),)
                marks.append(
                    Mark(int(series.at_ns[start]), int(ends[at]), name, "stepscope.clock_reason", notes)
                )
            start = at + 1
    return tuple(marks)


def _gaps(at_ns: I64) -> list[Extent]:
    """Where a source has no sample of an owner at all."""
    usual = _usual_ns(at_ns)
    if not usual:
        return []
    places = np.flatnonzero(np.diff(at_ns) > GAP * usual)
    return [(int(at_ns[place]) + usual, int(at_ns[place + 1])) for place in places]
