"""What exporters have in common: series to fields by a table, Xids to instants, counters to rates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from stepscope.model.sample import F64, Mark, Owner
from stepscope.model.trace import I64
from stepscope.sources.blank import reasons
from stepscope.sources.field import Field
from stepscope.sources.formats.metric import Metric
from stepscope.sources.gather import Gathering
from stepscope.sources.owner import job_labels

GAP = 5.0
"""A counter's interval longer than this many usual ones is a gap, over which no rate is told."""


def add_by_table(
    gathering: Gathering,
    metrics: Iterable[Metric],
    field_of: Callable[[Metric], Field | None],
    owner_of: Callable[[Metric], Owner | None],
) -> None:
    """Every series that the table knows. What is declared and has no sample is missing, not 0."""
    for metric in metrics:
        gathering.num_samples += len(metric)
        field = field_of(metric)
        if field is None:
            continue
        if not len(metric):
            gathering.missing(metric.name, field.signal, "blank", 1, None)
            continue
        owner = owner_of(metric)
        if owner is None:
            continue
        gathering.add(owner, field, metric.name, metric.at_ns, metric.value)
        gathering.label(owner, job_labels(metric.labels))


def by_name(table: Mapping[str, Field]) -> Callable[[Metric], Field | None]:
    """The table as a function of a series."""
    return lambda metric: table.get(metric.name)


def starts_with(*prefixes: str) -> Callable[[str], bool]:
    return lambda name: name.startswith(prefixes)


def first_ns(metrics: Sequence[Metric]) -> int:
    """When the source begins."""
    return min((int(metric.at_ns[0]) for metric in metrics if len(metric)), default=0)


def last_ns(metrics: Sequence[Metric]) -> int | None:
    """When the source was read last."""
    return max((int(metric.at_ns[-1]) for metric in metrics if len(metric)), default=None)


def xid_gauge(gathering: Gathering, series: Iterable[tuple[Owner, Metric]]) -> None:
    """A mark at each edge of a gauge that holds the last Xid. It stays, so its first value may be years old:
    not new, unless a 0 was seen before it. Labels `err_code`, `err_msg` split one gauge into several
    series."""
    by_owner: dict[tuple[str | int | None, ...], list[tuple[int, int, str]]] = {}
    owners: dict[tuple[str | int | None, ...], Owner] = {}
    for of_series, metric in series:
        owner = replace(of_series, mig=None)  # an Xid is the device's, on whatever instance it stands
        is_code, _ = reasons(metric.value, "int64")
        message = next((text for name, text in metric.labels.items() if name.lower() == "err_msg"), "")
        rows = by_owner.setdefault(owner.key, [])
        owners.setdefault(owner.key, owner)
        rows += [
            (int(at), int(code), message)
            for at, code in zip(metric.at_ns[is_code], metric.value[is_code], strict=True)
            if 0 <= code < 1 << 16
        ]
    for key, rows in by_owner.items():
        before: int | None = None
        for at, code, message in sorted(rows):
            if code and code != before:
                gathering.mark(_xid_mark(at, code, message, owners[key], before is not None))
            before = code


def xid_count(
    gathering: Gathering, owner: Owner, code: int, at_ns: I64, count: F64, start_ns: int, message: str = ""
) -> None:
    """A mark at each rise of a count of one Xid. A count that is there when the source begins may be old."""
    owner = replace(owner, mig=None)
    before = 0.0
    for at, now in zip(at_ns, count, strict=True):
        if now > before:
            gathering.mark(_xid_mark(int(at), code, message, owner, int(at) > start_ns))
        before = float(now)


def _xid_mark(at_ns: int, code: int, message: str, owner: Owner, is_new: bool) -> Mark:
    text = f"Xid {code}: {message}" if message else f"Xid {code}"
    return Mark(at_ns, "xid", text, code, owner, is_new)


def rate(gathering: Gathering, at_ns: I64, total: F64) -> tuple[I64, F64]:
    """(end of each interval, Δtotal / Δt per second) of a counter. Intervals over which it fell (it was
    reset) are dropped, and so are gaps, over which the mean would be taken for one of the usual interval."""
    at_ns, delta, seconds = _differences(gathering, at_ns, total)
    return at_ns, delta / seconds


def ratio_of_totals(gathering: Gathering, at_ns: I64, part: F64, whole: F64) -> tuple[I64, F64]:
    """(end of each interval, Δpart / Δwhole) of two counters at the same times."""
    times, of_whole, _ = _differences(gathering, at_ns, whole)
    same, of_part, _ = _differences(gathering, at_ns, part)
    common, first, second = np.intersect1d(times, same, assume_unique=True, return_indices=True)
    moved = of_whole[first] > 0
    return common[moved], of_part[second][moved] / of_whole[first][moved]


def _differences(gathering: Gathering, at_ns: I64, total: F64) -> tuple[I64, F64, F64]:
    if len(at_ns) < 2:
        return at_ns[:0], np.empty(0), np.empty(0)
    width = np.diff(at_ns)
    is_gap = width > GAP * np.median(width)
    gathering.note(
        "telemetry_gap", int(np.count_nonzero(is_gap)), "no rate is told over a gap between scrapes"
    )
    delta = np.diff(total)
    kept = (delta >= 0) & ~is_gap & (width > 0) & np.isfinite(delta)
    return at_ns[1:][kept], delta[kept], width[kept] / 1e9


def scrape_interval_ns(metrics: Sequence[Metric]) -> int | None:
    """The usual distance of two scrapes; `None` of a single one."""
    widths = [np.median(np.diff(metric.at_ns)) for metric in metrics if len(metric) > 1]
    return int(np.median(widths)) if widths else None


def same_times(parts: Sequence[tuple[I64, F64]]) -> tuple[I64, list[F64]]:
    """The times that all parts have, and their values there."""
    common = parts[0][0]
    for at_ns, _ in parts[1:]:
        common = np.intersect1d(common, at_ns, assume_unique=True)
    return common, [value[np.searchsorted(at_ns, common)] for at_ns, value in parts]


def exact_times(metric: Metric) -> tuple[I64, F64]:
    """Its samples that are numbers, one a time."""
    finite = np.isfinite(metric.value)
    at_ns, place = np.unique(metric.at_ns[finite], return_index=True)
    return at_ns, metric.value[finite][place]
