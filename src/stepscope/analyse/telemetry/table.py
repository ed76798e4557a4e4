"""Samples of one owner in columns: a row a reading, a column a signal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from stepscope.model.sample import F64, Owner, Series, Telemetry
from stepscope.model.signal import SIGNALS
from stepscope.model.trace import I64

Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Samples:
    """One owner's samples: `at_ns` ascending as they were read; `columns` signal -> (rows,), NaN where the
    reading has none. A counter's column is its growth a second since the reading before, NaN over a reset.

    `grown` is what each counter grew by in all, `last` its last value. `lag_ns` and `window_ns`: a value read
    at `t` is of `[t − lag − window, t − lag]`; 0 where unknown.
    """

    owner: Owner
    at_ns: I64
    columns: Mapping[str, F64]
    grown: Mapping[str, float] = field(default_factory=dict)
    last: Mapping[str, float] = field(default_factory=dict)
    lag_ns: int = 0
    window_ns: int = 0
    is_lag_known: bool = False

    def __len__(self) -> int:
        return len(self.at_ns)

    def column(self, *names: str) -> F64:
        """The first of these signals that was measured, all NaN where none was."""
        for name in names:
            if name in self.columns:
                return self.columns[name]
        return np.full(len(self.at_ns), np.nan)

    def has(self, name: str) -> bool:
        """Whether the signal has any value."""
        return name in self.columns

    @property
    def period_ns(self) -> int:
        """Median time from one reading to the next, 0 of fewer than two."""
        return int(np.median(np.diff(self.at_ns))) if len(self.at_ns) > 1 else 0

    @property
    def middle_ns(self) -> I64:
        """The middle of what each reading is of."""
        return self.at_ns - self.lag_ns - self.window_ns // 2

    def within(self, start_ns: int, end_ns: int) -> Rows:
        """The rows whose middle lies in [start, end)."""
        middle = self.middle_ns
        return np.asarray((middle >= start_ns) & (middle < end_ns), dtype=bool)

    def take(self, rows: Rows) -> Samples:
        """Only these rows."""
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, at_ns=self.at_ns[rows], columns=columns)


def samples_of(telemetry: Sequence[Telemetry], kinds: Sequence[str] = ("device", "host")) -> list[Samples]:
    """Every owner of these kinds with its samples from all sources, in the order in which they appear.

    A source's readings of one owner share their times; of several sources those of the one with most rows
    are the rows, and the others' values stand in the row that was read nearest, within one of their periods.
    """
    found: dict[tuple[str | int | None, ...], list[Series]] = {}
    owners: dict[tuple[str | int | None, ...], Owner] = {}
    for source in telemetry:
        for series in source.series:
            if series.owner.kind in kinds and len(series):
                found.setdefault(series.owner.key, []).append(series)
                owners[series.owner.key] = _fuller(owners.get(series.owner.key), series.owner)
    return [_joined(owners[key], each) for key, each in found.items()]


def _fuller(known: Owner | None, other: Owner) -> Owner:
    """The owner with what either reading tells of it."""
    if known is None:
        return other
    names = ("uuid", "mig", "index", "pci_bus_id", "model", "host")
    return replace(known, **{n: getattr(other, n) for n in names if getattr(known, n) is None})


def _joined(owner: Owner, series: Sequence[Series]) -> Samples:
    times = [each.at_ns for each in series]
    base = max(times, key=len)
    merged: I64 = base
    same = [t for t in times if len(np.intersect1d(t, base, assume_unique=True)) > 0]
    for those in same:  # a signal that began later or lacks a reading still shares the others' times
        merged = np.union1d(merged, those)
    columns: dict[str, F64] = {}
    grown: dict[str, float] = {}
    last: dict[str, float] = {}
    for each in sorted(series, key=lambda one: -len(one)):
        if each.signal in columns:
            continue  # two sources of one signal: the one with more samples counts
        value = each.value
        if SIGNALS[each.signal].kind == "counter":
            value, grown[each.signal] = _growth(each)
        last[each.signal] = float(each.value[-1])
        columns[each.signal] = _at(merged, each.at_ns, value)
    return Samples(owner, merged, columns, grown, last)


def _growth(series: Series) -> tuple[F64, float]:
    """(growth a second since the sample before, growth in all): a fall is a reset, and says nothing."""
    step = np.diff(series.value)
    seconds = np.diff(series.at_ns) / 1e9
    rate = np.full(len(series), np.nan)
    good = (step >= 0) & (seconds > 0)
    rate[1:][good] = step[good] / seconds[good]
    return rate, float(step[step > 0].sum())


def _at(rows: I64, at_ns: I64, value: F64) -> F64:
    """The values in the rows that were read at the same time, else nearest within the source's own period."""
    result = np.full(len(rows), np.nan)
    place = np.searchsorted(rows, at_ns)
    exact = (place < len(rows)) & (rows[np.minimum(place, len(rows) - 1)] == at_ns)
    if exact.all():
        result[place] = value
        return result
    period = int(np.median(np.diff(at_ns))) if len(at_ns) > 1 else 0
    after = np.clip(np.searchsorted(at_ns, rows), 0, len(at_ns) - 1)
    before = np.maximum(after - 1, 0)
    nearer = np.where(np.abs(at_ns[before] - rows) <= np.abs(at_ns[after] - rows), before, after)
    close = np.abs(at_ns[nearer] - rows) <= max(period, 1_000_000_000)
    result[close] = value[nearer[close]]
    return result
