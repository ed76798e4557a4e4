"""Samples to wide rows: one row a moment of an owner, one column a signal, in a few array operations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from stepscope.model.batch import BatchOwner, BatchSeries, Samples
from stepscope.store.layout import END_NS, Layout, Part, layout_of, usable
from stepscope.store.name import Names, text_of

Column = npt.NDArray[Any]
_MOST = 100_000
_MOST_LAYOUTS = 16_384


@dataclass(slots=True)
class Block:
    """Rows of one table: `columns` are those of `schema.FIXED` but for `n`; `matrix` has a row a signal (NaN:
    absent)."""

    columns: dict[str, Column]
    signals: tuple[str, ...]
    matrix: npt.NDArray[np.float64]

    @property
    def newest_ns(self) -> int:
        return int(self.columns["at_ns"].max())

    @property
    def num_samples(self) -> int:
        return int(np.count_nonzero(~np.isnan(self.matrix)))

    def all_columns(self) -> dict[str, Column]:
        """As DuckDB takes them, signals too."""
        columns = {name: _absent(each) if name in _OPTIONAL else each for name, each in self.columns.items()}
        return columns | dict(zip(self.signals, self.matrix, strict=True))


_OPTIONAL = ("window_ns", "missing")


class Widener:
    """Remembers the numbers of owners and labels that come again and again, and the layouts of sources."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._owners: dict[tuple[str, BatchOwner], int] = {}
        self._labels: dict[tuple[tuple[str, str], ...], int] = {}
        self._layouts: dict[tuple[str, str, int], Layout] = {}

    def forget(self) -> None:
        """The numbers may be others now."""
        self._owners.clear()
        self._labels.clear()

    def owner(self, host: str, owner: BatchOwner) -> int:
        key = (host, owner)
        found = self._owners.get(key)
        if found is None:
            if len(self._owners) >= _MOST:
                self._owners.clear()
            found = self._owners[key] = self._names.id("owner", text_of([host, owner]))
        return found

    def labels(self, labels: dict[str, str]) -> int:
        key = tuple(labels.items())
        found = self._labels.get(key)
        if found is None:
            if len(self._labels) >= _MOST:
                self._labels.clear()
            text = text_of(dict(sorted(labels.items())))
            found = self._labels[key] = self._names.id("labels", text)
        return found

    def known(self, batch: Samples) -> Layout | None:
        """The layout of this batch, where an earlier one had it: then its owners and labels are those of one
        that held no secrets."""
        found = self._layouts.get((batch.host, batch.source, len(batch.series)))
        return found if found is not None and found.fits(batch.series) else None

    def __call__(self, batch: Samples, layout: Layout | None, unknown: dict[str, int]) -> dict[str, Block]:
        """Rows by table, of a batch without secrets; `layout` where it is known. `unknown` counts samples by
        signals that are not known, or whose columns make no sense (`""`)."""
        source = self._names.id("source", text_of([batch.host, batch.source, batch.collect_ns, batch.lag_ns]))
        window = -1 if batch.window_ns is None else batch.window_ns
        missing = self._names.id("missing", text_of(batch.missing)) if batch.missing else -1
        series: Sequence[BatchSeries] = batch.series
        if layout is None:
            series = usable(series, unknown)
            layout = layout_of(series)
            if len(series) == len(batch.series):
                if len(self._layouts) >= _MOST_LAYOUTS:
                    self._layouts.clear()
                self._layouts[batch.host, batch.source, len(series)] = layout
        found = {}
        for part in layout.parts:
            found[part.kind] = self._block(batch.host, series, part, source, window)
        if missing >= 0:
            _tell_missing(found, missing) if found else self._missing_alone(
                batch, found, source, window, missing
            )
        return found

    def _block(self, host: str, series: Sequence[BatchSeries], part: Part, source: int, window: int) -> Block:
        leaders = [series[place] for place in part.leaders]
        lengths = np.array([len(each.at_ns) for each in leaders])
        num_rows = int(lengths.sum())
        starts = np.cumsum(lengths) - lengths
        owners = np.array([self.owner(host, each.owner) for each in leaders], dtype=np.int32)
        who = np.array([self.labels(each.labels) for each in leaders], dtype=np.int32)
        matrix = np.full((len(part.signals), num_rows), np.nan)
        num = lengths[part.group]
        total = int(num.sum())
        values = np.fromiter(
            chain.from_iterable([series[place].value for place in part.series]), np.float64, total
        )
        begins = part.slot * num_rows + starts[part.group] - (np.cumsum(num) - num)
        matrix.reshape(-1)[np.repeat(begins, num) + np.arange(total)] = values
        matrix[np.isinf(matrix)] = np.nan
        columns: dict[str, Column] = {
            "at_ns": np.fromiter(chain.from_iterable([each.at_ns for each in leaders]), np.int64, num_rows),
            "owner": np.repeat(owners, lengths),
            "source": np.full(num_rows, source, dtype=np.int32),
            "labels": np.repeat(who, lengths),
            "window_ns": np.full(num_rows, window, dtype=np.int64),
            "missing": np.full(num_rows, -1, dtype=np.int32),
        }
        return Block(columns, part.signals, matrix)

    def _missing_alone(
        self, batch: Samples, found: dict[str, Block], source: int, window: int, missing: int
    ) -> None:
        """Nothing could be read at all: that is kept in a row without samples, at the last known moment."""
        last = max((each.at_ns[-1] for each in batch.series if each.at_ns), default=None)
        if last is None or not 0 <= last < END_NS:
            return
        owner = self.owner(batch.host, BatchOwner(kind="host", host=batch.host))
        columns: dict[str, Column] = {
            "at_ns": np.array([last], dtype=np.int64),
            "owner": np.array([owner], dtype=np.int32),
            "source": np.array([source], dtype=np.int32),
            "labels": np.array([self.labels({})], dtype=np.int32),
            "window_ns": np.array([window], dtype=np.int64),
            "missing": np.array([missing], dtype=np.int32),
        }
        found["host"] = Block(columns, (), np.zeros((0, 1)))


def _tell_missing(found: dict[str, Block], missing: int) -> None:
    """Said once a batch, in its first row."""
    next(iter(found.values())).columns["missing"][0] = missing


def joined(blocks: Sequence[Block]) -> Block:
    """One after another."""
    if len(blocks) == 1:
        return blocks[0]
    columns = {name: np.concatenate([each.columns[name] for each in blocks]) for name in blocks[0].columns}
    signals = tuple(dict.fromkeys(chain.from_iterable(each.signals for each in blocks)))
    if all(each.signals == signals for each in blocks):
        return Block(columns, signals, np.concatenate([each.matrix for each in blocks], axis=1))
    slot = {name: place for place, name in enumerate(signals)}
    matrix = np.full((len(signals), len(columns["at_ns"])), np.nan)
    begin = 0
    for each in blocks:
        end = begin + each.matrix.shape[1]
        matrix[[slot[name] for name in each.signals], begin:end] = each.matrix
        begin = end
    return Block(columns, signals, matrix)


def _absent(column: Column) -> Column:
    return np.ma.masked_array(column, column < 0)
