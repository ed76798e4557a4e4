"""Samples to wide rows: one row a moment of an owner, one column a signal, in a few array operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.batch import BatchOwner, Samples
from stepscope.model.signal import SIGNALS
from stepscope.store.name import Names, text_of
from stepscope.store.schema import KINDS

Column = npt.NDArray[Any]
_KIND = {**{kind: kind for kind in KINDS}, "disk": "link"}


@dataclass(slots=True)
class Block:
    """Rows of one table: `columns` are those of `schema.FIXED` but for `n`, then signals (NaN: absent)."""

    columns: dict[str, Column]
    signals: tuple[str, ...]
    num_samples: int

    def __len__(self) -> int:
        return len(self.columns["at_ns"])


@dataclass(slots=True)
class _Group:
    """Signals that share owner, labels and times: rows from `start` on."""

    start: int
    owner: int
    source: int
    labels: int
    window_ns: int
    missing: int
    at_ns: list[int]
    signals: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Table:
    groups: list[_Group] = field(default_factory=list)
    num_rows: int = 0
    signals: dict[str, int] = field(default_factory=dict)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    """(signal, first row, rows) of each series, beside its values."""
    values: list[list[float]] = field(default_factory=list)


class Widener:
    """Remembers the numbers of owners and labels that come again and again."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._owners: dict[tuple[str, BatchOwner], int] = {}
        self._labels: dict[tuple[tuple[str, str], ...], int] = {}

    def forget(self) -> None:
        """The numbers may be others now."""
        self._owners.clear()
        self._labels.clear()

    def owner(self, host: str, owner: BatchOwner) -> int:
        key = (host, owner)
        found = self._owners.get(key)
        if found is None:
            found = self._owners[key] = self._names.id("owner", text_of([host, owner]))
        return found

    def labels(self, labels: dict[str, str]) -> int:
        key = tuple(labels.items())
        found = self._labels.get(key)
        if found is None:
            text = text_of(dict(sorted(labels.items())))
            found = self._labels[key] = self._names.id("labels", text)
        return found

    def __call__(self, batches: Sequence[Samples], unknown: dict[str, int]) -> dict[str, Block]:
        """Rows by table. `unknown` counts samples by signals that are not known, or whose columns make no
        sense (`""`)."""
        tables: dict[str, _Table] = {}
        for batch in batches:
            self._take(batch, tables, unknown)
        return {kind: _block(table) for kind, table in tables.items() if table.num_rows}

    def _take(self, batch: Samples, tables: dict[str, _Table], unknown: dict[str, int]) -> None:
        source = self._names.id("source", text_of([batch.host, batch.source, batch.collect_ns, batch.lag_ns]))
        window = -1 if batch.window_ns is None else batch.window_ns
        missing = self._names.id("missing", text_of(batch.missing)) if batch.missing else -1
        groups: dict[Any, list[_Group]] = {}
        for each in batch.series:
            signal, at_ns, value = each.signal, each.at_ns, each.value
            num = len(value)
            if signal not in SIGNALS or not num or len(at_ns) != num:
                if num:
                    name = signal if signal not in SIGNALS else ""
                    unknown[name] = unknown.get(name, 0) + num
                continue
            labels = tuple(each.labels.items())
            key = (each.owner, labels, at_ns[0], at_ns[-1], num)
            mine = groups.get(key)
            if mine is None:
                mine = groups[key] = []
            group = None
            for one in mine:
                if signal not in one.signals and one.at_ns == at_ns:
                    group = one
                    break
            kind = _KIND.get(each.owner.kind, "link")
            table = tables.get(kind)
            if table is None:
                table = tables[kind] = _Table()
            if group is None:
                if min(at_ns) < 0 or max(at_ns) >= 1 << 63:  # a time that none can be
                    unknown[""] = unknown.get("", 0) + num
                    continue
                owner, who = self.owner(batch.host, each.owner), self.labels(each.labels)
                group = _Group(table.num_rows, owner, source, who, window, missing, at_ns)
                missing = -1  # said once a batch
                mine.append(group)
                table.groups.append(group)
                table.num_rows += num
            group.signals.add(signal)
            place = table.signals.setdefault(signal, len(table.signals))
            table.places.append((place, group.start, num))
            table.values.append(value)
        if missing >= 0:
            self._missing_alone(batch, tables, source, window, missing)

    def _missing_alone(
        self, batch: Samples, tables: dict[str, _Table], source: int, window: int, missing: int
    ) -> None:
        """Nothing could be read at all: that is kept in a row without samples, at the last known moment."""
        last = max((each.at_ns[-1] for each in batch.series if each.at_ns), default=None)
        if last is None or not 0 <= last < 1 << 63:
            return
        table = tables.setdefault("host", _Table())
        owner = self.owner(batch.host, BatchOwner(kind="host", host=batch.host))
        group = _Group(table.num_rows, owner, source, self.labels({}), window, missing, [last])
        table.groups.append(group)
        table.num_rows += 1


def _block(table: _Table) -> Block:
    groups, num_rows = table.groups, table.num_rows
    lengths = np.fromiter((len(each.at_ns) for each in groups), np.int64, len(groups))

    def spread(name: str, kind: npt.DTypeLike) -> Column:
        return np.repeat(np.array([getattr(each, name) for each in groups], dtype=kind), lengths)

    starts = np.cumsum(lengths) - lengths
    after_first = np.arange(num_rows) != np.repeat(starts, lengths)
    at_ns = np.fromiter(chain.from_iterable(each.at_ns for each in groups), np.int64, num_rows)
    columns: dict[str, Column] = {
        "at_ns": at_ns,
        "owner": spread("owner", np.int32),
        "source": spread("source", np.int32),
        "labels": spread("labels", np.int32),
        "window_ns": _absent(spread("window_ns", np.int64)),
        "missing": _absent(np.where(after_first, np.int32(-1), spread("missing", np.int32))),
    }
    matrix = np.full((len(table.signals), num_rows), np.nan)
    num_samples = 0
    if table.places:
        place, start, num = np.array(table.places, dtype=np.int64).T
        total = int(num.sum())
        values = np.fromiter(chain.from_iterable(table.values), np.float64, total)
        begins = np.cumsum(num) - num
        matrix.reshape(-1)[np.repeat(place * num_rows + start - begins, num) + np.arange(total)] = values
        infinite = np.isinf(matrix)
        if infinite.any():
            matrix[infinite] = np.nan
        num_samples = int(np.count_nonzero(~np.isnan(matrix)))
    names = tuple(table.signals)
    columns |= {name: matrix[table.signals[name]] for name in names}
    return Block(columns, names, num_samples)


def _absent(column: Column) -> Column:
    return np.ma.masked_array(column, column < 0)
